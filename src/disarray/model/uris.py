"""Files as uris: one spelling per path, so that a file is known by one name everywhere."""

from __future__ import annotations

import posixpath
from urllib.parse import quote, unquote

# Legal in a path as RFC 3986 has it; a uri stays as readable as the path.
_PLAIN = "/!$&'()*+,;=:@~"


def file_uri(path: str) -> str:
    """The uri of an absolute path; `matching.match_file` and the worker find the path in it again."""
    return "file://" + quote(path, safe=_PLAIN)


def file_path(source_uri: str) -> str:
    """The path behind a uri; of a part (`model/file_parts.py`), that of the file which it is a part of."""
    if not source_uri.startswith("file://"):
        return source_uri
    # In the path itself this character is always encoded.
    return unquote(source_uri.removeprefix("file://").partition("#")[0])


def is_spelled_right(source_uri: str) -> bool:
    """Whether a file is named by its plain path or by the one uri that `file_uri` gives it; what is no file always is.

    The database knows these two for one another. A third spelling would be another file: it would count although the
    first is blacklisted.
    """
    if not source_uri.lower().startswith(("/", "file:")):
        return True
    is_path = source_uri.startswith("/")
    path = source_uri if is_path else unquote(source_uri.removeprefix("file://"))
    is_plain = (
        path.startswith("/")
        and posixpath.normpath(path) == path
        and not path.startswith("//")
        and path != "/"
    )
    return is_plain and (is_path or source_uri == file_uri(path))
