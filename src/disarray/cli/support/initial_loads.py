"""Initial loads on the command line: carried out, and how far they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from disarray.cli.support.rendering import counted

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from disarray.config import Config
    from disarray.model.description.table_source import TableSource
    from disarray.queries.sources import InitialLoadProgress
    from disarray.sources.table_puller import TablePuller


def run_initial_load(
    config: Config, puller: TablePuller, source: TableSource, stop: threading.Event, *, is_quiet: bool
) -> bool:
    """Carry out the load of a source where one is under way; whether one was. An engine is started only for that."""
    from disarray.control.source_loads import find_source_load
    from disarray.sources.initial_load import CHUNKS_OF_A_TASK, InitialLoader
    from disarray.worker.process.initial_loading import load_rounds, sentence_of, waiting_sentence
    from disarray.worker.process.local import open_runner
    from disarray.worker.process.settings import worker_settings

    with puller.pool.connection() as connection:
        load = find_source_load(connection, source.name, source.table_name)
    if load is None or not load.is_due:
        return False
    with open_runner(config, worker_settings(config).runner) as runner:
        loader = InitialLoader(
            pool=puller.pool,
            landing=puller.landing,
            datasets=puller.datasets,
            holder=puller.holder,
            sources=puller.sources,
            runner=runner,
            cores=runner.cores,
            chunks_of_a_task=CHUNKS_OF_A_TASK,
        )
        for round_ in load_rounds(loader, source, stop):
            line = waiting_sentence(source.name) if round_.is_waiting else sentence_of(round_)
            if line is not None and not is_quiet:
                typer.echo(line)
    return True


def load_lines(load: InitialLoadProgress) -> Iterator[str]:
    """How far a load is, for people."""
    rows = f"{counted(load.rows_taken, 'row')} delivered"
    rate = "" if load.rows_per_second is None else f", {load.rows_per_second:,.0f} a second"
    if load.state != "running":
        yield f"Initial load: {load.state}, {rows} in {counted(load.chunks_done, 'chunk')}{rate}."
    else:
        chunks = f"{load.chunks_done:,} of {'' if load.is_cut else 'about '}{counted(load.chunks, 'chunk')}"
        yield f"Initial load: {chunks}, {rows}{rate}."
        if load.open_transactions:
            yield (
                f"It waits for {counted(load.open_transactions, 'transaction')} of the source that began before it; "
                "what was read meanwhile is looked through once more then."
            )
        if load.last_error is not None:
            yield f"It failed {load.failure_count:,} times: {load.last_error}"
    for notice in load.notices:
        yield f"Note: {notice}."
