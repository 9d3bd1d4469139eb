"""Parameters that many routes share, each with its limits."""

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
Limit = Annotated[int, About(text="At most so many.", minimum=1, maximum=1000)]
