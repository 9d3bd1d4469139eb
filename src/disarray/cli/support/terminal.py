"""What is printed is text: no name, header or line of a file can move the cursor, hide a line or name a window.

Every message of the command line goes through `sys.stdout` and `sys.stderr`, so that is where control characters are
made visible: a call that forgets to do it somewhere cannot let one through.
"""

from __future__ import annotations

import codecs
import io
import sys
from typing import TYPE_CHECKING, Any, TextIO

from disarray.model.printable import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console


def visible_cell(text: str) -> str:
    """Control characters made visible in a cell of a table, which is one line."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


class PlainStream:
    """A stream on which control characters are visible; everything else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write text; the length is that of what was given."""
        self.stream.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines, which bring their own ends."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def guard_streams() -> None:
    """From now on what is printed is made visible."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, PlainStream):
            setattr(sys, name, PlainStream(stream))


def open_console(**options: Any) -> Console:
    """A console for tables and colours: its own control sequences pass, those inside of texts do not."""
    from rich.console import Console as RichConsole

    class PlainConsole(RichConsole):
        def render(self, renderable: Any, options: Any = None) -> Any:
            for segment in super().render(renderable, options):
                yield segment if segment.control else segment._replace(text=visible(segment.text))

    stream = sys.stdout
    return PlainConsole(file=stream.stream if isinstance(stream, PlainStream) else stream, **options)


class StandardOutput(io.RawIOBase):
    """Standard output for bytes; where a person looks at them, they are shown as text like everything else."""

    def __init__(self) -> None:
        super().__init__()
        self._written = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        """It is for writing alone."""
        return True

    def write(self, content: Any) -> int:
        """Write all of it."""
        piece = bytes(content)
        if sys.stdout.isatty():
            sys.stdout.write(self._decoder.decode(piece))
        else:
            sys.stdout.buffer.write(piece)
        self._written += len(piece)
        return len(piece)

    def tell(self) -> int:
        """How much was written; a pipe does not know, and writers of Parquet ask."""
        return self._written

    def flush(self) -> None:
        """Send what was written on its way."""
        sys.stdout.flush()
