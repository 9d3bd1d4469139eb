"""Every error a person can meet: what happened, what state the data is in, what to do next."""

from __future__ import annotations


class DisarrayError(Exception):
    """The root of all errors that disarray raises on purpose; the CLI prints them without a traceback."""


class ConfigError(DisarrayError):
    """A configuration or dataset description cannot be used as written. Nothing was read or changed."""
