"""Every error a person can meet: what happened, what state the data is in, what to do next."""

from __future__ import annotations

from os import PathLike, fspath, strerror
from shlex import quote
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN_FILES = 3


class DisarrayError(Exception):
    """The root of all errors that disarray raises on purpose; the CLI prints them without a traceback."""


class ConfigError(DisarrayError):
    """A configuration or dataset description cannot be used as written. Nothing was read or changed."""


class ControlError(DisarrayError):
    """The control database refused or could not answer. Whatever was asked for did not happen, or is unknown."""


class InvalidRequestError(ControlError):
    """A value cannot be stored. Nothing was changed; the sender has to mend it."""


class LeaseLostError(ControlError):
    """The subject or item is no longer this worker's. Nothing was changed; drop the work."""


class StaleIncarnationError(LeaseLostError):
    """An instance of this name was started since. This process must stop."""


class TargetFencedError(LeaseLostError):
    """A target knows a later load than this one. Nothing was changed in it."""

    def __init__(self, message: str, *, target_fence: int) -> None:
        super().__init__(message)
        self.target_fence = target_fence


class StalePlanError(ControlError):
    """A segment changed since it was planned on. Nothing was changed; plan again."""


class SupersededDefinitionError(ControlError):
    """Another definition of the dataset was put in force. Nothing was changed; a process with the former must stop."""


class SegmentSealedError(ControlError):
    """Readings of a segment are no longer kept, so its numbers can change no more. Nothing was changed."""


class SegmentDiffersError(ControlError):
    """Compacted, a segment would no longer say what it says. Nothing was changed; its fragments may be damaged."""


class UnknownInstanceError(ControlError):
    """No instance of this name ever registered."""


class NotBlacklistedError(ControlError):
    """The file is not on the blacklist."""


class NotDeadLetterError(ControlError):
    """The file was not given up, or is discarded."""


class UnknownFileError(ControlError):
    """No file of this uri was ever announced."""


class NoEventsTakenError(ControlError):
    """The dataset is not known, or takes no events. Nothing was stored."""


class CommitsDroppedError(ControlError):
    """Commits that were asked for are no longer kept; what a follower has is to be loaded anew."""


class AccessDeniedError(ControlError):
    """The database role may not do this."""


class SchemaMissingError(ControlError):
    """The database has no, or an older, disarray schema."""


class FunctionsDifferError(SchemaMissingError):
    """The database runs the functions of another program, and this role may not replace them."""


class ObjectInTheWayError(ControlError):
    """A view or function of a user depends on what would have to be dropped. Nothing was changed."""

    @classmethod
    def of(cls, dependants: str) -> Self:
        """`dependants` is what the database says about them."""
        named = "; ".join(line.strip() for line in dependants.splitlines() if line.strip())
        return cls(
            f"{named}. This release changes it, and what is yours is not dropped for it. Nothing was changed. Drop the "
            "dependent object, run 'disarray db migrate', and create it again"
        )


class SchemaTooNewError(ControlError):
    """The database was migrated by a newer program with which this one cannot work."""


class MigrationChangedError(ControlError):
    """A migration that was applied before reads differently now."""


class DatabaseBusyError(ControlError):
    """A deadlock, a serialization failure or a timeout: the same call may succeed when repeated."""


class TimeLimitError(DatabaseBusyError):
    """The server broke off a statement or transaction that took longer than its session may. Nothing was changed."""


class DatabaseUnavailableError(ControlError):
    """The connection failed or broke. Whether the last statement took effect is unknown."""


class EmbeddedServerError(DisarrayError):
    """The embedded PostgreSQL cannot be used as asked. What was committed before is untouched."""


class ServerDidNotStartError(EmbeddedServerError):
    """PostgreSQL or its set-up ended with an error; `log_tail` holds its last words."""

    def __init__(self, message: str, *, log_tail: str) -> None:
        super().__init__(f"{message}\n\n{log_tail}" if log_tail else message)
        self.log_tail = log_tail


