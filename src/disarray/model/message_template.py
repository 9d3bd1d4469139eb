"""Texts with names in braces, such as "{cause} of {subject}": only known names, and nothing is looked up in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from disarray.model.description.spec_table import MisfitError, near_miss

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NAMED = re.compile(r"\{([^{}]*)\}")
# What a message can be asked for.
FIELDS = ("hook", "cause", "subject", "dataset", "noted_at", "date", "summary", "key", "details")


def template(*, required: str = "", single_line: bool = True) -> Callable[[object], str]:
    """A reader of templates; `required` is a name that has to be in it."""

    def read(value: object) -> str:
        expected = f"a text with names in braces: {', '.join(FIELDS)}"
        if not isinstance(value, str) or not value:
            raise MisfitError(expected)
        if single_line and not value.isprintable():
            raise MisfitError("one line of printable characters")
        for name in _NAMED.findall(value):
            if name not in FIELDS:
                raise MisfitError(expected, found=f"{{{name}}}", hint=near_miss(name, FIELDS))
        if required and f"{{{required}}}" not in value:
            raise MisfitError(f"a text with {{{required}}} in it, which tells messages apart")
        return value

    return read


def filled(written: str, values: Mapping[str, str]) -> str:
    """A template with its names replaced; braces in values stay what they are."""
    return _NAMED.sub(lambda found: values[found[1]], written)
