"""What every command starts from: the flags given before it, and the configuration they lead to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import typer

    from disarray.config import Config


@dataclass(frozen=True)
class Flags:
    """The global flags as given; read later, so that help works beside a broken configuration file."""

    given: Mapping[str, str | None]


def configuration(context: typer.Context, given: Mapping[str, str | None] | None = None) -> Config:
    """Read the configuration that holds for this call, in the current folder; `given` are the command's own flags."""
    from disarray.config import load

    flags = context.find_object(Flags)
    return load(Path.cwd(), flags={**(flags.given if flags else {}), **(given or {})})


def database_dsn(config: Config) -> str:
    """The DSN to connect with: the configured one, or that of the embedded server, started if need be."""
    if config.dsn is not None:
        return config.dsn
    from disarray import embedded

    return embedded.start(config.state_dir).dsn
