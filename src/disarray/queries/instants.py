"""Instants and lengths as people write them, read in one way for everybody who asks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

from disarray.errors import InvalidRequestError
from disarray.model.duration import parse_duration
from disarray.model.segments import microseconds_of


def read_instant(given: str | datetime, *, zone: tzinfo = UTC) -> int:
    """Microseconds of an ISO time or a datetime; a text that names no zone is in `zone`."""
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise InvalidRequestError(
                f"{given.isoformat()} has no zone, so it is no instant. Nothing was read; give it one, such as "
                "datetime(2026, 10, 2, tzinfo=UTC)"
            )
        instant = given
    else:
        try:
            instant = datetime.fromisoformat(given)
        except ValueError:
            raise InvalidRequestError(f"{given!r} is no ISO time such as 2026-10-02T08:00Z") from None
    try:
        if instant.tzinfo is None:
            instant = _in_zone(instant, zone)
        return microseconds_of(instant.astimezone(UTC))
    except OverflowError:
        raise InvalidRequestError(f"{str(given)!r} is not within the years 1 to 9999 in UTC") from None


def read_length(given: str | timedelta) -> int:
    """Microseconds of a length of at least one: '15 min', '1 d', or a timedelta."""
    length = given // timedelta(microseconds=1) if isinstance(given, timedelta) else parse_duration(given)
    if length <= 0:
        raise InvalidRequestError("it has to be longer than nothing")
    return length


def _in_zone(local: datetime, zone: tzinfo) -> datetime:
    """The first of the instants at which clocks of the zone show this."""
    instant = local.replace(tzinfo=zone, fold=0)
    if instant.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != local:
        raise InvalidRequestError(f"no clock of {zone} shows {local.isoformat()}: it is put forward over it")
    return instant
