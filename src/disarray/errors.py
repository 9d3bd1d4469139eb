"""Every error a person can meet: what happened, what state the data is in, what to do next."""

from __future__ import annotations


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


class StalePlanError(ControlError):
    """A segment changed since it was planned on. Nothing was changed; plan again."""


class OtherVersionError(DisarrayError):
    """Readings or numbers of a subject were made under another definition of its dataset. Nothing was changed."""


class UnknownInstanceError(ControlError):
    """No instance of this name ever registered."""


class NotBlacklistedError(ControlError):
    """The file is not on the blacklist."""


class AccessDeniedError(ControlError):
    """The database role may not do this."""


class SchemaMissingError(ControlError):
    """The database has no, or an older, disarray schema."""


class SchemaTooNewError(ControlError):
    """The database was migrated by a newer program with which this one cannot work."""


class MigrationChangedError(ControlError):
    """A migration that was applied before reads differently now."""


class DatabaseBusyError(ControlError):
    """A deadlock, a serialization failure or a timeout: the same call may succeed when repeated."""


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


class TransportUnavailableError(DisarrayError):
    """Notifications could not be handed over. None is lost: they stay in the sender's spool and are sent again."""


class BadMessageError(DisarrayError):
    """A message is not what it should be. Nothing of it was queued; it goes to the dead letters with this reason."""


class StateFileBusyError(DisarrayError):
    """Another agent works with the same state file. Nothing was changed."""


class NotQuarantinedError(ControlError):
    """Nothing of the file waits for a decision."""


class UnknownNameError(DisarrayError):
    """No subject, metric, rollup, channel or file of this name is known. Nothing was read or changed."""


class AmbiguousNameError(DisarrayError):
    """A name stands for several things; the message says how to choose."""


class DefinitionChangedError(DisarrayError):
    """Readings were folded under another definition than the one in force. Stored numbers are as they were."""


class ExportError(DisarrayError):
    """A file could not be written. The database and the lake are untouched."""


class ReadingsGoneError(DisarrayError):
    """Readings that the catalog knows cannot be read from the lake. Stored numbers are as they were."""
