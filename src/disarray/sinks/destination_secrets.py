"""Urls and keys of destinations, read where and when they are used: no task carries them, and they are kept nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.errors import ConfigError, DestinationMisfitError
from disarray.secret import read_secret

if TYPE_CHECKING:
    from disarray.model.description.secret import SecretSource


def destination_secret(source: SecretSource, *, where: str = "") -> str:
    """What an environment variable or a file holds; the error names where it was sought and nothing else."""
    try:
        return read_secret(source).strip()
    except ConfigError as error:
        raise DestinationMisfitError(f"{error}{where}. Nothing was loaded") from None
