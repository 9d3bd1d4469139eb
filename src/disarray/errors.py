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
