"""The soak in miniature: the same plant and the same questions, so that the long one can be trusted to work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.soak.ledger import compare, said_by, stored_in
from tests.soak.plan import Fault, plan_strikes
from tests.soak.run import Order, run_soak
from tests.soak.servers import RABBITMQ

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.soak.ledger import Said

HEADER = "time,part,work_order,width\n"
LINES = [f"2026-09-01T00:0{part}:00Z,{part},WO1,{9.95 + part / 100:.2f}\n" for part in range(4)]


@pytest.mark.long
@pytest.mark.postgres
def test_half_a_minute_of_faults_loses_and_doubles_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not RABBITMQ.exists():
        pytest.skip(f"no RabbitMQ at {RABBITMQ}")
    order = Order(
        minutes=0.4,
        seed=7,
        tools=12,
        drain_minutes=2,
        with_spark=False,
        faults=frozenset(
            {
                Fault.KILL_WORKER,
                Fault.KILL_AT_FAILPOINT,
                Fault.CRASH_POSTGRES,
                Fault.CUT_AFTER_COMMIT,
                Fault.KILL_AGENT,
                Fault.BLACKLIST,
                Fault.KEEP_HOUSE,
            }
        ),
    )
    assert run_soak(order, tmp_path), capsys.readouterr().out


def test_the_seed_determines_what_strikes_and_a_kind_left_out_changes_no_other() -> None:
    strikes = plan_strikes(7, seconds=1800)
    assert strikes == plan_strikes(7, seconds=1800)
    assert strikes != plan_strikes(8, seconds=1800)
    kills = [strike for strike in strikes if strike.fault is Fault.KILL_WORKER]
    assert kills == plan_strikes(7, seconds=1800, faults=frozenset({Fault.KILL_WORKER}))


def test_half_an_hour_strikes_as_often_as_promised() -> None:
    strikes = [strike.fault for strike in plan_strikes(7, seconds=1800)]
    assert strikes.count(Fault.KILL_WORKER) >= 200
    for fault in (Fault.KILL_SPARK_WORKER, Fault.CRASH_POSTGRES, Fault.CRASH_BROKER):
        assert strikes.count(fault) >= 10


@pytest.mark.parametrize(
    ("stored", "found"),
    [
        ([0, 1, 2, 3], (0, 0, 0)),
        ([0, 1, 3], (1, 0, 0)),
        ([0, 1, 1, 2, 3], (0, 1, 0)),
        ([], (4, 0, 0)),
    ],
    ids=["all", "one lost", "one twice", "nothing"],
)
def test_the_ledger_finds_what_is_lost_and_what_is_there_twice(
    stored: list[int], found: tuple[int, int, int]
) -> None:
    accepted = {"TOOL01/a.csv": HEADER + "".join(LINES)}
    rows = list(said_by("TOOL01/a.csv", HEADER + "".join(LINES[number] for number in stored)))
    balance = compare(accepted, stored_in(export(rows)))
    assert (balance.lost, balance.duplicated, balance.unexpected) == found
    assert balance.is_even == (found == (0, 0, 0))


def test_the_ledger_finds_what_nobody_said_and_a_total_that_does_not_add_up() -> None:
    rows = list(said_by("TOOL01/a.csv", HEADER + "".join(LINES)))
    unexpected = compare({"TOOL01/a.csv": HEADER + "".join(LINES[1:])}, stored_in(export(rows)))
    assert (unexpected.lost, unexpected.unexpected) == (0, 1)
    wrong = compare({"TOOL01/a.csv": HEADER + "".join(LINES)}, [(said, 0) for said in rows])
    assert wrong.wrong_totals == 4


def test_a_copy_of_a_reading_counts_once() -> None:
    text = HEADER + "".join(LINES)
    rows = list(said_by("TOOL01/a.csv", text))
    assert compare({"TOOL01/a.csv": text, "TOOL01/a_copy.csv": text}, stored_in(export(rows))).is_even


def export(rows: Sequence[Said]) -> pa.Table:
    """As `disarray export readings` writes them."""
    total, totals = 0, []
    for said in rows:
        total += said.is_in_spec
        totals.append(total)
    return pa.table(
        {
            "subject_key": [said.subject for said in rows],
            "event_time": pa.array([said.at_us for said in rows], pa.timestamp("us", tz="UTC")),
            "part": pa.array([said.part for said in rows], pa.int64()),
            "work_order": [said.work_order for said in rows],
            "width": pa.array([said.width for said in rows], pa.float64()),
            "in_spec_total": pa.array(totals, pa.int64()),
        }
    )
