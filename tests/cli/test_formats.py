from __future__ import annotations

import gzip
import json
import os
import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from disarray.cli.commands.formats import app as formats_app
from disarray.cli.support.format_trial import TRIED_BYTES
from disarray.errors import ConfigError, DisarrayError, FormatUnknownError, SpecError
from disarray.formats.loader import load_datasets, shipped_descriptions

FIXTURES = Path(__file__).parents[1] / "formats" / "fixtures"
SAMPLES = sorted(path.name for path in FIXTURES.iterdir() if not path.name.startswith("."))


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(formats_app, [str(each) for each in arguments], env={"COLUMNS": "160"})
    if isinstance(result.exception, DisarrayError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_list_names_every_shipped_format(tmp_path: Path) -> None:
    listed = run("list", "--project", tmp_path)
    assert [line.split()[0] for line in listed.splitlines()] == sorted(shipped_descriptions())


def test_list_marks_formats_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "formats").mkdir()
    (tmp_path / "formats" / "scale.toml").write_text('title = "Lab scale"\n')
    assert "scale      Lab scale (your own)" in run("list", "--project", tmp_path)
    rows = json.loads(run("list", "--project", tmp_path, "--json"))
    assert {"name": "scale", "title": "Lab scale", "kind": "delimited", "shipped": False} in rows


def test_show_prints_a_description_that_loads_again() -> None:
    assert tomllib.loads(run("show", "maccor")) == json.loads(run("show", "maccor", "--json"))


def test_show_of_an_unknown_format_names_the_nearest() -> None:
    with pytest.raises(FormatUnknownError, match="did you mean 'biologic'"):
        run("show", "biologics")


@pytest.mark.parametrize("name", SAMPLES)
def test_try_proposes_a_block_that_loads_without_change(name: str, tmp_path: Path) -> None:
    shown = run("try", FIXTURES / name, "--zone", "Europe/Berlin")
    block = shown[shown.index("[[dataset]]") :]
    (tmp_path / "disarray.toml").write_text(block)
    (dataset,) = load_datasets(tmp_path / "disarray.toml")
    assert dataset.event_time.zone == "Europe/Berlin"


def test_the_metric_that_try_suggests_loads_once_its_marks_are_gone(tmp_path: Path) -> None:
    shown = run("try", FIXTURES / "maccor.070", "--zone", "Europe/Berlin")
    block = re.sub(r"(?m)^# (?=\[|kind|input)", "", shown[shown.index("[[dataset]]") :])
    (tmp_path / "disarray.toml").write_text(block)
    (dataset,) = load_datasets(tmp_path / "disarray.toml")
    (metric,) = dataset.metrics
    assert f"disarray value CELL-17 {metric.name}" in shown


def test_try_shows_readings_counts_and_advice() -> None:
    shown = run("try", FIXTURES / "maccor.070")
    assert "maccor.070 reads as maccor." in shown
    assert "its subject is CELL-17" in shown
    assert "2024-03-01 09:15:05    3      0     2" in shown
    assert "No row was rejected." in shown
    assert "9 lines = 7 readings + 0 rejected + 2 before and in the header + 0 blank." in shown
    assert "Stamps that repeat an earlier one: 2; steps back in time: 0." in shown
    assert "Key rec: beside event time it tells all readings apart." in shown
    assert "Check the stamps are local time of an unknown zone; UTC was taken." in shown


def test_try_as_json_says_the_same_for_programs() -> None:
    told = json.loads(run("try", FIXTURES / "maccor.070", "--json", "--rows", "2", "--zone", "UTC"))
    assert (told["format"], told["subject"], told["key"]) == ("maccor", "CELL-17", ["rec"])
    assert told["lines"] == {"seen": 9, "kept": 7, "rejected": 0, "blank": 0, "preamble": 2, "waiting": 0}
    assert [row["rec"] for row in told["readings"]] == [1, 2]
    assert told["checks"] == []
    assert tomllib.loads(told["dataset"])["dataset"][0]["format"] == "maccor"


def test_try_lists_rejected_rows_with_reasons(tmp_path: Path) -> None:
    sample = (
        (FIXTURES / "maccor.070")
        .read_bytes()
        .replace(b"3.53000000", b"3.5[red]")
        .replace(b"\t3.46", b"\tNaN")
    )
    (tmp_path / "bad.070").write_bytes(sample)
    shown = run("try", tmp_path / "bad.070")
    assert "2 rejected rows" in shown
    assert "bad number" in shown
    assert "3.5[red]" in shown


def test_try_reads_compressed_files_as_they_are(tmp_path: Path) -> None:
    packed = tmp_path / "cell.070.gz"
    packed.write_bytes(gzip.compress((FIXTURES / "maccor.070").read_bytes()))
    told = json.loads(run("try", packed, "--json"))
    assert told["lines"]["kept"] == 7
    assert tomllib.loads(told["dataset"])["dataset"][0]["files"] == ["**/*.070.gz"]


