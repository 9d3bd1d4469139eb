"""`disarray export`: readings, metrics and rollups as files."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.options import AsJson, InDataset, OfSubject
from disarray.cli.support.printing import print_json, print_pending_rebuilds
from disarray.cli.support.project import open_project
from disarray.cli.support.rendering import counted, parse_instant, use_zone
from disarray.cli.support.terminal import StandardOutput
from disarray.cli.support.text_tables import is_terminal
from disarray.errors import AmbiguousNameError, DefinitionChangedError
from disarray.model.segments import FIRST_US, LAST_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from disarray.cli.support.project import Project
    from disarray.queries.names import SubjectOf
    from disarray.queries.readings import Readings


class What(enum.StrEnum):
    """What can be exported."""

    READINGS = "readings"
    METRICS = "metrics"
    ROLLUPS = "rollups"


class ExportFormat(enum.StrEnum):
    """As `queries.export.FileFormat`, which needs Arrow; help must not."""

    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"


_ENDINGS = {
    ".csv": ExportFormat.CSV,
    ".parquet": ExportFormat.PARQUET,
    ".arrow": ExportFormat.ARROW,
    ".feather": ExportFormat.ARROW,
}
STANDARD_OUTPUT = "-"


def export(
    context: typer.Context,
    what: What,
    *,
    output: Annotated[str, typer.Option(help="The file to write, or - for standard output.")],
    file_format: Annotated[
        ExportFormat | None,
        typer.Option("--format", help="What it is written as; by the ending of the file if not given."),
    ] = None,
    subject: OfSubject = None,
    dataset: InDataset = None,
    from_: Annotated[str | None, typer.Option("--from", help="From this instant on.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="Before this instant.")] = None,
    escape_formulas: Annotated[
        bool,
        typer.Option(
            help="In CSV, put an apostrophe before text that a spreadsheet would take for a formula: that begins "
            "with = + - @, a tab or a line end, and is no number.",
        ),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Write readings with their running values, metrics by segment, or rollups into one file."""
    use_zone(context)
    chosen = _format_of(output, file_format)
    from_us = FIRST_US if from_ is None else parse_instant(from_)
    to_us = LAST_US if to is None else parse_instant(to)
    with open_project(context) as project:
        from disarray.queries.export import FileFormat, stream_writer, table_writer
        from disarray.queries.names import find_subjects

        subjects = find_subjects(project.connection, project.datasets, subject_key=subject, dataset=dataset)
        schema = _schema(what, subjects)
        rows = 0
        sealed = 0
        writer = (
            stream_writer(StandardOutput(), schema, FileFormat(chosen), escapes_formulas=escape_formulas)
            if output == STANDARD_OUTPUT
            else table_writer(Path(output), schema, FileFormat(chosen), escapes_formulas=escape_formulas)
        )
        with writer as write:
            for each in subjects:
                tables = _tables(project, what, each, from_us=from_us, to_us=to_us)
                sealed += getattr(tables, "sealed_segments", 0)
                for table in tables:
                    write(table)
                    rows += table.num_rows
        stale = _stale_subjects(project, subjects)
    # Messages must not get into what was exported.
    is_piped = output == STANDARD_OUTPUT
    if as_json:
        pending = sorted({each.subject_key for each in subjects if each.is_rebuild_pending})
        document = {
            "output": output,
            "format": chosen,
            "rows": rows,
            "subjects": len(subjects),
            "stale_subjects": stale,
            "rebuild_pending": pending,
            "sealed_segments": sealed,
        }
        print_json(document, err=is_piped)
        return
    where = "" if is_piped else f" in {output}"
    typer.echo(f"{counted(rows, 'row')} of {counted(len(subjects), 'subject')}{where}.", err=is_piped)
    print_pending_rebuilds(subjects, err=is_piped)
    if sealed:
        typer.echo(
            f"{counted(sealed, 'sealed segment')} left out: their readings are no longer kept (retain).",
            err=is_piped,
        )
    if stale:
        typer.echo(
            f"Some numbers of {', '.join(stale)} were stale: a repair is queued. Export again afterwards.",
            err=is_piped,
        )


def _format_of(output: str, given: ExportFormat | None) -> ExportFormat:
    """The format of the flag, else that of the file's ending; where both are given they have to agree."""
    ending = Path(output).suffix.lower()
    by_ending = _ENDINGS.get(ending)
    if given is not None and by_ending is not None and given is not by_ending:
        raise typer.BadParameter(
            f"{output} ends like {by_ending}, and --format says {given}. Nothing was written",
            param_hint="--format",
        )
    chosen = given or by_ending or (ExportFormat.CSV if output == STANDARD_OUTPUT or not ending else None)
    if output == STANDARD_OUTPUT and chosen is not ExportFormat.CSV and is_terminal():
        raise typer.BadParameter(
            f"{chosen} is not for a terminal: send it into a file or a pipe. Nothing was written",
            param_hint="--output",
        )
    if chosen is not None:
        return chosen
    raise typer.BadParameter(
        f"{output} does not say what to write: known endings are {', '.join(_ENDINGS)}. Choose with --format. "
        "Nothing was written",
        param_hint="--output",
    )


def _schema(what: What, subjects: Sequence[SubjectOf]) -> pa.Schema:
    from disarray.queries.export import METRICS_SCHEMA, ROLLUPS_SCHEMA
    from disarray.queries.readings import readings_with_values_schema

    if what is What.METRICS:
        return METRICS_SCHEMA
    if what is What.ROLLUPS:
        return ROLLUPS_SCHEMA
    datasets = {subject.dataset.name: subject.dataset for subject in subjects}
    if len(datasets) != 1:
        those = ", ".join(datasets) or "none"
        raise AmbiguousNameError(
            f"readings of one dataset fit into one file, and the subjects have {those}; choose one with --dataset. "
            "Nothing was written"
        )
    columns = {readings_with_values_schema(subject.dataset) for subject in subjects}
    if len(columns) != 1:
        pending = sorted(subject.subject_key for subject in subjects if subject.is_rebuild_pending)
        raise DefinitionChangedError(
            f"the dataset was defined anew, and readings of {', '.join(pending)} still have the columns and metrics of "
            "before. Nothing was written. Export when the rebuild is done, or choose a subject with --subject"
        )
    return readings_with_values_schema(next(iter(datasets.values())))


def _tables(
    project: Project, what: What, subject: SubjectOf, *, from_us: int, to_us: int
) -> Readings | Iterator[pa.Table]:
    from disarray.queries.export import metrics_tables, rollups_tables
    from disarray.queries.readings import readings

    if what is What.READINGS:
        return readings(
            project.connection,
            project.lake,
            dataset=subject.dataset,
            subject_key=subject.subject_key,
            from_us=max(from_us, subject.first_us),
            to_us=min(to_us, subject.last_us + 1),
        )
    tables = metrics_tables if what is What.METRICS else rollups_tables
    return tables(project.connection, subject.dataset, subject.subject_key, from_us=from_us, to_us=to_us)


def _stale_subjects(project: Project, subjects: Sequence[SubjectOf]) -> list[str]:
    from disarray.control.values import stale_from

    return sorted(
        {
            each.subject_key
            for each in subjects
            if stale_from(project.connection, each.dataset.name, each.subject_key) is not None
        }
    )
