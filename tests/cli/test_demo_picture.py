"""The picture of the demo: a drawing that a browser can read, with both curves in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

from disarray.demo.picture import Picture

START = datetime(2026, 9, 1, tzinfo=UTC)


def test_both_curves_are_drawn_inside_the_picture() -> None:
    before = [(START + timedelta(days=day), float(max(0, day - 2))) for day in range(10)]
    after = [(START + timedelta(days=day), float(day)) for day in range(10)]
    picture = Picture("a title", "a subtitle", before, after, (START, START + timedelta(days=2)))

    root = ElementTree.fromstring(picture.svg())
    lines = [each.attrib["points"].split() for each in root if each.tag.endswith("polyline")]

    assert [len(line) for line in lines] == [10, 10]
    for x, y in (point.split(",") for line in lines for point in line):
        assert 0 <= float(x) <= 860
        assert 0 <= float(y) <= 400
    # The same instant, one higher than the other: the curves are not swapped.
    assert float(lines[0][-1].split(",")[1]) > float(lines[1][-1].split(",")[1])
