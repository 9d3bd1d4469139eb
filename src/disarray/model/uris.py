"""Files as uris: one spelling per path, so that a file is known by one name everywhere."""

from __future__ import annotations

from urllib.parse import quote

# Legal in a path as RFC 3986 has it; a uri stays as readable as the path.
_PLAIN = "/!$&'()*+,;=:@~"


def file_uri(path: str) -> str:
    """The uri of an absolute path; `matching.match_file` and the worker find the path in it again."""
    return "file://" + quote(path, safe=_PLAIN)
