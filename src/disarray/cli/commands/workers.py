"""`disarray workers`: who is there, and who may claim."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.options import BY_HAND, AsJson, By, DryRun, Reason
from disarray.cli.support.printing import Columns, print_decision, print_list
from disarray.cli.support.project import control_session, decision
from disarray.cli.support.rendering import counted, use_zone

if TYPE_CHECKING:
    from collections.abc import Callable

app = typer.Typer(no_args_is_help=True, help="Workers by name: list, pause, resume, drain.")

Name = Annotated[str, typer.Argument(help="The instance, as `disarray workers list` names it.")]


@app.command("list")
def list_workers(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List every worker that ever registered, with what it holds now."""
    from disarray.control.instances import list_instances

    use_zone(context)
    with control_session(context) as connection:
        found = list_instances(connection)
    columns: Columns = {
        "worker": "instance_name",
        "state": "state",
        "serves": lambda known: " ".join(known.subject_patterns),
        "holds": "held_subjects",
        "claimed": "claimed_items",
        "last seen": "last_seen_at",
    }
    print_list(found, columns, as_json=as_json, otherwise="No worker ever registered.")


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

    with decision(context, dry_run=dry_run) as connection:
        change(connection, name, reason=reason, by=by)
        [known] = [each for each in list_instances(connection) if each.instance_name == name]
    rest = ""
    if known.state is not InstanceState.ACTIVE:
        rest = (
            f"; it still works on {counted(known.claimed_items, 'item')}"
            if known.claimed_items
            else " and idle"
        )
    print_decision(asdict(known), [f"{name} is {known.state}{rest}."], dry_run=dry_run, as_json=as_json)
