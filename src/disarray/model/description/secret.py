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


def secret_source(folder: PurePath | None = None) -> Callable[[object], SecretSource]:
    """A reader of `{ env = "NAME" }` or `{ file = "path" }`.

    Relative paths start at `folder`; without one, where the secret is read.
    """

    def read(value: object) -> SecretSource:
        expected = 'a secret by reference: { env = "NAME" } or { file = "path" }'
        if not isinstance(value, dict):
            # Not shown: whoever wrote the secret itself here must not find it in a log.
            raise MisfitError(
                expected, found="something else (not shown)", hint="a secret is never written here"
            )
        if len(value) != 1 or not isinstance(next(iter(value.values())), str):
            raise MisfitError(expected, found=value)
        [(key, text)] = value.items()
        if key not in ("env", "file") or not text or not text.isprintable():
            raise MisfitError(expected, found=key)
        if key == "env":
            return SecretSource(env=text)
        return SecretSource(file=text if folder is None else str(folder / text))

    return read
