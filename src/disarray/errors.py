"""Every error a person can meet: what happened, what state the data is in, what to do next."""

from __future__ import annotations


class DisarrayError(Exception):
    """The root of all errors that disarray raises on purpose; the CLI prints them without a traceback."""


class ConfigError(DisarrayError):
    """A configuration or dataset description cannot be used as written. Nothing was read or changed."""


class FingerprintError(DisarrayError):
    """A stored fingerprint cannot be used. Nothing was read; a reingest of the file makes a new one."""


class UnsafePathError(DisarrayError):
    """A path is a link, a device, a directory, or outside the allowed roots. Nothing was read."""


class UnreadableFileError(DisarrayError):
    """A file as a whole cannot be read as its format says. Nothing of it is kept."""
