"""How the help of a group lists its commands: each with the first clause of its help, also on a narrow terminal."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperGroup

_CLAUSE_ENDS = re.compile(r"(?<=[a-zA-Z0-9)`])[.:;](?: |$)")


class CommandList(TyperGroup):
    """A group of commands. Left to itself, help cuts each line where the terminal ends."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list; a clause that is too long for its line goes on below."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, first_clause(each.help or "")) for name, each in commands if each is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def first_clause(text: str) -> str:
    """The first sentence of a help text, up to a colon or semicolon in it."""
    sentence = " ".join(text.partition("\n\n")[0].split())
    return _CLAUSE_ENDS.split(sentence, maxsplit=1)[0]
