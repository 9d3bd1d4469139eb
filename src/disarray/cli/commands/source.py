"""`disarray source`: tables of other databases, how far they are read, and what is decided about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, assert_never

import typer

from disarray.cli.support.options import BY_HAND, AsJson, By, DryRun, Reason
from disarray.cli.support.printing import Columns, print_decision, print_json, print_list
from disarray.cli.support.project import configuration, control_session, decision, extra_installed
from disarray.cli.support.rendering import counted, use_zone
from disarray.cli.support.signals import stop_on_signals
from disarray.errors import ConfigError

if TYPE_CHECKING:
    from disarray.control.sources import SourceDecision
    from disarray.model.description.table_source import TableSource
    from disarray.queries.sources import Source

app = typer.Typer(
    no_args_is_help=True,
    help="Tables of other databases: how far they are read; pull, pause, reset, resync, try one.",
)

Name = Annotated[str, typer.Argument(help="A [[source]] of disarray.toml.")]
SHOWN_BATCHES = 5


@app.command("list")
def list_(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List the sources that were read, how far, and when each is due."""
    from disarray.queries.sources import list_sources

    use_zone(context)
    with control_session(context) as connection:
        found = list_sources(connection, limit=1000).sources
    columns: Columns = {
        "source": "pipeline_name",
        "table": "table_name",
        "rows": "rows_taken",
        "up to": lambda each: each.cursor_to and _shown_cursor(each.cursor_to, each.watermark),
        "last rows": "last_delivered_at",
        "due": lambda each: "paused" if each.paused_at else each.next_pull_at,
        "error": "last_error",
    }
    print_list(found, columns, as_json=as_json, otherwise="No source was read yet. See: docs/sources.md")


@app.command()
def show(context: typer.Context, name: Name, *, as_json: AsJson = False) -> None:
    """Show how far a source is read, whether its watermark is exact, and its last batches."""
    from disarray.cli.support.initial_loads import load_lines
    from disarray.control.deliveries import list_batches
    from disarray.queries.sources import find_source_state

    use_zone(context)
    source = _described(context, name)
    with control_session(context) as connection:
        known = find_source_state(connection, source.name, source.table_name)
        batches = list_batches(connection, source_name=source.name, limit=SHOWN_BATCHES)
    if as_json:
        print_json({"source": known, "batches": batches})
        return
    if known is None:
        typer.echo(
            f"Source {name} was never read. A worker reads it, or run: disarray source run {name} --once"
        )
        return
    typer.echo(
        f"{name} reads {source.table_name} by watermark = '{source.watermark}': "
        f"{counted(known.rows_taken, 'row')} delivered, "
        f"{known.rows_duplicate:,} had come before, {known.rows_rejected:,} rejected."
    )
    typer.echo(_progress_sentence(source, known))
    if known.initial_load is not None:
        for line in load_lines(known.initial_load):
            typer.echo(line)
    for notice in known.notices:
        typer.echo(f"Note: {notice}.")
    if known.paused_at is not None:
        typer.echo(f"Paused: {known.pause_reason}.")
    if known.last_error is not None:
        typer.echo(f"Failed {known.failure_count:,} times: {known.last_error}")
    columns: Columns = {
        "batch": lambda each: str(each.batch_no),
        "rows": "rows_taken",
        "files": "files",
        "from": lambda each: each.cursor_from and _shown_cursor(each.cursor_from, known.watermark),
        "to": lambda each: each.cursor_to and _shown_cursor(each.cursor_to, known.watermark),
        "delivered": "delivered_at",
    }
    print_list(batches, columns, as_json=False, otherwise="Nothing was delivered yet.")


