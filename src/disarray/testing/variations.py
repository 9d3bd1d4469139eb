"""The same readings in other clothes: what exports, editors and transfers do to a file without changing its meaning."""

from __future__ import annotations

import gzip
import json
import re
from typing import TYPE_CHECKING

import zstandard

from disarray.kernels.parsing.cells import split_line
from disarray.kernels.parsing.rejects import RowRejected
from disarray.model.description.format import FileKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from disarray.model.description.format import Format

_BOM = b"\xef\xbb\xbf"


def variations(sample: bytes, described: Format) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of files that must give exactly the readings of the sample."""
    if described.kind is FileKind.PARQUET:
        return
    plain = sample.replace(b"\r\n", b"\n")
    ended = plain if plain.endswith(b"\n") else plain + b"\n"
    yield "line ends LF", ended
    yield "line ends CRLF", ended.replace(b"\n", b"\r\n")
    yield "no newline at the end", ended.removesuffix(b"\n")
    yield "a blank line at the end", ended + b"\n"
    yield "compressed with gzip", gzip.compress(sample, mtime=0)
    yield "compressed with zstd", zstandard.ZstdCompressor().compress(sample)
    if _is_utf8(sample) and not sample.startswith(_BOM):
        yield "a byte order mark at the start", _BOM + sample
    if described.kind is FileKind.JSONL:
        yield "keys in another order", _by_line(ended, _keys_reversed)
    elif not described.header.names:
        yield from _header_variations(ended, described)


def growth_steps(sample: bytes) -> list[bytes]:
    """The file as it grows: cut after every line and inside every line."""
    ends = [at + 1 for at, byte in enumerate(sample) if byte == 0x0A]
    starts = [0, *ends]
    middles = [start + (end - start) // 2 for start, end in zip(starts, ends, strict=False)]
    cuts = sorted({*ends, *middles, len(sample)} - {0})
    if len(cuts) > 200:
        cuts = [*cuts[:: len(cuts) // 200], len(sample)]
    return [sample[:cut] for cut in cuts]


def _header_variations(ended: bytes, described: Format) -> Iterator[tuple[str, bytes]]:
    """The columns in another order, and one column more; both keep what the header's pattern looks at."""
    texts = _decoded(ended, described)
    at = _header_index(texts, described)
    if at is None:
        return
    changes: dict[str, Callable[[list[str], bool], list[str]]] = {
        "columns in another order": lambda cells, _: [cells[0], *reversed(cells[1:])],
        "an unknown column at the end": lambda cells, is_header: [*cells, "Other" if is_header else "1"],
    }
    for name, change in changes.items():
        lines = [
            *texts[:at],
            *(_changed(line, described, change, index) for index, line in enumerate(texts[at:])),
        ]
        if _header_index(lines, described) == at:
            yield name, "\n".join(lines).encode(_encoding(ended, described))


def _changed(line: str, described: Format, change: Callable[[list[str], bool], list[str]], index: int) -> str:
    if not line.strip() or (described.comment and line.startswith(described.comment)):
        return line
    try:
        cells = list(split_line(line, described))
    except RowRejected:
        return line
    last = [cells.pop()] if described.trailing_delimiter else []
    return described.delimiter.join(_quoted(cell, described) for cell in [*change(cells, index == 0), *last])


def _quoted(cell: str, described: Format) -> str:
    quote = described.quote
    if not quote or (described.delimiter not in cell and quote not in cell):
        return cell
    escape = quote if described.quote_escape == "double" else "\\"
    return quote + cell.replace(quote, escape + quote) + quote


def _header_index(texts: list[str], described: Format) -> int | None:
    rule = described.header
    if rule.pattern:
        return next((index for index, text in enumerate(texts) if re.search(rule.pattern, text)), None)
    if rule.line is not None:
        return rule.line - 1
    if described.preamble.lines is not None:
        return described.preamble.lines
    return next((index for index, text in enumerate(texts) if text.strip()), None)


def _encoding(content: bytes, described: Format) -> str:
    for encoding in described.encodings:
        try:
            content.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    return "iso-8859-1"


def _decoded(content: bytes, described: Format) -> list[str]:
    return content.decode(_encoding(content, described)).split("\n")


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _by_line(content: bytes, change: Callable[[bytes], bytes]) -> bytes:
    return b"\n".join(change(line) if line.strip() else line for line in content.split(b"\n"))


def _keys_reversed(line: bytes) -> bytes:
    try:
        value = json.loads(line)
    except ValueError:
        return line
    return json.dumps(dict(reversed(value.items()))).encode() if isinstance(value, dict) else line
