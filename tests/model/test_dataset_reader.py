from __future__ import annotations

import pickle
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from disarray.model.description.dataset import OnShrink, Reread, Store, SubjectKind
from disarray.model.description.format import ColumnType, LayoutKind, Origin
from disarray.model.description.metrics import IntegralMethod
from disarray.model.description.read_spec import KeyKind
from disarray.model.description.rollups import BucketKind
from disarray.model.duration import DAY, HOUR, MINUTE
from disarray.model.expression.canonical_text import canonical_text
from tests.model.conftest import DATASET

if TYPE_CHECKING:
    from tests.model.conftest import Specs

Document = dict[str, Any]


def put(document: Document, path: str, value: object) -> Document:
    """Set a value at a path such as `metrics.charge.kind` of the only dataset."""
    table = document["dataset"][0]
    *folders, last = path.split(".")
    for folder in folders:
        table = table.setdefault(folder, {})
    table[last] = value
    return document


def drop(document: Document, path: str) -> Document:
    table = document["dataset"][0]
    *folders, last = path.split(".")
    for folder in folders:
        table = table[folder]
    del table[last]
    return document


def test_every_key_of_a_dataset_reaches_its_value(document: Document, specs: Specs) -> None:
    dataset = specs.one(document)
    assert dataset.roots == ("/project/share",)
    assert dataset.subject.kind is SubjectKind.PATH
    assert dataset.key.kind is KeyKind.COLUMNS
    assert (dataset.segment_length_us, dataset.horizon_us, dataset.quiet_after_us) == (
        6 * HOUR,
        40 * DAY,
        5 * MINUTE,
    )
    assert (dataset.future_tolerance_us, dataset.back_correction_window_us) == (10 * MINUTE, HOUR)
    assert (dataset.on_shrink, dataset.reread, dataset.store) == (
        OnShrink.REPLACE,
        Reread.WHOLE,
        Store.TIMESCALE,
    )
    assert dataset.reject_limits.max_share == 0.01
    assert dataset.retain_us == 400 * DAY
    assert dataset.event_time.zone == "Europe/Berlin"
    assert dataset.event_time.sources[0].names == ("Date",)
    charge = dataset.metrics[0]
    assert charge.input is not None
    assert canonical_text(charge.input) == "amps / 3600.0"
    assert charge.method is IntegralMethod.PREVIOUS
    assert dataset.rollups[0].bucket.length_us == HOUR
    assert dataset.rollups[1].bucket.kind is BucketKind.SHIFTS
    assert [shift.name for shift in dataset.rollups[1].bucket.shifts] == ["early", "late", "night"]


def test_columns_of_the_format_and_of_the_dataset_are_merged(document: Document, specs: Specs) -> None:
    columns = {column.name: column for column in specs.one(document).columns}
    assert set(columns) == {"rec", "volts", "state", "unit_serial", "changed", "amps", "temperature"}
    assert columns["unit_serial"].origin is Origin.PREAMBLE
    assert columns["amps"].alternatives[0].scale == 0.001


def test_a_dataset_changes_one_key_of_a_column_and_keeps_the_others(document: Document, specs: Specs) -> None:
    put(document, "columns.volts", {"nullable": False})
    volts = next(column for column in specs.one(document).columns if column.name == "volts")
    assert not volts.nullable
    assert volts.type is ColumnType.FLOAT64


def test_a_dataset_overrides_parts_of_its_format(document: Document, specs: Specs) -> None:
    put(
        document,
        "format",
        {"like": "cycler", "decimal": ",", "thousands": ".", "header": {"units_row": False}},
    )
    described = specs.one(document).format
    assert (described.name, described.decimal, described.header.units_row) == ("cycler", ",", False)
    assert described.header.pattern == "^Rec\\t"


def test_an_event_time_of_its_own_replaces_the_formats(document: Document, specs: Specs) -> None:
    put(document, "event_time", {"from": "Epoch", "layouts": "epoch ms"})
    document["dataset"][0]["only_columns"].remove("changed")
    event_time = specs.one(drop(document, "zone")).event_time
    assert event_time.layouts[0].kind is LayoutKind.EPOCH
    assert event_time.zone is None


def test_a_local_timestamp_column_needs_a_zone_too(document: Document, specs: Specs) -> None:
    put(document, "event_time", {"from": "Epoch", "layouts": "epoch ms"})
    put(document, "columns.seen_at", {"type": "timestamp", "layouts": "%Y-%m-%d %H:%M", "required": False})
    put(document, "only_columns", ["rec", "amps", "volts", "state", "temperature", "seen_at"])
    faults = specs.faults(drop(document, "zone"))
    assert any("dataset[0].zone: expected a time zone" in fault for fault in faults)


def test_date_and_time_in_two_cells_are_joined(document: Document, specs: Specs) -> None:
    put(document, "event_time", {"join": ["Day", "Clock"], "layouts": "%Y-%m-%d %H:%M:%S"})
    assert [source.names for source in specs.one(document).event_time.sources] == [("Day",), ("Clock",)]


