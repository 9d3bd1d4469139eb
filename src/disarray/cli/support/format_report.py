"""How a trial is told: tables and short sentences for people, JSON for programs."""

from __future__ import annotations

import shlex
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from disarray.cli.support.terminal import open_console
from disarray.model.description.format import CHANNEL, EVENT_US, ColumnType
from disarray.model.duration import format_duration
from disarray.model.segments import datetime_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from disarray.cli.support.format_trial import Trial

_WIDEST_CELL = 20
_SHOWN_REJECTS = 8
_SAMPLE_CHARACTERS = 100
_WIDEST_COLUMN = 30
_NUMERIC = (ColumnType.FLOAT64, ColumnType.INT64)


def report_text(trial: Trial, *, rows: int) -> None:
    """Print what was seen and what is proposed."""
    console = open_console(highlight=False, soft_wrap=False)
    described = trial.dataset.format
    name = f"dataset '{trial.dataset.name}' of disarray.toml" if trial.is_own else described.name
    console.print(f"[bold]{escape(trial.file.name)}[/bold] reads as [bold green]{escape(name)}[/bold green].")
    for reason in trial.reasons:
        console.print(f"  because {escape(reason)}")
    console.print(f"  its subject is [bold]{escape(trial.subject)}[/bold]")
    if trial.preamble:
        fields = ", ".join(f"{name} = {value}" for name, value in trial.preamble.items())
        console.print(f"  the preamble says {escape(fields)}")
    console.print()
    _print_readings(console, trial, rows)
    _print_rejects(console, trial)
    _print_seen(console, trial)
    for check in trial.checks:
        console.print(f"[bold yellow]Check[/bold yellow] {escape(check)}.")
    if trial.checks:
        console.print()
    if trial.is_own:
        console.print(
            "Nothing has to be added: [bold]disarray up --once[/bold] takes it in as it is read here."
        )
        return
    console.print("[bold]A dataset for it[/bold], ready for disarray.toml:\n")
    # Plain and unwrapped: this is to be copied.
    console.print(trial.block, markup=False, soft_wrap=True, end="")
    _print_next(console, trial)


def _print_next(console: Console, trial: Trial) -> None:
    """How a number comes out of it, as comments: whoever copies to the end gets a file that loads."""
    # Whole numbers often only count the rows.
    numeric = [column.name for type_ in _NUMERIC for column in trial.dataset.columns if column.type is type_]
    if not numeric:
        return
    name = numeric[0]
    lines = (
        "",
        "# Numbers come from metrics and rollups (docs/dataset-reference.md). A first one:",
        f"# [dataset.metrics.{name}_highest]",
        '# kind = "max"',
        f'# input = "{name}"',
        f"# Then: disarray up --once && disarray value {shlex.quote(trial.subject)} {name}_highest",
    )
    console.print("\n".join(lines), markup=False, soft_wrap=True)


def report_json(trial: Trial, *, rows: int) -> dict[str, object]:
    """The same as one JSON object; times are ISO in UTC, durations texts that a dataset takes."""
    seen = trial.seen
    counts = trial.outcome.counts
    return {
        "file": str(trial.file),
        "format": trial.dataset.format.name,
        "reasons": list(trial.reasons),
        "checks": list(trial.checks),
        "preamble": dict(trial.preamble),
        "subject": trial.subject,
        "cut": trial.is_cut,
        "lines": {
            "seen": counts.seen,
            "kept": counts.kept,
            "rejected": counts.rejected,
            "blank": counts.blank,
            "preamble": counts.preamble,
            "waiting": counts.waiting,
        },
        "first": None if seen.first_us is None else datetime_of(seen.first_us).isoformat(),
        "last": None if seen.last_us is None else datetime_of(seen.last_us).isoformat(),
        "interval": None if seen.interval_us is None else format_duration(seen.interval_us),
        "repeated_stamps": seen.repeated_stamps,
        "out_of_order": seen.out_of_order,
        "key": None if seen.key is None else list(seen.key),
        "channel": seen.channel,
        "segment": format_duration(seen.segment_us),
        "readings": [_plain(row) for row in trial.table.slice(0, rows).to_pylist()],
        "rejects": [
            {
                "line": each.line,
                "offset": each.offset,
                "reason": each.reason,
                "column": each.column,
                "sample": each.sample,
            }
            for each in trial.outcome.rejects[:_SHOWN_REJECTS]
        ],
        "dataset": None if trial.is_own else trial.block,
        "own_dataset": trial.dataset.name if trial.is_own else None,
    }


def _plain(row: dict[str, object]) -> dict[str, object]:
    event_us = row.pop(EVENT_US)
    row.pop(CHANNEL, None)
    assert isinstance(event_us, int)
    values = {
        name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()
    }
    return {"event_time": datetime_of(event_us).isoformat(), **values}


