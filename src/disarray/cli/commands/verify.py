"""`disarray verify`: everything that is stored, computed once more from the files in another way."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disarray.cli.support.context import configuration
from disarray.cli.support.database_session import control_session
from disarray.cli.support.rendering import InZone, shown_instant, use_zone
from disarray.cli.support.text_tables import Table, print_parts
from disarray.config import FILE_NAME
from disarray.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.engine.verification.recompute import VerificationReport

SHOWN = 20


def verify(
    context: typer.Context,
    *,
    subject: Annotated[str | None, typer.Option(help="Only this subject.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Only this dataset.")] = None,
    allow_vanished: Annotated[
        bool,
        typer.Option(
            "--allow-vanished",
            help="Believe what is kept of files whose source is gone or was replaced; they are still listed.",
        ),
    ] = False,
    zone: InZone = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Compute everything once more from the files, and compare it with what is stored, bit for bit."""
    use_zone(context, zone)
    try:
        from disarray.engine.session import start_session
        from disarray.engine.verification.recompute import verify as recompute
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"`verify` computes with Spark and needs {error.name}; "
            "install it with `pip install 'disarray-pipeline[worker]'`"
        ) from error
    from disarray.formats.loader import load_datasets
    from disarray.store.lake import Lake

    config = configuration(context)
    datasets = {each.name: each for each in load_datasets(config.dataset_file)}
    if dataset is not None and dataset not in datasets:
        raise ConfigError(
            f"{FILE_NAME} describes no dataset {dataset!r}; there are: {', '.join(sorted(datasets)) or 'none'}"
        )
    with control_session(config) as connection:
        _tell_step("starting Spark")
        session = start_session(config.spark_settings, log_file=config.state_dir / "spark.log")
        try:
            report = recompute(
                connection,
                session,
                datasets,
                lake=Lake(config.lake_root),
                subject_key=subject,
                dataset=dataset,
                on_step=_tell_step,
            )
        finally:
            session.stop()
    is_identical = report.is_identical(allow_vanished=allow_vanished)
    if as_json:
        typer.echo(json.dumps(as_document(report, is_identical=is_identical)))
    else:
        print_parts(describe(report, is_identical=is_identical))
    if not is_identical:
        raise typer.Exit(1)


def _tell_step(what: str) -> None:
    """On standard error, line by line: hours of work look alike in a log and on a terminal."""
    typer.echo(f"… {what}", err=True)


def as_document(report: VerificationReport, *, is_identical: bool) -> dict[str, Any]:
    """The whole report for programs; a float comes with its hexadecimal form, which no reader rounds."""
    return {
        "identical": is_identical,
        "compared": _compared(report),
        "differences": [
            asdict(each) | {"stored_hex": _hex(each.stored), "recomputed_hex": _hex(each.recomputed)}
            for each in report.differences
        ],
        "unproven": [asdict(each) for each in report.unproven],
        "not_compared": [asdict(each) for each in report.not_compared],
        "sealed_not_verified": [asdict(each) for each in report.sealed],
    }


def describe(report: VerificationReport, *, is_identical: bool) -> Iterator[Table | str]:
    """The report as a person reads it: the verdict first."""
    compared = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in _compared(report).items())
    yield f"verify: {_verdict(report, is_identical=is_identical)}"
    yield f"compared: {compared}"
    if report.differences:
        yield Table(
            ["subject", "what", "name", "channel", "segment", "stored", "recomputed"],
            [
                [
                    f"{each.dataset}/{each.subject_key}",
                    each.what,
                    each.name,
                    each.channel,
                    _instant(each.segment_us),
                    _shown(each.stored),
                    _shown(each.recomputed),
                ]
                for each in report.differences[:SHOWN]
            ],
        )
        yield from _rest(len(report.differences), "differences")
    if report.not_compared:
        yield Table(
            ["not final", "from", "why"],
            [
                [f"{each.dataset}/{each.subject_key}", _instant(each.stale_from_us), each.reason]
                for each in report.not_compared[:SHOWN]
            ],
        )
        yield from _rest(len(report.not_compared), "subjects")
    if report.sealed:
        yield Table(
            ["sealed, not verified", "segments", "readings"],
            [
                [f"{each.dataset}/{each.subject_key}", f"{each.segments:,}", f"{each.readings:,}"]
                for each in report.sealed[:SHOWN]
            ],
        )
        yield from _rest(len(report.sealed), "subjects")
    if report.unproven:
        yield Table(
            ["subject", "not proven by its source", "why"],
            [[each.subject_key, each.source_uri, each.reason] for each in report.unproven[:SHOWN]],
        )
        yield from _rest(len(report.unproven), "files")


def _compared(report: VerificationReport) -> dict[str, int]:
    return {
        "files": report.files,
        "readings": report.readings,
        "segments": report.segments,
        "bases": report.bases,
        "rollup_parts": report.rollup_parts,
    }


def _verdict(report: VerificationReport, *, is_identical: bool) -> str:
    if is_identical:
        return "identical, but for what is sealed" if report.sealed else "identical"
    if report.differences:
        return "DIFFERENT"
    return "not final" if report.not_compared else "not proven"


def _rest(count: int, noun: str) -> Iterator[str]:
    if count > SHOWN:
        yield f"… and {count - SHOWN} more {noun}; --json lists them"


def _instant(event_us: int | None) -> str:
    return "" if event_us is None else shown_instant(event_us)


def _shown(value: float | str | None) -> str:
    if isinstance(value, float):
        return f"{value!r} ({value.hex()})"
    return "NULL" if value is None else str(value)


def _hex(value: float | str | None) -> str | None:
    return value.hex() if isinstance(value, float) else None