def test_attributes_have_one_type_and_defaults_for_every_subject(document: Document, specs: Specs) -> None:
    dataset = specs.one(document)
    assert dataset.attribute_types == {"capacity": ColumnType.FLOAT64, "order": ColumnType.STRING}
    assert [attribute.value for attribute in dataset.attributes_of("CELL7")] == [4.8, "A-17"]
    assert [attribute.value for attribute in dataset.attributes_of("CELL8")] == [5.0, None]


def test_the_least_dataset_has_careful_defaults(specs: Specs) -> None:
    dataset = specs.one(
        {
            "dataset": [
                {
                    "name": "plain",
                    "roots": ["in"],
                    "files": ["*.csv"],
                    "format": "csv",
                    "subject": {"constant": "PLANT"},
                    "event_time": {"from": "t", "layouts": ["iso"]},
                    "zone": "UTC",
                    "columns": {"power": "float64"},
                }
            ]
        }
    )
    assert dataset.key.kind is KeyKind.CONTENT
    assert dataset.on_shrink is OnShrink.PARK
    assert dataset.horizon_us is None
    assert dataset.segment_length_us == DAY
    assert dataset.columns[0].source.names == ("power",)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("columns.amps.type", "flaot64", "bool, timestamp, found 'flaot64'; did you mean 'float64'?"),
        ("columns.amps.type", "flaot64", "dataset[0].columns.amps.type: expected one of float64"),
        ("format", "cyclr", "dataset[0].format: expected the name of a format or a table, found 'cyclr'"),
        ("segment", "6 hrs", "dataset[0].segment: expected a duration such as '15 min', found '6 hrs'"),
        ("segment", "0 s", "dataset[0].segment: expected a duration from 1 s to 365 d, found '0 s'"),
        ("zone", "Europe/Berlim", "found 'Europe/Berlim'; did you mean 'Europe/Berlin'?"),
        ("key", ["recc"], "dataset[0].key[0]: expected the name of a column, found 'recc'; did you mean"),
        ("key", "all", "dataset[0].key: expected a list of columns, 'content' or 'none', found 'all'"),
        ("channel", "volts", "dataset[0].channel: expected a column of type string or int64, found 'volts'"),
        ("files", ["/etc/*"], "dataset[0].files[0]: expected a pattern below the roots"),
        ("files", ["a/../b"], "dataset[0].files[0]: expected a pattern below the roots"),
        ("files", [], "dataset[0].files: expected a list of at least 1, found an empty list"),
        ("name", "My Data", "dataset[0].name: expected a name of a–z"),
        ("subject", {"path": "x(.*)"}, "expected a regular expression with the group (?P<subject>…), found"),
        ("subject", {}, "expected one of path, file_name, preamble, constant, delivery, column, found nothing"),
        ("subject", {"preamble": "seriel"}, "there is no preamble field 'seriel'; did you mean 'serial'?"),
        ("subject", {"path": "(?P<subject>x)", "constant": "A"}, "found path, constant"),
        ("metrics.charge.kind", "integrall", "dataset[0].metrics.charge.kind: expected one of sum"),
        ("metrics.cycles.max_gap", "1 h", "cycles.max_gap: has a meaning for kind 'integral'"),
        ("metrics.cycles.input", "abs(amp) / capacity", "there is no column 'amp'; did you mean 'amps'?"),
        ("metrics.cycles.input", "state", "expected a number, found an expression of type string"),
        ("metrics.charge.where", "amps", "dataset[0].metrics.charge.where: expected a condition"),
        ("metrics.charge.reset_on", ["ordr"], "did you mean 'order'?"),
        ("rollups.hourly.bucket", "7 min", "a bucket shorter than a day must divide the day evenly"),
        ("rollups.hourly.bucket", "1 year", "expected '15 min', '1 hour'"),
        ("rollups.by_shift.shifts", [], "expected shifts with name and start"),
        ("rollups.hourly.aggregates", {}, "expected at least one aggregate"),
        ("rollups.hourly.aggregates", {"x": "avg"}, "aggregates.x.input: expected an expression"),
        ("rejects", {"max_share": 2}, "dataset[0].rejects.max_share: expected a finite number from 0 to 1"),
        ("attributes.CELL7.capacity", "big", "expected int64 as for the other subjects, found string"),
        ("attributes.CELL7.amps", 1.0, "found 'amps', which is also a column"),
        ("only_columns", ["amps", "amps"], "only_columns[1]: expected each only once, found 'amps'"),
        ("columns.rec.scale", 2.0, "dataset[0].columns.rec.scale: has a meaning for type float64 alone"),
        ("columns.amps.scale", 0, "expected a number other than 0, found 0"),
        ("columns.when", "string", "columns.when: expected a name that is no word of the expression grammar"),
        ("columns.seen_at", {"type": "timestamp"}, "columns.seen_at.layouts: expected one or more layouts"),
        ("event_time.layouts", ["%d/%m/%Y", "%m/%d/%Y"], "fits both '%d/%m/%Y' and '%m/%d/%Y'"),
        ("event_time.layouts", ["iso", "%Y-%d-%m %H:%M:%S"], "fits both '%Y-%m-%d %H:%M:%S' and"),
        ("event_time.layouts", ["%Y-%m-%d %I:%M"], "%I and %p belong together"),
        ("event_time.layouts", ["%H:%M:%S"], "the pattern needs year, month and day"),
        ("event_time.layouts", ["relative s"], "expected a start stamp exactly where"),
        ("event_time.layouts", ["epoc ms"], "did you mean 'epoch ms'?"),
        ("event_time.layouts", ["epoch s", "epoch ms"], "expected a numeric layout alone"),
        ("columns", 3, "dataset[0].columns: expected a table, found 3"),
        ("columns.seen_at", {"type": "timestamp", "layouts": "relative s"}, "only the event time can be relative"),
        ("format", {"like": "cycler", "decimal": ",", "thousands": ","}, "which is also the decimal"),
        ("format", {"like": "cycler", "encodings": ["utf-16"]}, "lines cannot be framed"),
        ("format", {"like": "cycler", "encodings": ["latin-99"]}, "expected an encoding such as"),
        ("format", {"like": "cycler", "kind": "parquet"}, "has no meaning for kind 'parquet'"),
        ("format", {"like": "cycler", "header": {"pattern": "("}}, "header.pattern: expected a regular"),
    ],
)  # fmt: skip
def test_a_fault_names_file_key_expectation_and_near_miss(
    document: Document, specs: Specs, path: str, value: object, message: str
) -> None:
    faults = specs.faults(put(document, path, value))
    assert any(fault.startswith("disarray.toml: ") and message in fault for fault in faults), faults


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("name", "dataset[0].name: expected a name"),
        ("files", "dataset[0].files: expected"),
        ("roots", "dataset[0].roots: expected"),
        ("format", "dataset[0].format: expected the name of a format, or a table"),
        (
            "subject",
            "dataset[0].subject: expected one of path, file_name, preamble, constant, delivery, column, found nothing",
        ),
        ("zone", "dataset[0].zone: expected a time zone such as Europe/Berlin, found nothing"),
        ("metrics.charge.max_gap", "an integral must not bridge gaps"),
        ("metrics.cycles.input", "a metric of kind sum needs one"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(document: Document, specs: Specs, path: str, message: str) -> None:
    faults = specs.faults(drop(document, path))
    assert any(message in fault for fault in faults), faults


def test_a_read_spec_travels_to_other_processes(document: Document, specs: Specs) -> None:
    spec = specs.one(document).read_spec()
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_all_faults_of_a_file_are_reported_at_once(document: Document, specs: Specs) -> None:
    put(document, "segment", "soon")
    put(document, "metrics.charge.knd", "x")
    put(document, "columns.amps.type", "text")
    assert len(specs.faults(document)) >= 3


def test_two_datasets_of_one_name_are_refused(document: Document, specs: Specs) -> None:
    document["dataset"].append(document["dataset"][0])
    assert any("expected a name of its own" in fault for fault in specs.faults(document))


def test_a_misspelt_dataset_table_is_not_ignored(specs: Specs) -> None:
    assert specs.faults({"datasets": []}) == ["disarray.toml: datasets: unknown key; did you mean 'dataset'?"]


def test_the_section_of_the_database_is_no_misspelt_dataset(document: Document, specs: Specs) -> None:
    specs.one(document | {"database": {"dsn": "service=lab"}})


TABLES = {
    "dataset": "",
    "subject": "subject",
    "rejects": "rejects",
    "column": "columns.temperature",
    "event_time": "event_time",
    "metric": "metrics.charge",
    "rollup": "rollups.hourly",
    "aggregate": "rollups.hourly.aggregates.warm",
}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_a_misspelt_key_is_always_refused_with_the_near_miss(specs: Specs, data: st.DataObject) -> None:
    document = tomllib.loads(DATASET)
    known = specs.known_keys(document)
    kind = data.draw(st.sampled_from(sorted(TABLES)))
    key = data.draw(st.sampled_from(sorted(word for word in known[kind] if len(word) >= 4)))
    at = data.draw(st.integers(min_value=1, max_value=len(key) - 1))
    misspelt = key[:at] + data.draw(st.sampled_from("qxz")) + key[at:]
    path = f"{TABLES[kind]}.{misspelt}" if TABLES[kind] else misspelt
    faults = specs.faults(put(document, path, "anything"))
    assert f"disarray.toml: dataset[0].{path}: unknown key; did you mean '{key}'?" in faults
