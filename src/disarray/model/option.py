"""What a setting is: its names, its default, what it means and what its value may be."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import assert_never

from disarray.model.description.spec_values import any_text, duration, integer, several, text
from disarray.model.duration import LONGEST


class Kind(Enum):
    """What the value of a setting may be; in the file a number needs no quotes."""

    TEXT = "text"
    PATH = "path"
    NUMBER = "number"
    LENGTH = "length of time"
    WORDS = "list of words"


@dataclass(frozen=True)
class Option:
    """One setting: `section.key` in the file, a flag and a variable, both named after the key unless given.

    `at_least` and `at_most` bound a number, or a length of time in microseconds.
    """

    name: str
    default: str | None
    meaning: str
    kind: Kind = Kind.TEXT
    _: KW_ONLY
    own_flag: str = ""
    own_variable: str = ""
    at_least: int = 0
    at_most: int = LONGEST

    @property
    def section(self) -> str:
        return self.name.partition(".")[0]

    @property
    def key(self) -> str:
        return self.name.partition(".")[2]

    @property
    def flag(self) -> str:
        return self.own_flag or f"--{self.key.replace('_', '-')}"

    @property
    def variable(self) -> str:
        return self.own_variable or f"DISARRAY_{self.key.upper()}"

    def read(self, value: object) -> str:
        """The value as text, if it is what the setting needs; `MisfitError` says what was expected."""
        match self.kind:
            case Kind.TEXT:
                return any_text(value)
            case Kind.PATH:
                return text(value)
            case Kind.NUMBER:
                is_digits = isinstance(value, str) and value.isascii() and value.isdigit()
                number = int(value) if isinstance(value, str) and is_digits else value
                return str(integer(at_least=self.at_least, at_most=self.at_most)(number))
            case Kind.LENGTH:
                duration(at_least=self.at_least, at_most=self.at_most)(value)
                return text(value)
            case Kind.WORDS:
                return ", ".join(several(text)(value)) if isinstance(value, list) else any_text(value)
            case _:
                assert_never(self.kind)
