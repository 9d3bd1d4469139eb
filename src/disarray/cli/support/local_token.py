"""The token of this machine: whoever can read the state folder may use the REST server of the embedded mode."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from disarray.errors import ConfigError
from disarray.model.api_token import ApiToken, make_token, read_token

if TYPE_CHECKING:
    from pathlib import Path

FILE_NAME = "api-token"


def local_token(state_dir: Path) -> ApiToken:
    """The token in the state folder, made if there is none; one that others could have read is made anew."""
    path = state_dir / FILE_NAME
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        return _stored(path) or _stored_after_making(path)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be used: {error.strerror or error}. The REST server was not started; nothing else changed"
        ) from error


def _stored(path: Path) -> ApiToken | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
        state = os.fstat(file.fileno())
        is_private = state.st_uid == os.geteuid() and not stat.S_IMODE(state.st_mode) & 0o077
        if not is_private or not stat.S_ISREG(state.st_mode):
            return None
        return read_token(file.read(200).strip())


def _stored_after_making(path: Path) -> ApiToken:
    path.unlink(missing_ok=True)
    token = make_token()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        # Another process of ours was faster; what it wrote is as good.
        other = _stored(path)
        if other is None:
            raise
        return other
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{token.text}\n")
    return token