def _print_readings(console: Console, trial: Trial, rows: int) -> None:
    zone = ZoneInfo(trial.dataset.event_time.zone or "UTC")
    units = {column.name: column.unit for column in trial.dataset.columns}
    readings: list[dict[str, Any]] = [
        {
            name: value.astimezone(zone) if isinstance(value, datetime) else value
            for name, value in row.items()
        }
        for row in trial.table.slice(0, rows).to_pylist()
    ]
    stamps = [_stamp(datetime_of(row[EVENT_US]).astimezone(zone)) for row in readings]
    title = f"event time ({zone.key})"
    room = console.width - max(map(len, [title, *stamps]))
    names = [column.name for column in trial.dataset.columns]
    table = Table(
        title=f"The first of {_amount(trial.table.num_rows, 'reading')}",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    table.add_column(title, no_wrap=True)
    shown: list[str] = []
    for name in names:
        header = Text.assemble(name, (f" {units[name]}" if units[name] else "", "dim"))
        room -= 2 + min(_WIDEST_CELL, max(len(header), *(len(_cell(row[name])) for row in readings), 0))
        if room < 0 and shown:
            break
        shown.append(name)
        table.add_column(header, justify="right", overflow="ellipsis", no_wrap=True, max_width=_WIDEST_CELL)
    for stamp, row in zip(stamps, readings, strict=True):
        table.add_row(stamp, *(Text(_cell(row[name])) for name in shown))
    console.print(table)
    if len(names) > len(shown):
        console.print(f"[dim]… and {len(names) - len(shown)} more: {', '.join(names[len(shown) :])}[/dim]")
    console.print()


def _print_rejects(console: Console, trial: Trial) -> None:
    counts = trial.outcome.counts
    if not counts.rejected:
        console.print("No row was rejected.\n")
        return
    table = Table(
        title=_amount(counts.rejected, "rejected row"), title_justify="left", box=None, pad_edge=False
    )
    headers = ("line", "reason", "column", "what it says")
    rejects = [
        (
            f"{each.line:,}",
            each.reason.value.replace("_", " "),
            (each.column or "")[:_WIDEST_COLUMN],
            each.sample,
        )
        for each in trial.outcome.rejects[:_SHOWN_REJECTS]
    ]
    needed = [max(len(row[at]) for row in (headers, *rejects)) for at in range(3)]
    # Line and reason are what is looked for: only the sample gives way on a narrow terminal.
    room = max(len(headers[3]), min(_SAMPLE_CHARACTERS, console.width - sum(needed) - 2 * len(needed)))
    for header, width in zip(headers, [*needed, room], strict=True):
        table.add_column(
            header, justify="right" if header == "line" else "left", no_wrap=True, min_width=width
        )
    for line, reason, column, sample in rejects:
        shown = sample if len(sample) <= room else f"{sample[: room - 1]}…"
        table.add_row(line, Text(reason, "red"), Text(column), Text(shown))
    console.print(table)
    for reason, count in sorted(trial.outcome.rejects_by_reason.items(), key=lambda pair: -pair[1]):
        console.print(f"[dim]{count:,} × {reason.value.replace('_', ' ')}[/dim]")
    console.print()


def _print_seen(console: Console, trial: Trial) -> None:
    for sentence in _sentences(trial):
        console.print(sentence)
    console.print()


def _sentences(trial: Trial) -> Iterator[str]:
    counts, seen = trial.outcome.counts, trial.seen
    parts = [
        _amount(counts.kept, "reading"),
        f"{counts.rejected:,} rejected",
        f"{counts.preamble:,} before and in the header",
        f"{counts.blank:,} blank",
    ]
    whole = "Of the first part of the file, " if trial.is_cut else ""
    yield f"{whole}{_amount(counts.seen, 'line')} = {' + '.join(parts)}."
    if seen.first_us is None or seen.last_us is None:
        yield "Without readings there is nothing to tell key and segment from."
        return
    span = _coarse(seen.last_us - seen.first_us)
    zone = ZoneInfo(trial.dataset.event_time.zone or "UTC")
    first, last = (datetime_of(us).astimezone(zone) for us in (seen.first_us, seen.last_us))
    yield f"They run from {_stamp(first)} to {_stamp(last)}: {span}" + (
        f", mostly every {_coarse(seen.interval_us)}." if seen.interval_us else "."
    )
    yield f"Stamps that repeat an earlier one: {seen.repeated_stamps:,}; steps back in time: {seen.out_of_order:,}."
    if seen.channel:
        yield f"[bold]Channel[/bold] {seen.channel}: one stamp comes once for each of its values."
    yield f"[bold]Key[/bold] {_key_sentence(trial)}."
    amount = f"about {seen.per_segment:,} readings each at this rate"
    yield f"[bold]Segment[/bold] {format_duration(seen.segment_us)}: {amount}."


def _key_sentence(trial: Trial) -> str:
    seen = trial.seen
    beside, are = ("event time and channel", "are") if seen.channel else ("event time", "is")
    if seen.key is None:
        return f"all columns (the default): no single column beside {beside} tells all readings apart"
    if not seen.key:
        return f"\\[]: {beside} {are} enough to tell all readings apart"
    return f"{seen.key[0]}: beside {beside} it tells all readings apart"


def _amount(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _coarse(microseconds: int) -> str:
    """A span as people say it: its two largest parts."""
    return " ".join(format_duration(microseconds).split()[:4])


def _stamp(instant: datetime) -> str:
    text = instant.replace(tzinfo=None).isoformat(sep=" ")
    return text.rstrip("0") if "." in text else text


def _cell(value: object) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:.8g}"
        case datetime():
            return _stamp(value)
        case _:
            return str(value)
