"""`disarray view`: materialized views that follow commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.options import After, AsJson, By, DryRun, Limit
from disarray.cli.support.printing import (
    Columns,
    print_decision,
    print_following,
    print_json,
    print_list,
    table_of,
)
from disarray.cli.support.project import configuration, control_session, decision
from disarray.cli.support.rendering import counted, use_zone
from disarray.cli.support.text_tables import print_parts
from disarray.errors import DisarrayError

if TYPE_CHECKING:
    from disarray.queries.views import View

app = typer.Typer(
    no_args_is_help=True, help="Materialized views, refreshed when what they depend on changed."
)

Name = Annotated[str, typer.Argument(help="A view that was applied.")]


@app.command()
def apply(
    context: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(help="Only these views of disarray.toml.")] = None,
    *,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Make the views that disarray.toml declares the ones in force; readers have the old ones until that is done."""
    from disarray.control.connections import undone
    from disarray.sinks.views import apply_view, chosen_views, load_views, plan_view

    declared = chosen_views(load_views(configuration(context).dataset_file), names or [])
    plans, failures = [], []
    with control_session(context) as connection:
        for each in declared:
            try:
                if dry_run:
                    with undone(connection):
                        plans.append(plan_view(connection, each))
                else:
                    plans.append(apply_view(connection, each, by=by))
            except DisarrayError as error:
                failures.append(str(error))
    if as_json:
        print_json({"is_rehearsal": dry_run, "views": plans, "failures": failures})
    for plan in plans if not as_json else ():
        typer.echo(f"{plan.name}: {plan.change}")
        for line in plan.diff:
            typer.echo(f"  {line}")
    for failure in failures if not as_json else ():
        typer.echo(failure, err=True)
    if not declared and not as_json:
        typer.echo("disarray.toml declares no [[view]]. See: docs/sinks.md")
    if dry_run and not as_json:
        typer.echo("Nothing was changed.")
    if failures:
        raise typer.Exit(1)


@app.command("list")
def list_command(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List the views that were applied, and where each stands."""
    from disarray.queries.views import list_views

    use_zone(context)
    with control_session(context) as connection:
        found = list_views(connection).views
    columns: Columns = {
        "view": lambda each: f"{each.schema_name}.{each.name}",
        "depends on": lambda each: ", ".join(each.depends_on),
        "refreshed at": "refreshed_at",
        "state": "state",
        "commits": "lag_commits",
        "seconds": lambda each: f"{each.lag_seconds:.0f}",
        "error": "last_error",
    }
    print_list(
        found, columns, as_json=as_json, otherwise="No view was applied. See: disarray view apply --help"
    )


@app.command()
def show(
    context: typer.Context, name: Name, *, limit: Limit = 20, after: After = None, as_json: AsJson = False
) -> None:
    """Show a view: its query, its state, and its refreshes, newest first."""
    from disarray.queries.views import show_view

    use_zone(context)
    with control_session(context) as connection:
        found = show_view(connection, name, limit=limit, after=after)
    if as_json:
        print_json(found)
        return
    view = found.view
    typer.echo(f"{view.schema_name}.{view.name}: {state_of(view)}")
    typer.echo(f"key {', '.join(view.unique_key)}; depends on {', '.join(view.depends_on)}; ", nl=False)
    typer.echo(f"at most every {view.at_most_every_seconds:g} s; applied by {view.applied_by}")
    if view.last_error is not None:
        typer.echo(f"error: {view.last_error}")
    typer.echo(f"\n{found.query}\n")
    columns: Columns = {
        "refreshed at": "refreshed_at",
        "position": "commit_position",
        "seconds": lambda each: f"{each.seconds:.3f}",
        "error": "error",
    }
    print_parts([table_of(found.refreshes, columns)])
    print_following(found.next, limit)


@app.command()
def drop(context: typer.Context, name: Name, *, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Drop a view that was applied, with its log; never what disarray did not make."""
    from disarray.sinks.views import drop_view

    with decision(context, dry_run=dry_run) as connection:
        drop_view(connection, name)
    print_decision({"dropped": name}, [f"View {name} dropped."], dry_run=dry_run, as_json=as_json)


def state_of(view: View) -> str:
    """Where a view stands, in a few words."""
    if view.last_error is not None:
        return f"failed {view.failure_count} times"
    if view.held_by is not None:
        return f"refreshed by {view.held_by} now"
    return (
        view.state if not view.lag_commits else f"{view.state}, {counted(view.lag_commits, 'commit')} behind"
    )
