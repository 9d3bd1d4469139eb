"""Secrets by reference, read whenever they are needed: what was changed counts from the next time on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from disarray.errors import ConfigError

if TYPE_CHECKING:
    from disarray.model.description.secret import SecretSource

_LARGEST = 65_536


def read_secret(source: SecretSource) -> str:
    """The secret, without the line end that editors add; `ConfigError` names what is missing, and no secret."""
    if source.env:
        secret = os.environ.get(source.env, "")
    else:
        try:
            with Path(source.file).expanduser().open(encoding="utf-8") as stream:
                secret = stream.read(_LARGEST + 1)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise ConfigError(f"{source} cannot be read: {reason}") from error
    secret = secret.strip("\r\n")
    if not 0 < len(secret) <= _LARGEST:
        raise ConfigError(f"there is no secret in {source}")
    return secret