@app.command()
def run(
    context: typer.Context,
    name: Name,
    *,
    once: Annotated[bool, typer.Option("--once", help="End when all that is there was delivered.")] = False,
    as_json: AsJson = False,
) -> None:
    """Pull a source now, due or not, and then every so often; workers do so by themselves.

    A large table that was never read is taken in by chunks of its key first, several at a time.
    """
    with extra_installed("worker", purpose="`source run`"):
        from disarray.cli.support.initial_loads import run_initial_load
        from disarray.control.instances import register_command
        from disarray.queries.project import configured_datasets, configured_sources
        from disarray.sources.landing import Landing
        from disarray.sources.table_puller import TablePuller, find_source, refuse_unreadable_sources
        from disarray.worker.process.local import open_pool
        from disarray.worker.process.pulling import sentence_of

    config = configuration(context)
    datasets = configured_datasets(config)
    sources = configured_sources(config, datasets)
    source = find_source(sources, name)
    landing = Landing(config.landing_root)
    refuse_unreadable_sources(landing, sources, datasets.values())
    stop = stop_on_signals()
    with open_pool(config, application_name="disarray source run") as pool:
        with pool.connection() as connection:
            holder = register_command(connection, f"source run {name}")
        puller = TablePuller(pool=pool, landing=landing, datasets=datasets, holder=holder, sources=sources)
        while not stop.is_set():
            pulled = list(puller.pull(source, is_asked_for=True))
            if not pulled:
                raise ConfigError(
                    f"source {name} is paused, or another worker reads it now. Nothing was taken. "
                    f"See: disarray source show {name}"
                )
            news = [each for each in pulled if each.counts.taken or each.counts.rejected]
            if as_json:
                print_json(pulled)
            else:
                for each in news:
                    typer.echo(sentence_of(each))
            loaded = run_initial_load(config, puller, source, stop, is_quiet=as_json)
            if not as_json and not news and not loaded:
                typer.echo(f"Nothing is new in {name}.")
            if once:
                return
            stop.wait(source.every_us / 1_000_000)


@app.command()
def pause(
    context: typer.Context,
    name: Name,
    *,
    reason: Reason,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let nobody read a source until it is resumed; who reads it now loses its turn."""
    from disarray.control.sources import SourceDecision

    _decide(context, name, SourceDecision.PAUSED, reason=reason, by=by, dry_run=dry_run, as_json=as_json)


@app.command()
def resume(
    context: typer.Context,
    name: Name,
    *,
    reason: Reason = BY_HAND,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let a paused source be read again, at once."""
    from disarray.control.sources import SourceDecision

    _decide(context, name, SourceDecision.RESUMED, reason=reason, by=by, dry_run=dry_run, as_json=as_json)


@app.command()
def reset(
    context: typer.Context,
    name: Name,
    *,
    to: Annotated[
        str, typer.Option("--to", help="beginning, now, or the last value of the cursor that is not wanted.")
    ],
    reason: Reason,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let a source go on from elsewhere and learn its columns anew. Rows that come twice count once."""
    from disarray.control.sources import SourceDecision
    from disarray.model.description.spec_table import MisfitError
    from disarray.model.description.table_source import read_start
    from disarray.sources.table_extract import reset_watermark

    source = _described(context, name)
    try:
        at = read_start(to, source.watermark)
    except MisfitError as misfit:
        raise typer.BadParameter(f"expected {misfit.expected}, found {to!r}") from None
    watermark = reset_watermark(source, at)
    _decide(
        context,
        name,
        SourceDecision.RESET,
        reason=reason,
        by=by,
        dry_run=dry_run,
        as_json=as_json,
        watermark=watermark,
    )


@app.command()
def resync(
    context: typer.Context,
    name: Name,
    *,
    allow_deletes: Annotated[
        bool, typer.Option("--allow-deletes", help="Also where more than a tenth of what counts would go.")
    ] = False,
    reason: Reason = BY_HAND,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Read a table once more, whole, and take out what is gone there: deletes, and rows with another time or key.

    Begins a backfill of kind resync and leaves it to the workers. Nothing changes before all of it is read and
    compared; then each subject changes with one commit. See docs/backfill.md.
    """
    from disarray.cli.support.source_resync import plan_resync, start_resync

    config = configuration(context)
    source = _described(context, name)
    with extra_installed("worker", purpose="`source resync`"):
        if dry_run:
            plan_resync(config, source, allow_deletes=allow_deletes, as_json=as_json)
            return
        start_resync(config, source, allow_deletes=allow_deletes, reason=reason, by=by, as_json=as_json)


@app.command("try")
def try_(
    context: typer.Context,
    table: Annotated[str, typer.Argument(help="A table, with its schema where it has one: public.readings.")],
    *,
    url_env: Annotated[
        str | None, typer.Option("--url-env", help="The environment variable that holds the url.")
    ] = None,
    url_file: Annotated[str | None, typer.Option("--url-file", help="The file that holds the url.")] = None,
    url: Annotated[str | None, typer.Option("--url", help="The url, if it has no password.")] = None,
    name: Annotated[str | None, typer.Option(help="What to call the source.")] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="What tells rows apart; the primary key if not given.")
    ] = None,
    cursor: Annotated[str | None, typer.Option(help="The column that grows with every change.")] = None,
    subject: Annotated[str | None, typer.Option(help="The column that names the subject.")] = None,
    event_time: Annotated[str | None, typer.Option(help="When a reading happened.")] = None,
    as_json: AsJson = False,
) -> None:
    """Try a table: ten rows as they would be taken, the plan of the extract, and the blocks to describe it."""
    from disarray.cli.support.text_tables import Table, print_parts
    from disarray.model.description.table_source import SourceUrl, UrlOrigin
    from disarray.sources.table_session import open_session
    from disarray.sources.table_trial import Choices, try_table

    given = {UrlOrigin.ENVIRONMENT: url_env, UrlOrigin.FILE: url_file, UrlOrigin.INLINE: url}
    [*chosen] = [SourceUrl(origin, text) for origin, text in given.items() if text]
    if len(chosen) != 1:
        raise typer.BadParameter("say where the database is: one of --url-env, --url-file and --url")
    choices = Choices(name=name, key=key or (), cursor=cursor, subject=subject, event_time=event_time)
    config = configuration(context)
    landing = config.landing_root
    if landing.is_relative_to(config.project):
        landing = landing.relative_to(config.project)
    with open_session(chosen[0], source_name=name or table, timeout_us=60_000_000) as session:
        trial = try_table(session, chosen[0], table, choices, landing=landing)
    if as_json:
        print_json(trial)
        return
    if trial.rows:
        print_parts(
            [Table(list(trial.rows[0]), [[str(value) for value in row.values()] for row in trial.rows])]
        )
    else:
        typer.echo("The table has no rows.")
    typer.echo("\nThe next extract would be found so:")
    for line in trial.plan:
        typer.echo(f"  {line}")
    for warning in trial.warnings:
        typer.echo(f"Note: {warning}.")
    typer.echo(f"\nFor disarray.toml:\n\n{trial.blocks}", nl=False)


