"""The one place where PostgreSQL's error codes become our exceptions."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg_pool import PoolTimeout

from disarray.errors import (
    AccessDeniedError,
    CommitsDroppedError,
    ControlError,
    DatabaseBusyError,
    DatabaseUnavailableError,
    DimensionChangedError,
    InvalidRequestError,
    KeyReusedError,
    LeaseLostError,
    NoEventsTakenError,
    NotBlacklistedError,
    NotDeadLetterError,
    NotQuarantinedError,
    RequestRunningError,
    SchemaMissingError,
    SegmentDiffersError,
    SegmentSealedError,
    StaleIncarnationError,
    StalePlanError,
    SupersededDefinitionError,
    TimeLimitError,
    UnknownBackfillError,
    UnknownFileError,
    UnknownInstanceError,
    UnknownTokenError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

OWN_CODES: dict[str, type[ControlError]] = {
    "DA001": InvalidRequestError,
    "DA002": LeaseLostError,
    "DA003": StaleIncarnationError,
    "DA004": UnknownInstanceError,
    "DA005": NotBlacklistedError,
    "DA006": StalePlanError,
    "DA007": NotQuarantinedError,
    "DA008": SupersededDefinitionError,
    "DA010": NotDeadLetterError,
    "DA011": UnknownFileError,
    "DA012": CommitsDroppedError,
    "DA013": NoEventsTakenError,
    "DA020": UnknownTokenError,
    "DA021": RequestRunningError,
    "DA022": KeyReusedError,
    "DA030": SegmentSealedError,
    "DA031": SegmentDiffersError,
    "DA032": DimensionChangedError,
    "DA040": UnknownBackfillError,
}

BUSY_CODES = frozenset({"40001", "40P01", "55P03"})
STATEMENT_TIMEOUT_CODE = "57014"
MISSING_CODES = frozenset({"3F000", "42883", "42P01"})
# The server ends the whole session with these: the connection is gone, and with it the open transaction. That is no
# outage, and no doubt either: what it was in the middle of did not take effect.
SESSION_TIMEOUT_CODES = frozenset({"25P03", "25P04"})
DISK_FULL_CODE = "53100"
ACCESS_CODES = frozenset({"42501", "28000", "28P01"})


@contextmanager
def translated_errors() -> Iterator[None]:
    """Let nothing of psycopg reach a caller."""
    try:
        yield
    except (psycopg.Error, UnicodeEncodeError) as error:
        raise translate(error) from error


def translate(error: psycopg.Error | UnicodeEncodeError) -> ControlError:
    """The exception that tells a caller what to do about a database error."""
    if isinstance(error, UnicodeEncodeError):
        return InvalidRequestError(f"{error.object[:200]!r} is not valid Unicode text. Nothing was stored.")
    code = error.sqlstate
    message = _message_of(error)
    if code in OWN_CODES:
        return OWN_CODES[code](message)
    if code == STATEMENT_TIMEOUT_CODE:
        return TimeLimitError(
            f"the server broke off a statement: {message}. Nothing was changed; the call can be repeated."
        )
    if code in SESSION_TIMEOUT_CODES:
        return broken_off(message)
    if code in BUSY_CODES:
        return DatabaseBusyError(f"{message}. Nothing was changed; the call can be repeated.")
    if code in MISSING_CODES:
        return SchemaMissingError(f"{message}. Nothing was changed. Run: disarray db migrate")
    if code in ACCESS_CODES:
        return AccessDeniedError(f"{message}. Nothing was changed; connect with a role that may do this.")
    if code == DISK_FULL_CODE:
        return DatabaseUnavailableError(
            f"the disk of the database is full: {error.diag.message_primary}. Nothing was changed. "
            "Free space there: what waits for it goes on by itself"
        )
    if isinstance(error, PoolTimeout) or _is_connection_failure(error):
        return DatabaseUnavailableError(f"the database does not answer: {message}. Run: disarray doctor")
    if isinstance(error, psycopg.DataError):
        return InvalidRequestError(f"{message}. Nothing was stored.")
    return ControlError(f"{message} (SQLSTATE {code or 'none'})")


def broken_off(reason: str) -> TimeLimitError:
    """For a transaction that the server ended for its time."""
    return TimeLimitError(
        f"the server broke off a transaction: {reason}. Nothing was changed; the call can be repeated."
    )


def _message_of(error: psycopg.Error) -> str:
    message = error.diag.message_primary or str(error).strip() or type(error).__name__
    hint = error.diag.message_hint
    return f"{message.removesuffix('.')}. {hint}" if hint else message


def _is_connection_failure(error: psycopg.Error) -> bool:
    code = error.sqlstate
    if code is None:
        # psycopg raises these itself when the socket is gone; a server error always has a code.
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    # Too little memory, or a limit, for one statement is that statement's trouble: the server goes on for others.
    return code.startswith(("08", "57P", "53")) and code not in ("53200", "53400")
