"""Subjects and globs as topics.

A topic's wildcards stand for whole words, a glob's for characters. So every character becomes a word of its own:
TOOL07 is routed as `T.O.O.L.0.7`, and the glob `TOOL0*` is bound as `T.O.O.L.0.#`. Each glob then is exactly one
binding and a worker gets what it serves, where words of names would have to be bound as `#` and filtered afterwards.
"""

from __future__ import annotations

# An AMQP short string.
MAX_KEY_BYTES = 255
# For subjects whose key would be longer. Every queue is bound to it: a notification that reaches a worker which does
# not serve the subject is queued just the same, and one that reaches two is queued once.
OVERLONG = "%long"

_ESCAPED = {".": "%2e", "*": "%2a", "#": "%23", "%": "%25"}
_WILDCARDS = {"*": "#", "?": "*"}


def routing_key(subject: str) -> str:
    """The topic of a subject."""
    key = ".".join(_ESCAPED.get(character, character) for character in subject)
    return key if len(key.encode()) <= MAX_KEY_BYTES else OVERLONG


def binding_keys(globs: tuple[str, ...]) -> tuple[str, ...]:
    """The bindings of a queue that serves these globs (* any text, ? one character, as in the control database)."""
    return (OVERLONG, *dict.fromkeys(map(_binding_key, globs)))


def _binding_key(glob: str) -> str:
    words: list[str] = []
    for character in glob:
        word = _WILDCARDS.get(character) or _ESCAPED.get(character, character)
        if word != "#" or words[-1:] != ["#"]:
            words.append(word)
    while len(".".join(words).encode()) > MAX_KEY_BYTES:
        # Broader than the glob, which costs a few copies; narrower would lose notifications.
        words = [*words[:-2], "#"] if words[-1] == "#" else [*words[:-1], "#"]
    return ".".join(words)
