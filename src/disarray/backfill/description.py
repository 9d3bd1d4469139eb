"""A backfill as it is described: what it does, how fast, and how it is proved. A kind is a description of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from disarray.model.duration import format_duration
from disarray.model.segments import FIRST_US, LAST_US

if TYPE_CHECKING:
    from disarray.model.description.secret import SecretSource

XMIN = "xmin"
LARGEST_CHUNK = 1_000_000


class KindName(StrEnum):
    """What a backfill does; whoever looks at a kind closes its dispatch with `assert_never`."""

    UPDATE = "update"  # columns of a user's own table are set
    REPUBLISH = "republish"  # a destination is loaded anew
    REBUILD = "rebuild"  # subjects are moved to the definition in force, one after the other
    REPLAY = "replay"  # subjects are made once more from their files, and compared with what is stored
    RESYNC = "resync"  # a table is read once more, whole, in place of all that its source delivered


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The table, and the unique columns by which it is cut; without a url it is in the database of disarray."""

    table: str
    cursor: tuple[str, ...]
    where: str | None = None
    batch_rows: int = 1_000
    url: SecretSource | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What becomes of a row: SQL expressions by column, or a Python function on Arrow tables that gives columns."""

    expressions: dict[str, str] = field(default_factory=dict)
    function: str | None = None
    columns: tuple[str, ...] = ()  # what the function gets beside the cursor
    set_columns: tuple[str, ...] = ()
    version: str = XMIN
    create: bool = False  # may the table of marks be created in the user's database


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a chunk is tried, and how long it waits: `backoff_seconds`, each time `multiplier` times as long."""

    max_attempts: int = 5
    backoff_seconds: float = 1.0
    multiplier: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Processing:
    """How fast, how large, how often."""

    max_concurrency: int = 2
    rate_limit: float | None = None  # rows a second, over all workers
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    target_seconds: float = 0.1
    min_rows: int = 10
    max_rows: int = 50_000
    cut_ahead: int = 8
    lock_seconds: float = 0.5
    max_error_rate: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLimits:
    """Beyond which others suffer, and the backfill waits; None: not looked at."""

    max_commit_p99_seconds: float | None = 30.0
    max_queue_age_seconds: float | None = 120.0
    max_lock_waits: int | None = 20
    max_replication_lag_seconds: float | None = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """How the end is proved beside the checksums, which are always on."""

    checksum_query: str | None = None
    check: str | None = None  # SQL that holds for every row that was transformed
    derived_check: str | None = (
        None  # the same, as it follows from the expressions; found when the job starts
    )
    allows_changes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What every kind of backfill has: how fast it goes, and when it waits or stops."""

    name: str
    processing: Processing = field(default_factory=Processing)
    health: HealthLimits = field(default_factory=HealthLimits)
    alert_threshold: float = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSpec(JobSpec):
    """Columns of a user's own table are set."""

    kind: ClassVar = KindName.UPDATE

    source: Source
    update: Update
    verification: Verification = field(default_factory=Verification)

    @property
    def target(self) -> str:
        """What it works on, for people."""
        return self.source.table

    @property
    def url(self) -> SecretSource | None:
        """Where its database is; None: it is the one of disarray."""
        return self.source.url

    @property
    def summary(self) -> str:
        """What it does, for people."""
        return (
            f"sets {', '.join(self.set_columns)} of {self.source.table}, by {', '.join(self.source.cursor)}"
        )

    @property
    def proof(self) -> str:
        """What verification goes by, for people."""
        return self.row_check.replace("\n", "") if self.row_check else "checksums of chunks alone"

    @property
    def first_rows(self) -> int:
        """The size of the first chunk."""
        return self.source.batch_rows

    @property
    def allows_changes(self) -> bool:
        """Whether what others changed since keeps it from being verified."""
        return self.verification.allows_changes

    @property
    def set_columns(self) -> tuple[str, ...]:
        """The columns that it writes."""
        return tuple(self.update.expressions) or self.update.set_columns

    @property
    def row_check(self) -> str | None:
        """SQL that holds for a transformed row: as given, or as follows from the expressions."""
        return self.verification.check or self.verification.derived_check

    @property
    def reads_what_it_sets(self) -> bool:
        """Whether an expression may read a column that the job writes: applied again it gives another value."""
        words = {
            word.casefold()
            for expression in self.update.expressions.values()
            for word in re.findall(r"\w+", expression)
        }
        return bool(words & {column.casefold() for column in self.set_columns})


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What is replayed: the segments of some subjects that start in a span, under the definitions of `versions`.

    Where `last_us` is given, the span begins so long before the job does; its start writes out `from_us`.
    """

    datasets: tuple[str, ...] | None = None  # None: every one that is described
    subjects: tuple[str, ...] | None = None
    last_us: int | None = None
    from_us: int = FIRST_US
    to_us: int = LAST_US
    allows_vanished: bool = False  # what is kept of files that are gone stands in for them
    versions: dict[str, tuple[str, str]] = field(default_factory=dict)  # dataset → parsing, scanning


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySpec(JobSpec):
    """Subjects are made once more from their files, into scratch, and compared with what is stored."""

    kind: ClassVar = KindName.REPLAY
    url: ClassVar[SecretSource | None] = None
    first_rows: ClassVar[int] = 1  # a chunk is a subject, however large
    allows_changes: ClassVar[bool] = False

    replay: Replay

    @property
    def target(self) -> str:
        """What it works on, for people."""
        return ", ".join(self.replay.datasets or ("every dataset",))

    @property
    def summary(self) -> str:
        """What it does, for people."""
        span = "" if self.replay.last_us is None else f", the last {format_duration(self.replay.last_us)}"
        subjects = f" of {', '.join(self.replay.subjects)}" if self.replay.subjects else ""
        return f"makes {self.target}{subjects} once more from the files{span}, and compares"

    @property
    def proof(self) -> str:
        """What verification goes by, for people."""
        return "readings, segments, summaries, bases and rollup parts, to the bit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuild:
    """Which subjects are moved to the definitions of `versions`, which are in force when the job starts."""

    subjects: tuple[str, ...] | None = None
    versions: dict[str, tuple[str, str]] = field(default_factory=dict)  # dataset → parsing, scanning


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildSpec(JobSpec):
    """Subjects are moved to the definition in force one after the other, each with one commit."""

    kind: ClassVar = KindName.REBUILD
    url: ClassVar[SecretSource | None] = None
    first_rows: ClassVar[int] = 1  # a chunk is a subject, however large
    allows_changes: ClassVar[bool] = False

    rebuild: Rebuild

    @property
    def target(self) -> str:
        """What it works on, for people."""
        return ", ".join(sorted(self.rebuild.versions))

    @property
    def summary(self) -> str:
        """What it does, for people."""
        return f"makes the numbers of {self.target} anew, subject after subject"

    @property
    def proof(self) -> str:
        """What verification goes by, for people."""
        return "each subject made once more from its files, to the bit"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepublishSpec(JobSpec):
    """All subjects of a destination are loaded anew; a row is a subject."""

    kind: ClassVar = KindName.REPUBLISH

    destination: str

    @property
    def target(self) -> str:
        """What it works on, for people."""
        return f"destination {self.destination}"

    @property
    def url(self) -> SecretSource | None:
        """It begins in the database of disarray; where the target is, the destination says."""
        return None

    @property
    def summary(self) -> str:
        """What it does, for people."""
        return f"loads destination {self.destination} anew, subject by subject"

    @property
    def proof(self) -> str:
        """What verification goes by, for people."""
        return "count and checksum of the rows of each subject, in the target and as they are answered here"

    @property
    def first_rows(self) -> int:
        """The size of the first chunk."""
        return 1

    @property
    def allows_changes(self) -> bool:
        """What was committed since is loaded by the destination itself, and keeps nothing from being verified."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Resync:
    """Which source is resynced, and whether more of what counts may go than is usual."""

    source: str
    allows_deletes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResyncSpec(JobSpec):
    """The table of a source is read once more, whole, and what the source delivered before gives way to that."""

    kind: ClassVar = KindName.RESYNC
    url: ClassVar[SecretSource | None] = None
    first_rows: ClassVar[int] = 20_000
    # What others change meanwhile is pulled.
    allows_changes: ClassVar[bool] = True

    resync: Resync

    @property
    def target(self) -> str:
        """What it works on, for people."""
        return f"source {self.resync.source}"

    @property
    def summary(self) -> str:
        """What it does, for people."""
        return f"reads the table of source {self.resync.source} once more, whole, and takes out what is gone there"

    @property
    def proof(self) -> str:
        """What verification goes by, for people."""
        return "count and checksum of each stretch: as read, as staged, and of the table, before any number changes"


# One member for each kind.
BackfillSpec: TypeAlias = UpdateSpec | ReplaySpec | RebuildSpec | RepublishSpec | ResyncSpec
