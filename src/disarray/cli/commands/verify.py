"""`disarray verify`: everything that is stored, computed once more from the files in another way."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disarray.cli.support.options import AsJson, InZone, OfDataset, OfSubject
from disarray.cli.support.printing import Columns, print_json, table_of
from disarray.cli.support.project import chosen_dataset, configuration, control_session, extra_installed
from disarray.cli.support.rendering import json_instant, parse_instant, parse_length, shown_instant, use_zone
from disarray.cli.support.text_tables import print_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from disarray.cli.support.text_tables import Table
    from disarray.control.connections import Connection
    from disarray.engine.verification.record import VerificationRecord
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
    since: Annotated[
        str | None,
        typer.Option(
            "--since", help="Recompute what lies from this time on; what is stored of before is believed."
        ),
    ] = None,
    sample: Annotated[
        str | None,
        typer.Option(
            "--sample", help="Recompute such a share of all segments, as 1%; another one each time."
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            help="Take about so long, as '10 min': subjects that were verified longest ago come first.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the run that was broken off, with its options."),
    ] = False,
    zone: InZone = None,
    as_json: AsJson = False,
) -> None:
    """Compute everything once more from the files, and compare it with what is stored, bit for bit.

    With --since or --sample not all segments are recomputed; that the values of all follow from them is checked all the
    same. What is found out about each subject is written down, and `status` tells it.
    """
    use_zone(context, zone)
    asked: dict[str, Any] = {
        "subject": subject,
        "dataset": dataset,
        "since": None if since is None else json_instant(parse_instant(since)),
        "sample": None if sample is None else share_of(sample),
        "budget_seconds": None if budget is None else parse_length(budget) / 1_000_000,
        "allow_vanished": allow_vanished or None,
    }
    asked = {name: value for name, value in asked.items() if value is not None}
    if resume and asked:
        raise typer.BadParameter("a run goes on with the options that it began with; give --resume alone")
    with extra_installed("worker", purpose="`verify`"):
        from disarray.engine.runner import SparkRunner
        from disarray.engine.session import start_session
        from disarray.engine.verification.selection import Selection
        from disarray.engine.verification.verify import verify as recompute
        from disarray.queries.names import find_subjects
        from disarray.queries.project import configured_datasets
        from disarray.store.lake import Lake

    config = configuration(context)
    datasets = configured_datasets(config)
    if dataset is not None:
        chosen_dataset(datasets, dataset)
    with control_session(context) as connection:
        record = _record(connection, asked, resume=resume)
        asked = dict(record.selection)
        hooks = _Hooks(connection, record)
        _print_step("starting Spark")
        session = start_session(config.spark_settings, log_file=config.state_dir / "spark.log")
        try:
            report = recompute(
                connection,
                SparkRunner(session),
                datasets,
                lake=Lake(config.lake_root),
                subject_key=asked.get("subject"),
                dataset=asked.get("dataset"),
                selection=Selection(
                    since_us=parse_instant(asked.get("since")),
                    share=asked.get("sample"),
                    seed=str(record.verification_id),
                ),
                budget_seconds=asked.get("budget_seconds"),
                record=record,
                on_found=hooks.tell,
                on_step=_print_step,
            )
        finally:
            session.stop()
        if subject is not None and not report.files and not report.readings:
            # A misspelt name has nothing that differs: without this it would be told as identical.
            find_subjects(connection, datasets, subject_key=subject, dataset=dataset)
        is_identical = report.is_identical(allow_vanished=asked.get("allow_vanished", False))
        if not is_identical:
            hooks.tell(report)
    if as_json:
        print_json(as_document(report, is_identical=is_identical))
    else:
        print_parts(describe(report, is_identical=is_identical))
    if not is_identical:
        raise typer.Exit(1)


def share_of(text: str) -> float:
    """The share that is meant by "1%" or "0.01"."""
    number, percent, rest = text.strip().partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = 0.0
    if rest or not 0 < share <= 1:
        raise typer.BadParameter(f"{text!r} is no share; write 1% or 0.01, more than 0 and at most 100%")
    return share


def _record(connection: Connection, asked: Mapping[str, Any], *, resume: bool) -> VerificationRecord:
    """The run that this is in the database: a new one, or the one that was broken off."""
    import uuid

    from disarray.control.verification_runs import find_open_verification
    from disarray.engine.verification.record import VerificationRecord

    if not resume:
        return VerificationRecord(uuid.uuid4(), asked, allow_vanished="allow_vanished" in asked)
    found = find_open_verification(connection)
    if found is None:
        raise typer.BadParameter(
            "the last run of verify has ended, or there was none; start one without --resume"
        )
    allowed = "allow_vanished" in found.selection
    return VerificationRecord(found.verification_id, found.selection, allow_vanished=allowed, is_resumed=True)


@dataclass
class _Hooks:
    """Who is told of what a run finds, as soon as it is found: a run that is broken off has told it."""

    connection: Connection
    record: VerificationRecord
    _is_refused: bool = False

    def tell(self, report: VerificationReport) -> None:
        """Let hooks be told. What speaks against that is told once, and the report is printed all the same."""
        from disarray.errors import ControlError
        from disarray.sinks.hook_verification import note_failed_verification

        if self._is_refused:
            return
        try:
            note_failed_verification(
                self.connection,
                report,
                verification_id=self.record.verification_id,
                allow_vanished=self.record.allow_vanished,
            )
        except ControlError as error:
            self._is_refused = True
            _print_step(f"no hook is told of this: {error}")


def _print_step(what: str) -> None:
    """On standard error, line by line: hours of work look alike in a log and on a terminal."""
    typer.echo(f"… {what}", err=True)


def as_document(report: VerificationReport, *, is_identical: bool) -> dict[str, Any]:
    """The whole report for programs; a float comes with its hexadecimal form, which no reader rounds."""
    return {
        "identical": is_identical,
        "is_part": _is_part(report),
        "subjects": {
            "verified": report.subjects,
            "verified_before": report.verified_before,
            "not_identical_before": report.verdicts_before,
            "left": report.subjects_left,
        },
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
    if report.verified_before:
        found = ", ".join(
            f"{name.replace('_', ' ')}: {count:,}" for name, count in report.verdicts_before.items()
        )
        yield f"{report.verified_before:,} subjects were verified before this run was broken off" + (
            f"; {found}" if found else ""
        )
    if report.subjects_left:
        yield f"time ran out: {report.subjects_left:,} subjects are left, and come first in the next run with --budget"
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
        verdict = "identical, as far as it was recomputed" if _is_part(report) else "identical"
        return f"{verdict}, but for what is sealed" if report.sealed else verdict
    before = report.verdicts_before
    if report.differences or "different" in before:
        return "DIFFERENT"
    return "not final" if report.not_compared or "not_final" in before else "not proven"


def _is_part(report: VerificationReport) -> bool:
    return report.is_part or report.subjects_left > 0


def _exact(value: float | str | None) -> str:
    if isinstance(value, float):
        return f"{value!r} ({value.hex()})"
    return "NULL" if value is None else str(value)


def _hex(value: float | str | None) -> str | None:
    return value.hex() if isinstance(value, float) else None