class ServerBusyError(EmbeddedServerError):
    """Another process holds the state folder and did not let go in time."""


class DataVersionError(EmbeddedServerError):
    """The data directory was written by another major version of PostgreSQL."""

    def __init__(self, message: str, *, found: str, expected: str) -> None:
        super().__init__(message)
        self.found = found
        self.expected = expected


class DatabaseUnreachableError(DisarrayError):
    """No connection to PostgreSQL could be made; nothing was read or changed."""


class DurationError(ConfigError):
    """A text is not a duration."""


class SegmentRangeError(DisarrayError):
    """A time lies outside what segments can hold."""


class ExpressionError(ConfigError):
    """An expression cannot be read or does not fit the columns; `position` counts characters from 0."""

    def __init__(self, message: str, *, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


class SpecError(ConfigError):
    """A description is not valid; `problems` holds every fault found in the file, one line each."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class FormatUnknownError(ConfigError):
    """No instrument description has this name."""


class DatasetOverlapError(ConfigError):
    """A file matches two datasets; it was given to neither."""


class SubjectMissingError(DisarrayError):
    """A file belongs to a dataset but does not say which subject it is about; nothing was read from it."""


class FingerprintError(DisarrayError):
    """A stored fingerprint cannot be used. Nothing was read; a reingest of the file makes a new one."""


class UnsafePathError(DisarrayError):
    """A path is a link, a device, a directory, or outside the allowed roots. Nothing was read."""


class UnreadableFileError(DisarrayError):
    """A file as a whole cannot be read as its format says. Nothing of it is kept."""


class FragmentWriteError(DisarrayError):
    """Fragments could not be written. The catalog knows nothing of them; free space or mend the lake, then retry."""

    @classmethod
    def at(cls, path: str | PathLike[str], error: OSError) -> Self:
        """The lake takes nothing at this path: no file that was to be read is to blame."""
        return cls(
            f"the lake cannot be written: {fspath(path)}: {error.strerror or error}. Nothing was committed, and what "
            "is stored is untouched. Free space or mend the lake; what waits for it is tried again by itself"
        )


class LandingWriteError(DisarrayError):
    """A delivery could not be written. Nothing was taken from the source; free space or mend the folder, then retry."""

    @classmethod
    def at(cls, path: str | PathLike[str], error: OSError) -> Self:
        """The landing folder takes nothing at this path."""
        return cls(
            f"the landing folder cannot be written: {fspath(path)}: {error.strerror or error}. Nothing was taken from "
            "the source, which goes on from where it was. Free space or mend the folder; it is tried again by itself"
        )


class SourceError(DisarrayError):
    """A table source could not be read. Nothing of the batch was taken; the source goes on from where it was."""

    # What to do next, in the words of each kind.
    remedy = "It is tried again by itself, later and later"
    # What happened, without what follows for a pull.
    finding = ""

    @classmethod
    def of(cls, source_name: str, reason: str) -> Self:
        """What happened to which source."""
        finding = f"source {source_name}: {reason.rstrip('.')}"
        error = cls(f"{finding}. Nothing of this batch was taken. {cls.remedy}")
        error.finding = finding
        return error


class SourceUnavailableError(SourceError):
    """The database of a source is away, or went away."""


class SourceTimeoutError(SourceError):
    """The database of a source broke a statement off for its time."""

    remedy = (
        "It is tried again by itself; an index on cursor and key, a smaller limit or a longer timeout helps"
    )


class SourceAccessError(SourceError):
    """The database of a source refuses the login, or the login may not read the table."""

    remedy = "Mend the url or grant SELECT on the table; it is tried again by itself"


class SourceLayoutError(SourceError):
    """The columns of a source are not those that were read before, or cannot be read."""

    remedy = (
        "Mend the table or the description. If the change is meant, run: disarray source reset NAME --to VALUE, which "
        "learns the columns anew"
    )


class SourceKeyError(SourceError):
    """The key of a source is NULL or not unique, so that rows cannot be told apart."""

    remedy = "Name the columns that tell rows apart in key, or read a query that leaves such rows out"


class SourceReplacedError(SourceError):
    """The database behind a source is not the one that was read before."""

    remedy = (
        "What it took before is kept. Decide from where to go on, and run: disarray source reset NAME --to VALUE; rows "
        "that come twice count once"
    )


class FragmentReadError(DisarrayError):
    """A fragment that the catalog names cannot be read. Nothing was changed."""

    @classmethod
    def at(cls, path: str | PathLike[str], error: Exception) -> Self:
        """The lake lacks this file, or it is damaged."""
        reason = strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        return cls(
            f"the lake cannot be read: {fspath(path)}: {reason}. Nothing was changed; what needs no reading of it is "
            "served as before. `disarray audit` lists what is missing; bring it back from the backup of the lake. What "
            "waits for it goes on by itself"
        )


class FragmentDamagedError(FragmentReadError):
    """Bytes of the lake are not those that were written. Nothing is made of them, and nothing was changed.

    `row_groups` are those of the file that are meant; empty: all that are asked for.
    """

    def __init__(self, message: str, *, path: str, reason: str, row_groups: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.path = path
        self.reason = reason
        self.row_groups = row_groups

    @classmethod
    def of_file(cls, path: str, reason: str, *, row_groups: tuple[int, ...] = ()) -> Self:
        """A file of the lake is damaged; `holding` says whose readings are in it."""
        message = (
            f"the file {path} of the lake is damaged: {reason}. None of it is used, and nothing was changed"
        )
        return cls(message, path=path, reason=reason, row_groups=row_groups)

    def holding(self, subject_key: str, source_uris: Sequence[str]) -> FragmentDamagedError:
        """The same, with all that an operator needs: whose readings it keeps, and what to run."""
        shown = source_uris[:_SHOWN_FILES]
        more = f" and {len(source_uris) - len(shown)} more" if len(source_uris) > len(shown) else ""
        commands = "; ".join(f"disarray files reingest {quote(uri)}" for uri in shown)
        return FragmentDamagedError(
            f"the file {self.path} of the lake is damaged: {self.reason}. It keeps readings of {subject_key} from "
            f"{', '.join(shown)}{more}. They are not used and nothing was changed; what needs none of them is served "
            f"as before. To have them read again, run: {commands}. Or bring the file of the lake back from its backup. "
            "What waits for that goes on by itself",
            path=self.path,
            reason=self.reason,
            row_groups=self.row_groups,
        )


class FormatCheckError(DisarrayError):
    """A description does not read its sample as it should; `failures` names every check that failed."""

    def __init__(self, failures: tuple[str, ...]) -> None:
        super().__init__("\n".join(failures))
        self.failures = failures


class ExpressionOverflowError(DisarrayError):
    """An expression over whole numbers left int64 where its value is used. Nothing was changed."""


class FoldOverflowError(DisarrayError):
    """A metric or rollup grew beyond what its type can hold. Nothing of the segment was changed."""


class FragmentMismatchError(DisarrayError):
    """A fragment does not hold what the catalog says about it. Nothing of the segment was changed."""


class EngineLostError(DisarrayError):
    """Spark's JVM is gone. What was claimed is handed back; the process has to be started again."""


class HandedBackError(DisarrayError):
    """A pass was broken off because its worker ends. Its items are free again, as if they had never been claimed."""


class TransportUnavailableError(DisarrayError):
    """Notifications could not be handed over. None is lost: they stay in the sender's spool and are sent again."""


class BadMessageError(DisarrayError):
    """A message is not what it should be. Nothing of it was queued; it goes to the dead letters with this reason."""


class StateFileBusyError(DisarrayError):
    """Another agent works with the same state file. Nothing was changed."""


class StateFileUnusableError(DisarrayError):
    """The disk takes or gives nothing of the state file. What is in it stays; nothing new was noted or announced."""


class SpoolFullError(DisarrayError):
    """The spool of a producer has no room. What was given was not kept; what it had before is there."""


class SpoolUnusableError(DisarrayError):
    """The spool of a producer cannot be read or written. What was kept in it before is not touched."""


class EventsNotTakenError(DisarrayError):
    """A server did not take events. They are kept in the spool and sent again."""


class NotQuarantinedError(ControlError):
    """Nothing of the file waits for a decision."""


class UnknownNameError(DisarrayError):
    """No subject, metric, rollup, channel or file of this name is known. Nothing was read or changed."""


class AmbiguousNameError(DisarrayError):
    """A name stands for several things; the message says how to choose."""


class DefinitionChangedError(DisarrayError):
    """The numbers of a subject were made under another definition than the one at hand. Nothing was read."""


class NotBuiltYetError(DisarrayError):
    """A metric or rollup is defined, and the subject waits for the rebuild that makes its numbers."""


class RebuildBlockedError(DisarrayError):
    """A subject cannot be moved to the definition in force. Its old numbers stay; the message says what to do."""


class ExportError(DisarrayError):
    """A file could not be written. The database and the lake are untouched."""


class ReadingsGoneError(DisarrayError):
    """Readings that the catalog knows cannot be read from the lake. Stored numbers are as they were."""


class UnstorableTextError(DisarrayError):
    """A reading holds text that the database cannot. Nothing of its segment was changed."""


class StoreMismatchError(ConfigError):
    """disarray.toml and the catalog disagree on where the readings of a dataset live. Nothing was changed."""


class TableChangedError(ControlError):
    """A table of readings has not the columns that its dataset declares. Nothing was written to it."""


class DimensionChangedError(ControlError):
    """A table of dimension values no longer says what was written. Nothing was written to it or to its readings."""


class DimensionTooWideError(DisarrayError):
    """A column that is declared a dimension has too many values for one. Nothing was written."""


class ViewError(DisarrayError):
    """A view cannot be made as its file says. The view that there is, if any, stays as it was."""


class UnknownTokenError(ControlError):
    """No API token of this name was ever made."""


class UnknownBackfillError(ControlError):
    """No backfill of this number was ever started."""


class BackfillTargetError(DisarrayError):
    """The table of a backfill is not what its job needs. What is committed stays; the message says what to do."""


class BackfillChunkError(DisarrayError):
    """A chunk of a backfill could not be processed. Nothing of it was changed; it is tried again, or is dead."""


class RequestRunningError(ControlError):
    """A request with the same Idempotency-Key is under way; this one did nothing."""


class KeyReusedError(ControlError):
    """An Idempotency-Key was used for another request; this one did nothing."""


class AddressRefusedError(DisarrayError):
    """A hook would have to connect to where the configuration does not allow it. Nothing was sent."""


class PortUnavailableError(DisarrayError):
    """The REST server cannot listen where it was told to. Nothing else was affected."""


class DestinationError(DisarrayError):
    """Something about the target of a destination: nothing of this load is in it, and it is tried again."""


class DestinationUnavailableError(DestinationError):
    """The target does not answer, or has no room. It is tried again until it is back."""


class DestinationMisfitError(DestinationError):
    """The target is not what it has to be: a table, a column, a key or a privilege is missing."""


class DestinationConflictError(DestinationError):
    """Somebody else wrote to the target at the same moment, and was first. Nothing was changed; try again soon."""


class ExcessiveDeletesError(DestinationError):
    """A load would delete more of the target than it may without somebody having said so. Nothing was deleted."""


class UnloadableRowsError(DestinationError):
    """The target refuses the rows of one subject; those of others are loaded."""
