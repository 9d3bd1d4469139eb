"""Why a line is not a reading: a reason from a closed list, where it stands, and a sample that is safe to print."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

MAX_LISTED_REJECTS = 1_000
SAMPLE_BYTES = 200


class RejectReason(StrEnum):
    """The closed list of reasons; their text is stored and shown."""

    LINE_TOO_LONG = "line_too_long"
    NUL_BYTE = "nul_byte"
    STRAY_CARRIAGE_RETURN = "stray_carriage_return"
    UNDECODABLE = "undecodable"
    UNTERMINATED_QUOTE = "unterminated_quote"
    TOO_FEW_CELLS = "too_few_cells"
    TOO_MANY_CELLS = "too_many_cells"
    MISSING_VALUE = "missing_value"
    BAD_NUMBER = "bad_number"
    NONFINITE = "nonfinite"
    INTEGER_OVERFLOW = "integer_overflow"
    BAD_BOOLEAN = "bad_boolean"
    BAD_TIME = "bad_time"
    MISSING_TIME = "missing_time"
    TIME_OUT_OF_RANGE = "time_out_of_range"
    NONEXISTENT_LOCAL_TIME = "nonexistent_local_time"
    IN_FUTURE = "in_future"
    NO_SUBJECT = "no_subject"
    REPEATED_HEADER = "repeated_header"
    NO_HEADER = "no_header"
    BAD_JSON = "bad_json"
    TRUNCATED_STREAM = "truncated_stream"


@dataclass(frozen=True, slots=True)
class Reject:
    """One rejected line (or row): `offset` is its byte position in the unpacked file."""

    line: int
    offset: int
    reason: RejectReason
    column: str | None
    sample: str


class RowRejected(Exception):  # noqa: N818 - a verdict on one row that travels up the exact path, not an error
    """Ends the exact reading of one row."""

    def __init__(self, reason: RejectReason, column: str | None = None) -> None:
        super().__init__(reason, column)
        self.reason = reason
        self.column = column


@dataclass(slots=True)
class RejectLog:
    """Counts every reject exactly and lists the first ones: a file of junk must not fill the memory."""

    listed: list[Reject] = field(default_factory=list)
    by_reason: Counter[RejectReason] = field(default_factory=Counter)

    def add(
        self, reason: RejectReason, *, line: int, offset: int, raw: bytes, column: str | None = None
    ) -> None:
        """Count a reject, and keep it if there is room."""
        self.by_reason[reason] += 1
        if len(self.listed) < MAX_LISTED_REJECTS:
            self.listed.append(Reject(line, offset, reason, column, sample_of(raw)))

    @property
    def total(self) -> int:
        """How many there were."""
        return self.by_reason.total()


def sample_of(raw: bytes) -> str:
    """A short piece of a line as printable ASCII: no control character survives, every byte can be told."""
    return raw[:SAMPLE_BYTES].decode("latin-1").encode("unicode_escape").decode("ascii")
