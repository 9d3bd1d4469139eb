"""docs/configuration.md from the settings themselves: `python -m disarray.documentation.configuration_page`."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import typer
import typer.main

from disarray.config_options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.model.option import Option

PREFACE = """\
# Configuration

Made from the program by `python -m disarray.documentation.configuration_page > docs/configuration.md`.

A project is a folder with a `disarray.toml`; commands use that of the current folder. What is not set there may come
from the environment or a flag. A setting counts in this order: flag, environment, file, default. `disarray config
show` prints each with its value and where that came from, passwords hidden.

```toml
[database]
dsn = "postgresql://disarray@db.example/disarray"

[worker]
name = "Worker02"
patterns = "TOOL1*, CELL-??"

[spark]
master = "local[*]"
driver.memory = "2g"
```

Texts and lengths of time are written in quotes, numbers with or without. A name that is not listed here is refused,
and all faults of the file are named at once. A relative path counts from the file. Secrets belong into the environment:
everybody who may read the folder can read the file, and every user of the machine
can read flags. Lengths of time are written `"250 ms"`, `"15 min"`, `"1 h 30 min"`, `"40 d"`.
"""
REST = """
## [spark]

Whatever Spark knows, without the leading `spark.`: `master`, `driver.memory`, `executor.cores`. Without a `master` it
is `local[*]`: all cores of this machine. Sessions run in UTC, with Arrow, without speculation and without the web
interface.

## [[dataset]]

What files mean: the [dataset reference](dataset-reference.md).

## Beside the program

| variable | meaning |
|---|---|
| `JAVA_HOME` | which Java runs Spark |
| `DISARRAY_FAILPOINTS` | for rehearsals on a test system: die, freeze or fail at a named step |
| `DISARRAY_TEST_DSN`, `DISARRAY_REAL_DATA` | for the tests alone, see [contributing](../CONTRIBUTING.md) |
"""


def reference() -> str:
    """The page: a table for each section of the file."""
    flags = _flags()
    parts = [PREFACE]
    for section, options in groupby(OPTIONS, key=lambda option: option.section):
        parts += [
            f"\n## [{section}]\n\n",
            "| key | default | environment | flag | meaning |\n|---|---|---|---|---|\n",
        ]
        parts += [_row(option, flags) for option in options]
    return "".join([*parts, REST])


def _row(option: Option, flags: dict[str, list[str]]) -> str:
    default = "" if option.default is None else f"`{option.default}`"
    typed = ", ".join(f"`{command} {option.flag}`" for command in flags.get(option.flag, ()))
    return f"| `{option.key}` | {default} | `{option.variable}` | {typed} | {option.meaning} |\n"


def _flags() -> dict[str, list[str]]:
    """Which commands take which flags; a setting may have a name for one that no command has."""
    from disarray.cli.main import make_app

    root = typer.Context(typer.main.get_command(make_app()), info_name="disarray")
    found: dict[str, list[str]] = {}
    for context in (root, *_direct_commands(root)):
        for parameter in context.command.get_params(context):
            for flag in parameter.opts:
                found.setdefault(flag, []).append(context.command_path)
    return found


def _direct_commands(root: typer.Context) -> Iterator[typer.Context]:
    for name in ("agent", "api", "worker"):
        yield typer.Context(root.command.commands[name], info_name=name, parent=root)  # type: ignore[attr-defined]


if __name__ == "__main__":
    typer.echo(reference(), nl=False)
