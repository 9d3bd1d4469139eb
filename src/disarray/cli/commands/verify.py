"""`disarray verify`: everything that is stored, computed once more from the files in another way."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disarray.cli.support.options import AsJson, InZone, OfDataset, OfSubject
from disarray.cli.support.printing import Columns, print_json, table_of
from disarray.cli.support.project import chosen_dataset, configuration, control_session, extra_installed
from disarray.cli.support.rendering import shown_instant, use_zone
from disarray.cli.support.text_tables import print_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disarray.cli.support.text_tables import Table
    from disarray.control.connections import Connection
    from disarray.engine.verification.verification_report import VerificationReport

SHOWN = 20
DIFFERENCE_COLUMNS: Columns = {
    "subject": lambda each: f"{each.dataset}/{each.subject_key}",
    "what": "what",
    "name": "name",
    "channel": "channel",
    "segment": lambda each: "" if each.segment_us is None else shown_instant(each.segment_us),
    "stored": lambda each: _exact(each.stored),
    "recomputed": lambda each: _exact(each.recomputed),
}
NOT_COMPARED_COLUMNS: Columns = {
    "not final": lambda each: f"{each.dataset}/{each.subject_key}",
    "from": lambda each: "" if each.stale_from_us is None else shown_instant(each.stale_from_us),
    "why": "reason",
}
SEALED_COLUMNS: Columns = {
    "sealed, not verified": lambda each: f"{each.dataset}/{each.subject_key}",
    "segments": "segments",
    "readings": "readings",
}
UNPROVEN_COLUMNS: Columns = {
    "subject": "subject_key",
    "not proven by its source": "source_uri",
    "why": "reason",
}


def verify(
    context: typer.Context,
    *,
    subject: OfSubject = None,
    dataset: OfDataset = None,
    allow_vanished: Annotated[
        bool,
        typer.Option(
            "--allow-vanished",
            help="Believe what is kept of files whose source is gone or was replaced; they are still listed.",
        ),
    ] = False,
    zone: InZone = None,
    as_json: AsJson = False,
) -> None:
    """Compute everything once more from the files, and compare it with what is stored, bit for bit."""
    use_zone(context, zone)
    with extra_installed("worker", purpose="`verify`"):
        from disarray.engine.runner import SparkRunner
        from disarray.engine.session import start_session
        from disarray.engine.verification.verify import verify as recompute
        from disarray.queries.project import configured_datasets
        from disarray.store.lake import Lake

    config = configuration(context)
    datasets = configured_datasets(config)
    if dataset is not None:
        chosen_dataset(datasets, dataset)
    with control_session(context) as connection:
        _print_step("starting Spark")
        session = start_session(config.spark_settings, log_file=config.state_dir / "spark.log")
        try:
            report = recompute(
                connection,
                SparkRunner(session),
                datasets,
                lake=Lake(config.lake_root),
                subject_key=subject,
                dataset=dataset,
                on_step=_print_step,
            )
        finally:
            session.stop()
        is_identical = report.is_identical(allow_vanished=allow_vanished)
        if not is_identical:
            _note_failure(connection, report, allow_vanished=allow_vanished)
    if as_json:
        print_json(as_document(report, is_identical=is_identical))
    else:
        print_parts(describe(report, is_identical=is_identical))
    if not is_identical:
        raise typer.Exit(1)


def _note_failure(connection: Connection, report: VerificationReport, *, allow_vanished: bool) -> None:
    """Let hooks be told. What speaks against that is told, and the report is printed all the same."""
    import uuid

    from disarray.errors import ControlError
    from disarray.sinks.hook_verification import note_failed_verification

    try:
        note_failed_verification(
            connection, report, verification_id=uuid.uuid4(), allow_vanished=allow_vanished
        )
    except ControlError as error:
        _print_step(f"no hook is told of this: {error}")


def _print_step(what: str) -> None:
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
    yield from _shown(report.differences, DIFFERENCE_COLUMNS, "differences")
    yield from _shown(report.not_compared, NOT_COMPARED_COLUMNS, "subjects")
    yield from _shown(report.sealed, SEALED_COLUMNS, "subjects")
    yield from _shown(report.unproven, UNPROVEN_COLUMNS, "files")


def _shown(found: Sequence[object], columns: Columns, noun: str) -> Iterator[Table | str]:
    if found:
        yield table_of(found[:SHOWN], columns)
    if len(found) > SHOWN:
        yield f"… and {len(found) - SHOWN} more {noun}; --json lists them"


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


def _exact(value: float | str | None) -> str:
    if isinstance(value, float):
        return f"{value!r} ({value.hex()})"
    return "NULL" if value is None else str(value)


def _hex(value: float | str | None) -> str | None:
    return value.hex() if isinstance(value, float) else None
