"""Every bad file of the catalogue on its way through a whole system: what is done to it, and where it must end."""

from __future__ import annotations

import gzip
import io
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from disarray.kernels.reading.outcome import ReadReason, ReadStatus
from disarray.model.fingerprints import LineCounts
from tests.kernels.test_bad_files import CASES, GOOD, kept
from tests.kernels.test_reading import HEADER, lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.kernels.test_bad_files import Case

DATASET = """
[[dataset]]
name = "{name}"
roots = ["inbox/{name}"]
files = ["**/*.csv*"]
subject = {{ path = '^(?P<subject>[^/]+)/' }}
event_time = {{ from = "time", layouts = ["iso"] }}
zone = "{zone}"
segment = "1 h"
quiet_after = "1 d"
future_tolerance = "{tolerance}"
{more}
[dataset.columns.value]
type = "float64"
[dataset.metrics.total]
kind = "sum"
input = "value"
"""
PLAIN = 'format = "csv"'


def described(name: str, *, zone: str = "UTC", tolerance: str = "73000 d", more: str = PLAIN) -> str:
    """A dataset that reads as the cases of the kernels do, but for what is named."""
    return DATASET.format(name=name, zone=zone, tolerance=tolerance, more=more)


TEXT_COLUMN = '[dataset.columns.text]\ntype = "string"\n'
DESCRIPTION = "".join(
    [
        described("desk"),
        described("repeating", more='[dataset.format]\nlike = "csv"\nheader = { repeats = true }'),
        described("encoded", more='[dataset.format]\nlike = "csv"\nencodings = ["utf-8", "iso-8859-1"]')
        + TEXT_COLUMN,
        described("punctual", tolerance="0 s"),
        described("berlin", zone="Europe/Berlin"),
    ]
)
# Cases of the kernels whose description is not the usual one.
DATASET_OF = {
    "another header mid-file, expected": "repeating",
    "mixed encodings": "encoded",
    "stamps beyond the clock": "punctual",
    "stamps in a lost local hour": "berlin",
}


@dataclass(frozen=True)
class Journey:
    """One file: what it holds at each round (None: it is gone), and what must be known of it in the end.

    `refused` is what the agent says of a name that it does not announce at all.
    """

    name: str
    steps: tuple[bytes | None, ...] = ()
    status: str = "processed"
    counts: LineCounts | None = None
    rejected: dict[str, int] = field(default_factory=dict)
    error: str = ""
    is_quiet: bool = False
    dataset: str = "desk"
    file_name: str = "bad.csv"
    in_store: int | None = None  # readings of it that count, where not all that were kept
    refused: str = ""
    make: Callable[[Path], object] | None = None

    @property
    def subject(self) -> str:
        """A subject of its own, with one good neighbour."""
        return self.name.replace(" ", "-")

    @property
    def lines(self) -> dict[str, int] | None:
        """The lines as the database has them."""
        return None if self.counts is None else asdict(self.counts)


def bomb() -> bytes:
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as packed:
        for _ in range(100):
            packed.write(bytes(1 << 20))
    return stream.getvalue()


def _from_kernels(cases: list[Case]) -> Iterator[Journey]:
    for case in cases:
        is_read = case.status is ReadStatus.READ
        yield Journey(
            case.name.replace(",", ""),
            (case.data,),
            status="processed" if is_read else "failed",
            counts=case.counts if is_read else None,
            rejected=case.reasons,
            error=case.message,
            is_quiet=case.reason is ReadReason.QUIET,
            dataset=DATASET_OF.get(case.name, "desk"),
        )


PACKED = gzip.compress(GOOD, mtime=0)
_LONG = gzip.compress(HEADER + lines(0, 20_000), mtime=0)

JOURNEYS = [
    *_from_kernels(CASES),
    Journey("it grows", (GOOD, GOOD + lines(3, 6)), counts=kept(6)),
    Journey(
        "half a last line that is completed later",
        (GOOD + lines(3, 4)[:-3], GOOD + lines(3, 4)),
        counts=kept(4),
    ),
    Journey("half a last line of a quiet file", (GOOD + lines(3, 4)[:-1],), counts=kept(4), is_quiet=True),
    Journey("rewritten in place", (GOOD, HEADER + lines(0, 3, value=0.5)), counts=kept(3)),
    Journey(
        "truncated",
        (GOOD, HEADER + lines(0, 1)),
        status="parked",
        counts=kept(1),
        in_store=3,
    ),
    Journey("truncated to nothing", (GOOD, b""), status="parked", counts=LineCounts(), in_store=3),
    Journey("rotated", (GOOD, HEADER + lines(100, 102)), counts=kept(2), in_store=5),
    Journey("deleted and recreated", (GOOD, None, GOOD + lines(3, 5)), counts=kept(5)),
    Journey("deleted", (GOOD, None), counts=kept(3)),
    Journey("gzip", (PACKED,), counts=kept(3), file_name="bad.csv.gz"),
    Journey("gzip twice in one file", (PACKED + gzip.compress(lines(3, 5), mtime=0),), counts=kept(5)),
    Journey(
        "gzip cut off and quiet",
        (_LONG[: len(_LONG) * 2 // 3],),
        rejected={"truncated_stream": 1},
        is_quiet=True,
    ),
    Journey("gzip damaged", (PACKED[:-12] + bytes(12),), status="failed", error="gzip"),
    Journey("a gzip bomb", (bomb(),), status="failed", error="bomb"),
    Journey("a link", make=lambda path: path.symlink_to("/etc/hostname"), refused="a symbolic link"),
    Journey("a pipe", make=os.mkfifo, refused="a FIFO"),
    Journey(
        "a newline in the name",
        (GOOD,),
        file_name="bad\nname.csv",
        refused="a control character, or bytes that are no UTF-8, in its name",
    ),
]
ROUNDS = max(len(journey.steps) for journey in JOURNEYS)
