"""What a person reads about a backfill: a plan, a line of progress, a whole job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from disarray.cli.support.printing import print_decision, print_json
from disarray.cli.support.rendering import counted, shown_instant, shown_moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.backfill.applying import Applied
    from disarray.backfill.starting import BackfillPlan
    from disarray.queries.backfills import Backfill, BackfillDetails

_BAR = 20
_SHOWN_FINDINGS = 20
_BY_SUBJECT = ("replay", "rebuild")  # kinds whose chunks are whole subjects, however many readings they have


def plan_lines(plan: BackfillPlan) -> Iterator[str]:
    """A plan, sentence by sentence."""
    about = "about " if plan.is_estimate else ""
    yield f"backfill {plan.name}: {plan.summary}"
    unit = _unit(plan.kind)
    size = f" in {plan.bytes:,} bytes" if plan.bytes else ""
    yield f"  {unit:<10}{about}{plan.rows:,}{size}"
    if plan.kind in _BY_SUBJECT:
        yield "  chunks    one for each dataset of a subject"
    else:
        yield f"  chunks    {about}{plan.chunks:,} of {plan.chunk_rows:,} {unit} to begin with"
    if plan.expected_seconds is not None:
        yield f"  expected  {plan.expected_seconds:.1f} s"
    if plan.sample is not None and plan.kind in _BY_SUBJECT:
        yield f"  sample    {counted(plan.sample.rows, 'reading')} compared in {plan.sample.seconds:.3f} s"
    elif plan.sample is not None:
        yield (
            f"  sample    {counted(plan.sample.rows, 'row')} read, {plan.sample.rows_written:,} written in "
            f"{plan.sample.seconds:.3f} s, and rolled back"
        )
    if not plan.is_one_database:
        yield "  database  not that of disarray: each chunk leaves a mark there"
    yield f"  check     {plan.proof}"


def progress_line(job: Backfill) -> str:
    """One line: how far, how fast, how long, and what it waits for."""
    share = min(job.rows_done / job.rows_estimated, 1.0) if job.rows_estimated else 1.0
    filled = int(share * _BAR)
    eta = "" if job.eta_seconds is None else f", {duration_text(job.eta_seconds)} left"
    dead = f", {counted(job.chunks_dead, 'dead chunk')}" if job.chunks_dead else ""
    held = f", waits ({job.held_by}): {job.held_reason}" if job.held_reason else ""
    return (
        f"{job.name} [{'#' * filled}{'.' * (_BAR - filled)}] {share:.0%} "
        f"{job.rows_done:,} of {job.rows_estimated:,} {_unit(job.kind)}, {job.rows_per_second:,.0f} "
        f"{_unit(job.kind)}/s{eta}{dead}{held}"
    )


def job_lines(job: BackfillDetails) -> Iterator[str]:
    """A job with its limits, what holds it back, and its verdict."""
    description: dict[str, Any] = job.description
    processing, health = description["processing"], description["health"]
    yield f"backfill {job.name} (job {job.job_id}) on {job.target}: {job.state}"
    if job.state_reason:
        yield f"  because      {job.state_reason}"
    yield f"  started      {shown_moment(job.started_at)} by {job.started_by}"
    chunks_text = (
        f"  chunks       {job.chunks_done:,} done, {job.chunks_claimed:,} at work, {job.chunks_waiting:,} waiting, "
        f"{job.chunks_dead:,} dead"
    )
    if job.kind == "replay":
        yield f"  readings     {job.rows_done:,} of {job.rows_estimated:,} made once more and compared"
        yield f"  found        {counted(job.rows_written, 'difference')}, {job.rows_read_again:,} not compared"
        yield f"{chunks_text}; a chunk is a subject"
    elif job.kind == "rebuild":
        yield f"  readings     {job.rows_done:,} of {job.rows_estimated:,} made anew, and once more to compare"
        yield f"  found        {counted(job.rows_written, 'difference')}, {job.rows_read_again:,} not compared"
        yield f"{chunks_text}; a chunk is a subject"
    elif job.kind == "republish":
        written = f"{counted(job.rows_written, 'row')} written"
        yield f"  subjects     {job.rows_done:,} of {job.rows_estimated:,} loaded anew, {written}"
        yield f"{chunks_text}; the next has {counted(job.chunk_rows, 'subject')}"
    elif job.kind == "resync":
        yield f"  rows         {job.rows_done:,} of about {job.rows_estimated:,}: each is read, compared and taken in"
        yield f"{chunks_text}; the next has {job.chunk_rows:,} rows"
    else:
        yield f"  rows         {job.rows_done:,} of {job.rows_estimated:,} done, {job.rows_written:,} written"
        yield f"  read again   {counted(job.rows_read_again, 'row')} that somebody changed meanwhile"
        yield f"{chunks_text}; the next has {job.chunk_rows:,} rows"
    rate = "no limit" if job.rate_limit is None else f"{job.rate_limit:,g} {_unit(job.kind)}/s"
    chunks = counted(job.max_concurrency, "chunk")
    yield f"  rate         {rate}, {chunks} at once, {processing['target_seconds']:g} s a chunk"
    yield f"  health       {', '.join(_limit(name, value) for name, value in health.items())}"
    yield f"  in force     {f'{job.held_by}: {job.held_reason}' if job.held_reason else 'no limit holds it back'}"
    for chunk in job.dead_chunks:
        yield f"  dead chunk   {chunk.chunk_no}, up to {', '.join(chunk.cursor_to)}: {chunk.last_error}"
    yield from _finding_lines(job)
    if job.verdict is None:
        yield "  verdict      none yet"
        return
    details: dict[str, Any] = job.verdict_details or {}
    noun = "reading" if job.kind in _BY_SUBJECT else "row"
    compared = f"{counted(details['chunks'], 'chunk')} with {counted(details['rows'], noun)} compared"
    yield f"  verdict      {job.verdict}: {compared}"
    if job.kind == "replay" and not details["chunks"]:
        yield "               nothing is stored of what was asked for, so nothing could differ"
    if job.kind == "resync" and details["rows_changed_since"]:
        yield "               others changed the table meanwhile: pulls take what they see, the next resync the rest"
    for sentence in (*details["failed"], *details["changed"]):
        yield f"               {sentence}"


def _finding_lines(job: BackfillDetails) -> Iterator[str]:
    """What a replay found: the subject, the segment, what differs there, and both values."""
    for each in job.findings[:_SHOWN_FINDINGS]:
        where = f"{each.dataset}/{each.subject_key}"
        if each.segment_us is not None:
            where += f" {shown_instant(each.segment_us)}"
        name = " ".join(part for part in (each.what, each.name, each.channel) if part)
        if each.kind == "different":
            yield f"  different    {where}  {name}: stored {each.stored or 'NULL'}, now {each.replayed or 'NULL'}"
        else:
            yield f"  {each.kind.replace('_', ' '):<11}  {where}  {name}: {each.replayed}"
    if len(job.findings) > _SHOWN_FINDINGS:
        yield "               … and more; --json lists them"


def _unit(kind: str) -> str:
    """What a kind counts."""
    if kind in _BY_SUBJECT:
        return "readings"
    return "subjects" if kind == "republish" else "rows"


def applied_sentences(applied: Applied) -> list[str]:
    """What was queued to take over the findings of a replay, and what was not."""
    queued = [counted(applied.files, "file") + " to be read again"] if applied.files else []
    queued += [counted(applied.rebuilds, "rebuild")] if applied.rebuilds else []
    found = ["Nothing differs that could be read again; nothing is queued."]
    if queued:
        found = [f"Queued: {' and '.join(queued)}; a worker does it next. Or run: disarray ingest"]
    if applied.subjects_before:
        found.append(f"Taken over before: {counted(applied.subjects_before, 'subject')} of this job.")
    if applied.segments_left:
        found.append(
            f"Left as they are: {counted(applied.segments_left, 'segment')}, of which no file can be read again, or "
            "which are too many for one replay. Check again after it"
        )
    return found


def print_plan(plan: BackfillPlan, *, as_json: bool) -> None:
    """What a job would do."""
    if as_json:
        print_json(plan)
        return
    for line in plan_lines(plan):
        typer.echo(line)


def print_detached(job_id: int, *, as_json: bool) -> None:
    """Where to look after a job that was just left to the workers."""
    print_decision({"job_id": job_id}, [detached_sentence(job_id)], dry_run=False, as_json=as_json)


def detached_sentence(job_id: int) -> str:
    """Where to look after a job that workers carry out."""
    return f"job {job_id} waits for the workers; disarray backfill show {job_id} tells how far it is."


def duration_text(seconds: float) -> str:
    """A length of time to come, roughly."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _limit(name: str, value: float | None) -> str:
    shown = name.removesuffix("_seconds")
    unit = " s" if name.endswith("_seconds") else ""
    return f"{shown} off" if value is None else f"{shown} {value:g}{unit}"
