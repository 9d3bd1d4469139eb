"""Whatever was defined while files arrived: in the end the numbers are those of the last definition, bit for bit."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.plant import Plant
from tests.worker.deliveries import DATASET, deliveries, remove_and_allow

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.postgres

# What a definition may say instead; each concerns parsing, scanning, or both.
ALTERNATIVES = (
    ['segment = "2 h"', 'segment = "45 min"', 'segment = "1 d"'],
    ['order_by = ["part"]', "", 'order_by = ["work_order"]'],
    [
        '[dataset.columns.part]\ntype = "int64"',
        '[dataset.columns.part]\ntype = "float64"',
        '[dataset.columns.part]\ntype = "float64"\nscale = 2.0',
    ],
    ['zone = "Europe/Berlin"', 'zone = "UTC"'],
    ["limit = 5.0", "limit = 0.2", "limit = 5.0\n[dataset.attributes.L2]\nlimit = 7.0"],
    ["metrics.lowest", "metrics.least"],
    ['kind = "min"', 'kind = "sum"'],
    ['max_gap = "40 min"', 'max_gap = "3 min"'],
    ['where = "volts < limit"\nreset_on = ["work_order"]', 'where = "volts < limit"'],
    ['bucket = "15 min"', 'bucket = "1 day"'],
    ['spread = { function = "stddev", input = "volts" }\n', ""],
)
KEYS = ['key = "content"', 'key = ["part"]']


def definition(generator: random.Random) -> str:
    text = DATASET % {"key": generator.choice(KEYS)}
    for written, *instead in ALTERNATIVES:
        assert written in text
        text = text.replace(written, generator.choice([written, *instead]))
    return text


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory, shared_dsn: str) -> Iterator[Plant]:
    """A plant for all examples."""
    plant = Plant(tmp_path_factory.mktemp("line"), shared_dsn, description=definition(random.Random(0)))
    yield plant
    plant.pool.close()


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_any_history_of_arrivals_and_definitions_gives_the_bits_of_one_shot(line: Plant, seed: int) -> None:
    generator = random.Random(seed)
    made = deliveries(seed)
    line.forget_everything()
    line.redefine(definition(generator), is_on_purpose=True)
    pending = [(delivery, [*delivery.steps, len(delivery.text)]) for delivery in made]
    while pending:
        delivery, steps = generator.choice(pending)
        path = line.write(delivery.name, delivery.text[: steps.pop(0)])
        pending = [(other, rest) for other, rest in pending if rest]
        line.notify(path)
        if generator.random() < 0.4:
            line.redefine(definition(generator), is_on_purpose=True)
        if generator.random() < 0.6:
            line.drain()
        if generator.random() < 0.1:
            remove_and_allow(line, path)
    line.redefine(definition(generator), is_on_purpose=True)
    reports = line.ingest(*(line.inbox / delivery.name for delivery in made))
    assert [message for report in reports for message in report.failed.values()] == []
    piecemeal = line.derived()
    assert line.rows("select count(*) from disarray.dirty_range where resolved_at is null") == [(0,)]
    assert line.rows("select count(*) from disarray.pending_rebuilds()") == [(0,)]
    line.forget_everything()
    line.ingest(*(line.write(delivery.name, delivery.text) for delivery in made))
    assert line.derived() == piecemeal
