"""`disarray audit`: does all hold that must always hold, and if not, what does it mean."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from disarray.cli.support.options import AsJson
from disarray.cli.support.printing import print_json
from disarray.cli.support.project import configuration, control_session, extra_installed
from disarray.cli.support.rendering import counted
from disarray.cli.support.text_tables import Table, print_parts
from disarray.errors import DisarrayError
from disarray.model.duration import parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from disarray.config import Config
    from disarray.model.description.dataset import Dataset
    from disarray.store.audit.audit import Verdict

SHOWN = 5


def audit(
    context: typer.Context,
    *,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Also read every file of the lake, and check what it gives."),
    ] = False,
    patience: Annotated[
        str,
        typer.Option(
            help="How long something may wait that somebody is about to do; '0 s' for a system at rest."
        ),
    ] = "10 min",
    since: Annotated[
        str, typer.Option(help="How far back requests are followed through the events.")
    ] = "7 d",
    as_json: AsJson = False,
) -> None:
    """Look up every guarantee in the database and the lake, while they are in use. Nothing is changed.

    What is stored is held against itself here; `disarray verify` holds it against the files.
    """
    with extra_installed("worker", purpose="`audit`"):
        from disarray.store.audit.audit import AuditSettings, Outcome
        from disarray.store.audit.audit import audit as audit_all
        from disarray.store.lake import Lake

    config = configuration(context)
    settings = AuditSettings(
        patience=_length(patience),
        since=_length(since),
        # What housekeeping leaves alone, and two of its hourly turns.
        orphans_after=config.length("housekeeping.vacuum_after") + timedelta(hours=2),
        is_deep=deep,
        datasets=_datasets(config),
    )
    with control_session(context) as connection:
        verdicts = audit_all(connection, Lake(config.lake_root), settings)
    if as_json:
        print_json(as_document(verdicts))
    else:
        print_parts(describe(verdicts))
    if any(verdict.outcome is Outcome.BROKEN for verdict in verdicts):
        raise typer.Exit(1)


def _datasets(config: Config) -> list[Dataset]:
    """Those of the project; a reader of the database may have none."""
    from disarray.formats.loader import load_datasets

    return list(load_datasets(config.dataset_file)) if config.dataset_file.exists() else []


def as_document(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The verdicts for programs, with all findings."""
    return {
        "holds": not any(verdict.findings for verdict in verdicts),
        "rules": [
            {
                "guarantee": verdict.rule.guarantee,
                "rule": verdict.rule.name,
                "outcome": verdict.outcome.lower(),
                "note": verdict.note,
                "meaning": verdict.rule.meaning if verdict.findings else None,
                "next_step": verdict.rule.next_step if verdict.findings else None,
                "findings": [asdict(finding) for finding in verdict.findings],
            }
            for verdict in verdicts
        ],
    }


def describe(verdicts: Sequence[Verdict]) -> Iterator[Table | str]:
    """The verdicts as a person reads them: all in one first, then what is broken."""
    from disarray.store.audit.audit import Outcome

    broken = [verdict for verdict in verdicts if verdict.findings]
    yield "audit: " + (f"{counted(len(broken), 'rule')} BROKEN" if broken else "everything holds")
    yield Table(
        ["guarantee", "rule", "verdict"],
        [
            [verdict.rule.guarantee, _shown_name(verdict), verdict.outcome]
            for verdict in sorted(verdicts, key=lambda verdict: verdict.rule.guarantee)
        ],
    )
    skipped = Counter(verdict.note for verdict in verdicts if verdict.outcome is Outcome.SKIPPED)
    for note, count in skipped.items():
        yield f"{counted(count, 'rule')} skipped: {note}"
    for verdict in verdicts:
        if verdict.note and verdict.outcome is not Outcome.SKIPPED:
            yield f"{_shown_name(verdict)}: {verdict.note}"
    for verdict in broken:
        yield ""
        yield f"{_shown_name(verdict)}: {verdict.rule.meaning}"
        for finding in verdict.findings[:SHOWN]:
            yield f"  {finding.found_at}: {finding.detail}"
        if len(verdict.findings) > SHOWN:
            yield f"  … and {len(verdict.findings) - SHOWN} more at least; --json lists them"
        yield f"  Next: {verdict.rule.next_step}."


def _shown_name(verdict: Verdict) -> str:
    return verdict.rule.name.replace("_", " ")


def _length(text: str) -> timedelta:
    try:
        return timedelta(microseconds=parse_duration(text))
    except DisarrayError as error:
        raise typer.BadParameter(str(error)) from None