def _decide(
    context: typer.Context,
    name: str,
    chosen: SourceDecision,
    *,
    reason: str,
    by: str,
    dry_run: bool,
    as_json: bool,
    watermark: dict[str, Any] | None = None,
) -> None:
    from disarray.control.sources import decide_source

    source = _described(context, name)
    with decision(context, dry_run=dry_run) as connection:
        decide_source(
            connection, source.name, source.table_name, chosen, reason=reason, by=by, watermark=watermark
        )
    print_decision(
        {"source": name, "decision": str(chosen)},
        [f"source {name} is {chosen}."],
        dry_run=dry_run,
        as_json=as_json,
    )


def _described(context: typer.Context, name: str) -> TableSource:
    from disarray.queries.project import configured_datasets, configured_sources
    from disarray.sources.table_puller import find_source

    config = configuration(context)
    return find_source(configured_sources(config, configured_datasets(config)), name)


def _progress_sentence(source: TableSource, known: Source) -> str:
    """How far a source is read, and what its next extract reads again."""
    from disarray.model.description.table_source import WatermarkKind
    from disarray.model.duration import format_duration

    # Where a source cannot be read as it is described, it says itself how it is read instead.
    kind = WatermarkKind(known.watermark or source.watermark)
    settled = _shown_cursor(known.settled[0], kind) if known.settled else "nothing yet"
    match kind:
        case WatermarkKind.BUFFER:
            reached = known.cursor_to and _shown_cursor(known.cursor_to, kind)
            again = (
                f"{source.buffer:,} numbers" if source.has_counted_buffer else format_duration(source.buffer)
            )
            return (
                f"Read up to: {reached or 'nothing yet'}. Every extract reads the last {again} before that again, "
                "and what it knows is not delivered twice."
            )
        case WatermarkKind.SNAPSHOT:
            return "Every extract compares the whole table."
        case WatermarkKind.TIMESTAMP | WatermarkKind.SEQUENCE:
            return f"Settled up to: {settled}. Transactions waited for: {known.open_transactions:,}."
        case other:
            assert_never(other)


def _shown_cursor(value: str, watermark: str | None) -> str:
    """A time to the second, a number as it is."""
    from datetime import UTC, datetime

    from disarray.cli.support.rendering import shown_moment
    from disarray.model.description.table_source import WatermarkKind

    # Eight digits are a date as well, as ISO 8601 has it. The column of a buffer is of either kind, and no time that a
    # database writes is digits alone.
    if watermark == WatermarkKind.SEQUENCE or value.removeprefix("-").isdecimal():
        return value
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        return value
    return shown_moment(instant.replace(tzinfo=instant.tzinfo or UTC))
