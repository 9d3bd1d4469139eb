"""Parameters that many routes share, each with its limits."""

from dataclasses import dataclass
from typing import Annotated

from disarray.web.schema import PLAIN, About

Uri = Annotated[
    str, About(text="The uri of a file, as it was announced.", min_length=1, max_length=2048, pattern=PLAIN)
]
Subject = Annotated[str, About(text="A subject.", min_length=1, max_length=256, pattern=PLAIN)]
Name = Annotated[str, About(min_length=1, max_length=256, pattern=PLAIN)]
Reason = Annotated[str, About(text="Why; kept with who asked.", min_length=1, max_length=1000, pattern=PLAIN)]
Channel = Annotated[str, About(text="One series of many; all if not given.", max_length=256, pattern=PLAIN)]
InDataset = Annotated[str, About(text="Where a subject has several.", max_length=256, pattern=PLAIN)]
QueueId = Annotated[int, About(text="The number of a queued item.", minimum=1, maximum=2**63 - 1)]
Limit = Annotated[int, About(text="At most so many.", minimum=1, maximum=1000)]
# Names of up to 2,048 bytes, some of them in one cursor, as base64.
After = Annotated[
    str,
    About(
        text="Go on behind this place: `next` of the page before.",
        min_length=1,
        max_length=8192,
        pattern=r"^[A-Za-z0-9_-]*$",
    ),
]


@dataclass(frozen=True, kw_only=True)
class PageAsked:
    """Which page of a list."""

    limit: Limit = 100
    after: After | None = None
