"""docs/cli.md from the commands themselves: `python -m disarray.documentation.cli_page > docs/cli.md`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import typer.main

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFACE = """\
# The command line

Made from the commands by `python -m disarray.documentation.cli_page > docs/cli.md`. Every text is what `--help` prints.

- Options of `disarray` itself come before the command: `disarray --dsn … status`.
- `--json` prints one document for programs; messages for people go to standard error.
- `--dry-run` does what is asked with the same code inside a transaction, tells the result, and undoes it.
- What an operator decides is written down with `--reason` and `--by` (your user name if not given); `disarray events`
  and `disarray files show` tell.

| exit code | meaning |
|---|---|
| 0 | it worked, also where there was nothing to do |
| 1 | it failed and said why on standard error, or `doctor` found a fault, `verify` a difference, `ingest` a failure |
| 2 | it was called wrongly |
"""


def reference() -> str:
    """The page: one section for each command, by name."""
    from disarray.cli.main import make_app

    root = typer.main.get_command(make_app())
    return PREFACE + "".join(_sections(typer.Context(root, info_name="disarray")))


def commands() -> list[str]:
    """Every command that does something, as it is typed."""
    from disarray.cli.main import make_app

    root = typer.main.get_command(make_app())
    return [context.command_path for context in _leaves(typer.Context(root, info_name="disarray"))]


def _leaves(context: typer.Context) -> Iterator[typer.Context]:
    found = getattr(context.command, "commands", None)
    if found is None:
        yield context
        return
    for name in sorted(found):
        yield from _leaves(typer.Context(found[name], info_name=name, parent=context))


def _sections(context: typer.Context) -> Iterator[str]:
    yield _section(context, title="disarray")
    for leaf in _leaves(context):
        yield _section(leaf, title=leaf.command_path)


def _section(context: typer.Context, *, title: str) -> str:
    command = context.command
    help_text = " ".join(inspect.cleandoc(command.help or "").split())
    lines = [f"\n## {title}\n", f"{help_text}\n", f"```\n{' '.join(_usage(context))}\n```"]
    rows = [
        record
        for parameter in command.get_params(context)
        if parameter.name != "help" and (record := parameter.get_help_record(context)) is not None
    ]
    if rows:
        lines += ["", "| | |", "|---|---|"]
        lines += [f"| `{_cell(name)}` | {_cell(text)} |" for name, text in rows]
    return "\n".join(lines) + "\n"


def _usage(context: typer.Context) -> list[str]:
    return [context.command_path, *context.command.collect_usage_pieces(context)]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    typer.echo(reference(), nl=False)
