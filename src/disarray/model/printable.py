"""Text from files as text that can be shown: control characters are written out, each in the way of its language."""

from __future__ import annotations

import re

# Control characters but for line feed and tab, marks that turn the direction of writing, further line ends, and halves
# of surrogate pairs (a file name that is no UTF-8), which no stream can write.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    """The text with each control character written out: ESC is `\\x1b`."""
    return _UNPRINTABLE.sub(_written_out, text)


def visible_json(document: str) -> str:
    """The same for JSON and TOML, which have their own way to write them, so that a program reads what was there."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def _written_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
