from __future__ import annotations

import re
from pathlib import Path

from disarray.formats.loader import describe_text
from disarray.testing import Expect, check_format

GUIDE = Path(__file__).parents[2] / "docs" / "adding-an-instrument.md"
SAMPLE = (
    b"LS-3 log\nSerial No.: LS3-0042\nDate;Time;Weight [g];Stable\n"
    b"01.02.2024;10:00:00;1500,0;yes\n01.02.2024;10:00:05;---;no\n01.02.2024;10:00:10;2,5;yes\n"
)


def test_the_description_in_the_guide_reads_what_the_guide_expects() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", GUIDE.read_text("utf-8"), flags=re.DOTALL)
    (text,) = [block for block in blocks if "[[dataset]]" not in block]
    checked = check_format(
        describe_text("scale", text),
        SAMPLE,
        expect=Expect(
            readings=3,
            first={"event_time": "2024-02-01T09:00:00+00:00", "mass": 1.5, "scale_serial": "LS3-0042"},
            last={"mass": 0.0025},
            preamble={"serial": "LS3-0042"},
        ),
        zone="Europe/Berlin",
    )
    assert checked.readings[1]["mass"] is None