def test_try_reads_only_the_first_part_of_a_huge_file(tmp_path: Path) -> None:
    row = b"2024-01-01T00:00:00Z,1.5," + b"x" * 200 + b"\n"
    path = tmp_path / "huge.csv"
    path.write_bytes(b"time,power,note\n" + row * (TRIED_BYTES // len(row) + 9_000))
    told = json.loads(run("try", path, "--json"))
    assert told["cut"]
    assert told["lines"]["rejected"] == 0
    assert told["lines"]["kept"] == (TRIED_BYTES - len("time,power,note\n")) // len(row)


def test_try_with_a_named_format_does_not_guess() -> None:
    assert "because the format was named" in run("try", FIXTURES / "neware.csv", "--format", "neware")


def test_try_with_the_wrong_format_says_what_is_missing() -> None:
    with pytest.raises(DisarrayError, match="cannot be read as 'arbin': no line of it is a reading"):
        run("try", FIXTURES / "neware.csv", "--format", "arbin")


def test_try_with_the_wrong_general_format_names_the_right_one() -> None:
    with pytest.raises(ConfigError, match="looks like 'tsv', not like 'csv'"):
        run("try", FIXTURES / "tsv.tsv", "--format", "csv")


def test_try_of_a_missing_file_is_a_plain_message(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        run("try", tmp_path / "none.csv")


def test_try_of_a_file_with_a_header_alone_still_proposes_a_dataset(tmp_path: Path) -> None:
    head = (FIXTURES / "maccor.070").read_bytes().splitlines(keepends=True)[:2]
    (tmp_path / "new.070").write_bytes(b"".join(head))
    assert "Without readings there is nothing to tell key and segment from." in run(
        "try", tmp_path / "new.070"
    )


def test_try_refuses_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DisarrayError, match="is a FIFO"):
        run("try", tmp_path / "pipe")


def test_try_of_an_archive_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04rest")
    with pytest.raises(DisarrayError, match="unpack it"):
        run("try", tmp_path / "a.zip")


def test_try_with_an_unknown_zone_names_the_nearest() -> None:
    with pytest.raises(SpecError, match="did you mean 'Europe/Berlin'"):
        run("try", FIXTURES / "maccor.070", "--zone", "Europe/Berln")


def test_try_takes_formats_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "formats").mkdir()
    (tmp_path / "formats" / "scale.toml").write_text(
        """
        title = "Lab scale"
        delimiter = "|"
        [event_time]
        from = "when"
        layouts = "iso"
        [columns]
        mass = { from = "g", type = "float64", unit = "kg", scale = 0.001 }
        """
    )
    (tmp_path / "a.txt").write_text("when|g\n2024-01-01T00:00:00Z|1500\n2024-01-01T00:00:01Z|1501\n")
    told = json.loads(run("try", tmp_path / "a.txt", "--project", tmp_path, "--json"))
    assert told["format"] == "scale"
    assert told["readings"][0]["mass"] == 1.5


def test_rejects_keep_their_line_and_reason_on_a_narrow_terminal(tmp_path: Path) -> None:
    rows = "".join(f"2024-01-01T00:00:{second:02}Z,{second},{'x' * 90}\n" for second in range(50))
    (tmp_path / "narrow.csv").write_text(
        f"time,a_value_with_a_long_name,note\n{rows}" + f"2024-01-01T00:01:00Z,?,{'y' * 150}\n"
    )
    result = CliRunner().invoke(formats_app, ["try", str(tmp_path / "narrow.csv")], env={"COLUMNS": "80"})
    [line] = [line for line in result.stdout.splitlines() if "bad number" in line and "×" not in line]
    assert line.split()[0] == "52"
    assert "a_value_with_a_long_name" in line
    assert len(line) <= 80


def test_a_file_that_a_dataset_of_the_project_takes_is_read_by_it(tmp_path: Path) -> None:
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / "a.csv").write_text("when,watts\n2024-01-01T00:00:00Z,2\n2024-01-01T00:00:01Z,3\n")
    (tmp_path / "disarray.toml").write_text(
        """
        [[dataset]]
        name = "power"
        roots = ["inbox"]
        files = ["*.csv"]
        format = "csv"
        subject = { constant = "mill" }
        zone = "UTC"
        event_time = { from = "when", layouts = ["iso"] }
        columns.power = { from = "watts", type = "float64", scale = 0.001, unit = "kW" }
        """
    )
    told = json.loads(run("try", tmp_path / "inbox" / "a.csv", "--project", tmp_path, "--json"))
    assert (told["own_dataset"], told["dataset"], told["subject"]) == ("power", None, "mill")
    assert [row["power"] for row in told["readings"]] == [0.002, 0.003]
    shown = run("try", tmp_path / "inbox" / "a.csv", "--project", tmp_path)
    assert "reads as dataset 'power' of disarray.toml" in shown
    assert "[[dataset]]" not in shown
    (tmp_path / "disarray.toml").write_text("[[dataset]]\n")
    assert "were not asked" in run("try", tmp_path / "inbox" / "a.csv", "--project", tmp_path)


def test_try_proposes_to_split_a_file_whose_lines_name_their_tool(tmp_path: Path) -> None:
    lines = [
        f"2026-09-01T00:{minute:02d}:00Z,TOOL{tool},{minute}.5" for minute in range(30) for tool in (1, 2, 3)
    ]
    file = tmp_path / "all.csv"
    file.write_text("\n".join(["time,tool,watts", *lines, ""]))
    shown = run("try", file, "--project", tmp_path)
    assert 'subject = { column = "tool" }' in shown
    assert "'tool' names several things (TOOL1, TOOL2, TOOL3)" in " ".join(shown.split())
    block = shown[shown.index("[[dataset]]") :]
    (tmp_path / "disarray.toml").write_text(block)
    [dataset] = load_datasets(tmp_path / "disarray.toml")
    assert dataset.subject_column == "tool"
    # Once the project has it, the same file reads as it will be taken in.
    told = json.loads(run("try", file, "--project", tmp_path, "--json"))
    assert (told["subject"], told["lines"]["kept"]) == ("TOOL1", 90)
