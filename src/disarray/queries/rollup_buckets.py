"""Buckets of a rollup, put together from the parts that segments contributed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control import values
from disarray.control.snapshots import snapshot
from disarray.errors import InvalidRequestError
from disarray.model.rollup_parts import RollupPart, bucket_value
from disarray.model.segments import microseconds_of
from disarray.queries.metric_values import refuse_unknown_channel
from disarray.store.definitions import assert_made_under

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.control.connections import Connection
    from disarray.control.values import Number, StoredPart
    from disarray.model.description.dataset import Dataset
    from disarray.model.description.rollups import Rollup


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketValues:
    """One bucket of one channel: a number for each aggregate, None where it had no points."""

    channel: str
    start_us: int
    end_us: int
    label: str
    numbers: Mapping[str, Number | None]
    points: Mapping[str, int]
    is_final: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledUp:
    """Buckets by channel and time, all of one moment, and from when on numbers of the subject are stale."""

    buckets: tuple[BucketValues, ...]
    stale_from_us: int | None


def rollup(
    connection: Connection,
    *,
    dataset: Dataset,
    subject_key: str,
    rollup: Rollup,
    from_us: int,
    to_us: int,
    channel: str | None = None,
    most_values: int | None = None,
) -> RolledUp:
    """The buckets that overlap [from_us, to_us) and hold readings. The newest may still be filling."""
    with snapshot(connection):
        assert_made_under(connection, dataset, subject_key)
        stale_from = values.stale_from(connection, dataset.name, subject_key)
        stored = values.load_rollup(
            connection,
            dataset.name,
            subject_key,
            rollup=rollup.name,
            from_us=from_us,
            to_us=to_us,
            channel=channel,
            limit=None if most_values is None else most_values + 1,
        )
        if channel is not None and not stored and dataset.metrics:
            refuse_unknown_channel(connection, dataset, subject_key, dataset.metrics[0], channel)
    if most_values is not None and len(stored) > most_values:
        raise InvalidRequestError(
            f"this asks for more than {most_values:,} parts of buckets, which are not answered at once. Nothing was "
            "changed; ask for a shorter span"
        )
    stale_from_us = None if stale_from is None else microseconds_of(stale_from)
    by_bucket: dict[tuple[str, int], dict[str, list[StoredPart]]] = defaultdict(lambda: defaultdict(list))
    for part in stored:
        by_bucket[part.channel, part.bucket_us][part.aggregate].append(part)
    buckets = []
    for (channel, start_us), aggregates in sorted(by_bucket.items()):
        any_part = next(iter(aggregates.values()))[0]
        numbers = {
            aggregate.name: bucket_value(
                aggregate.function, [_part(part) for part in aggregates.get(aggregate.name, ())]
            )
            for aggregate in rollup.aggregates
        }
        buckets.append(
            BucketValues(
                channel=channel,
                start_us=start_us,
                end_us=any_part.bucket_end_us,
                label=any_part.label,
                numbers=numbers,
                points={name: sum(part.points for part in parts) for name, parts in aggregates.items()},
                is_final=stale_from_us is None or any_part.bucket_end_us <= stale_from_us,
            )
        )
    return RolledUp(buckets=tuple(buckets), stale_from_us=stale_from_us)


def _part(stored: StoredPart) -> RollupPart:
    return RollupPart(
        points=stored.points,
        value=stored.value,
        pivot=stored.pivot,
        offset_sum=stored.offset_sum,
        offset_square_sum=stored.offset_square_sum,
    )
