"""Where a secret is to be had: an environment variable or a file, never the configuration itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.model.description.spec_table import MisfitError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import PurePath


@dataclass(frozen=True, slots=True)
class SecretSource:
    """The name of a variable, or the path of a file; read whenever it is needed, so that it can be changed."""

    env: str = ""
    file: str = ""

    def document(self) -> dict[str, str]:
        """As it is written in the configuration."""
        return {"env": self.env} if self.env else {"file": self.file}

    def __str__(self) -> str:
        return f"the environment variable {self.env}" if self.env else f"the file {self.file}"


def secret_source(folder: PurePath) -> Callable[[object], SecretSource]:
    """A reader of `{ env = "NAME" }` or `{ file = "path" }`; relative paths start at `folder`."""

    def read(value: object) -> SecretSource:
        expected = 'a secret by reference: { env = "NAME" } or { file = "path" }'
        if not isinstance(value, dict):
            # Not shown: whoever wrote the secret itself here must not find it in a log.
            raise MisfitError(expected, found="something else (not shown)")
        if len(value) != 1 or not isinstance(next(iter(value.values())), str):
            raise MisfitError(expected, found=value)
        [(key, text)] = value.items()
        if key not in ("env", "file") or not text or not text.isprintable():
            raise MisfitError(expected, found=key)
        return SecretSource(env=text) if key == "env" else SecretSource(file=str(folder / text))

    return read
