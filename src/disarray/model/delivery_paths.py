"""How the folder of a delivery names its subject: any subject can be a folder, and is read back from it unchanged."""

from __future__ import annotations

from urllib.parse import quote, unquote

# Names of folders have at most 255 bytes; a subject in another script, percent-encoded, has more.
_LONGEST_NAME = 200


def subject_folders(subject_key: str) -> tuple[str, ...]:
    """The folders of a subject, one below the other; one but for very long subjects."""
    encoded = quote(subject_key, safe="").replace("~", "%7E")
    parts = [encoded[at : at + _LONGEST_NAME] for at in range(0, len(encoded), _LONGEST_NAME)]
    # A leading dot would hide the folder, or leave it.
    return tuple(f"%2E{part[1:]}" if part.startswith(".") else part for part in parts)


def subject_in(relative_path: str) -> str:
    """The subject that the folders of a delivery name; `relative_path` is below the folder of its source."""
    return unquote("".join(relative_path.split("/")[:-1]))
