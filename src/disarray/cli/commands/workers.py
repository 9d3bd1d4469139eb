"""`disarray workers`: who is there, and who may claim."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.context import configuration
from disarray.cli.support.database_session import control_session, decision
from disarray.cli.support.rendering import (
    BY_HAND,
    AsJson,
    By,
    DryRun,
    Reason,
    counted,
    print_json,
    shown_moment,
    tell_dry_run,
    use_zone,
)
from disarray.cli.support.text_tables import Table, print_parts

if TYPE_CHECKING:
    from collections.abc import Callable

app = typer.Typer(no_args_is_help=True, help="Workers by name: list, pause, resume, drain.")

Name = Annotated[str, typer.Argument(help="The instance, as `disarray workers list` names it.")]


@app.command("list")
def list_workers(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List every worker that ever registered, with what it holds now."""
    from disarray.control.instances import list_instances

    use_zone(context)
    with control_session(configuration(context)) as connection:
        found = list_instances(connection)
    if as_json:
        print_json([asdict(known) for known in found])
        return
    if not found:
        typer.echo("No worker ever registered.")
        return
    rows = [
        [
            known.instance_name,
            known.state,
            " ".join(known.subject_patterns),
            str(known.held_subjects),
            str(known.claimed_items),
            shown_moment(known.last_seen_at),
        ]
        for known in found
    ]
    print_parts([Table(["worker", "state", "serves", "holds", "claimed", "last seen"], rows)])


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
    """Let a worker claim nothing until it is resumed, also after a restart. It finishes what it has."""
    from disarray.control.instances import pause_instance

    _change(context, name, pause_instance, reason=reason, by=by, dry_run=dry_run, as_json=as_json)


@app.command()
def drain(
    context: typer.Context,
    name: Name,
    *,
    reason: Reason,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let a worker finish what it has and claim nothing more in this life; started again, it claims again."""
    from disarray.control.instances import drain_instance

    _change(context, name, drain_instance, reason=reason, by=by, dry_run=dry_run, as_json=as_json)


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
    """Let a worker that is paused or draining claim again."""
    from disarray.control.instances import resume_instance

    _change(context, name, resume_instance, reason=reason, by=by, dry_run=dry_run, as_json=as_json)


def _change(
    context: typer.Context,
    name: str,
    change: Callable[..., None],
    *,
    reason: str,
    by: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    from disarray.control.instances import InstanceState, list_instances

    with control_session(configuration(context)) as connection, decision(connection, dry_run=dry_run):
        change(connection, name, reason=reason, by=by)
        [known] = [each for each in list_instances(connection) if each.instance_name == name]
    if as_json:
        print_json(asdict(known) | {"dry_run": dry_run})
        return
    rest = ""
    if known.state is not InstanceState.ACTIVE:
        rest = (
            f"; it still works on {counted(known.claimed_items, 'item')}"
            if known.claimed_items
            else " and idle"
        )
    typer.echo(f"{name} is {known.state}{rest}.")
    tell_dry_run(dry_run)
