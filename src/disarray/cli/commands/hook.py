"""`disarray hook`: who is told when something happens, what was sent, and what could not be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.options import BY_HAND, After, AsJson, By, DryRun, Limit, Reason
from disarray.cli.support.printing import (
    Columns,
    print_decision,
    print_following,
    print_json,
    table_of,
)
from disarray.cli.support.project import configuration, control_session, decision
from disarray.cli.support.rendering import counted, use_zone
from disarray.cli.support.text_tables import Table, print_parts
from disarray.model.side_effect import EffectState

if TYPE_CHECKING:
    from disarray.queries.hooks import Hook

app = typer.Typer(
    no_args_is_help=True, help="Webhooks, mails and reports: who is told of what, what was sent, send again."
)

Name = Annotated[str, typer.Argument(help="The name of a hook.")]
EFFECT_COLUMNS: Columns = {
    "id": lambda each: str(each.effect_id),
    "hook": "hook_name",
    "cause": "cause",
    "subject": "subject_key",
    "dataset": "dataset",
    "noted": "noted_at",
    "state": "state",
    "attempts": "attempts",
    "answer": "answer_status",
    "why": "reason",
}
# What the database takes in one decision.
MOST_AT_ONCE = 10_000


@app.command("list")
def list_(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List the hooks that workers know, and how many messages to each wait, were sent or were given up."""
    from disarray.queries.hooks import list_hooks

    use_zone(context)
    with control_session(context) as connection:
        found = list_hooks(connection, limit=100_000).hooks
    columns: Columns = {
        "hook": "hook_name",
        "kind": "kind",
        "on": lambda each: ", ".join(each.causes),
        "pending": lambda each: each.pending + each.sending,
        "done": "done",
        "dead": "dead",
        "last sent": "last_done_at",
        "ended": "ended_at",
    }
    if as_json:
        print_json(found)
    elif found:
        print_parts([table_of(found, columns)])
    else:
        typer.echo("No hook is known: a worker that starts makes those of disarray.toml known.")


@app.command()
def show(context: typer.Context, name: Name, *, as_json: AsJson = False) -> None:
    """Tell all about a hook: whom it tells, of what, and where the messages to it stand."""
    from disarray.queries.hooks import show_hook

    use_zone(context)
    with control_session(context) as connection:
        found = show_hook(connection, name)
    if as_json:
        print_json(found)
    else:
        print_parts([Table(["", ""], _rows_of(found))])


@app.command("test")
def send_test(context: typer.Context, name: Name, *, as_json: AsJson = False) -> None:
    """Send a message that is marked as a test, now and once; nothing of it is kept."""
    from disarray.queries.project import configured_datasets
    from disarray.sinks.hook_connection import Outgoing
    from disarray.sinks.hook_message import example_message
    from disarray.sinks.hook_sending import attempt
    from disarray.sinks.hook_settings import find_hook, hook_settings

    config = configuration(context)
    settings = hook_settings(config, configured_datasets(config))
    hook = find_hook(settings, name)
    message = example_message(hook)
    outcome = attempt(hook, message, Outgoing(allow=settings.allow, timeout_seconds=hook.timeout_seconds))
    if as_json:
        print_json(
            {
                "key": message.key,
                "is_done": outcome.is_done,
                "status": outcome.status,
                "answer": outcome.answer,
                "reason": outcome.reason,
            }
        )
    elif outcome.is_done:
        typer.echo(f"The hook {name} took a test message: {outcome.status}. Its key: {message.key}")
    else:
        typer.echo(f"The hook {name} did not take a test message: {outcome.reason}", err=True)
    if not outcome.is_done:
        raise typer.Exit(1)


@app.command()
def send(context: typer.Context) -> None:
    """Send what is due, now; workers do so all the time."""
    from disarray.control.instances import register_command
    from disarray.queries.project import configured_datasets
    from disarray.sinks.hook_sending import HookSender
    from disarray.sinks.hook_settings import hook_settings, refuse_unusable_hooks
    from disarray.worker.process.local import open_pool
    from disarray.worker.process.messaging import sentence_of

    config = configuration(context)
    settings = hook_settings(config, configured_datasets(config))
    refuse_unusable_hooks(settings)
    tried = failed = 0
    with open_pool(config, application_name="disarray hook send") as pool:
        with pool.connection() as connection:
            holder = register_command(connection, "hook send")
        for hook in settings.hooks:
            sender = HookSender(pool=pool, holder=holder, hook=hook, allow=settings.allow)
            while (sent := sender.send_next()) is not None:
                tried += 1
                failed += not sent.outcome.is_done
                typer.echo(sentence_of(sent), err=not sent.outcome.is_done)
                if sent.outcome.is_away:
                    break  # the others wait, and keep their attempts
    if not tried:
        typer.echo("Nothing is due.")
    if failed:
        raise typer.Exit(1)


@app.command()
def effects(
    context: typer.Context,
    *,
    state: Annotated[
        EffectState | None, typer.Option("--state", help="Only those that stand there; all if not given.")
    ] = None,
    hook: Annotated[str | None, typer.Option("--hook", help="Only those to this hook.")] = None,
    limit: Limit = 100,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """List messages to hooks in the order in which they were noted, with the answer to the last attempt."""
    from disarray.queries.hooks import list_side_effects

    use_zone(context)
    with control_session(context) as connection:
        found = list_side_effects(connection, state=state, hook_name=hook, limit=limit, after=after)
    if as_json:
        print_json(found)
    elif found.side_effects:
        print_parts([table_of(found.side_effects, EFFECT_COLUMNS)])
    else:
        typer.echo("There is none.")
    print_following(found.next, limit)


@app.command()
def resend(
    context: typer.Context,
    ids: Annotated[list[int] | None, typer.Argument(help="Numbers, as effects lists them.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All that were given up, or all of --hook.")] = False,
    hook: Annotated[str | None, typer.Option("--hook", help="Only those to this hook.")] = None,
    reason: Reason = BY_HAND,
    by: By,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Send messages that were given up once more, under their keys and with a full set of attempts."""
    from disarray.control.side_effects import list_side_effects, resend_side_effects

    if bool(ids) == every:
        raise typer.BadParameter("name the messages, or say --all")
    with decision(context, dry_run=dry_run) as connection:
        chosen = list(dict.fromkeys(ids or ()))
        if every:
            found = list_side_effects(connection, state=EffectState.DEAD, hook_name=hook, limit=MOST_AT_ONCE)
            chosen = [each.effect_id for each in found]
        if chosen:
            resend_side_effects(connection, chosen, reason=reason, by=by)
    sentence = f"{counted(len(chosen), 'message')} sent again as soon as a worker comes to it."
    print_decision({"resent": chosen}, [sentence], dry_run=dry_run, as_json=as_json)


def _rows_of(hook: Hook) -> list[list[str]]:
    from disarray.cli.support.printing import cell
    from disarray.model.duration import SECOND, format_duration

    rows = [
        ["hook", hook.hook_name],
        ["kind", hook.kind],
        ["on", ", ".join(hook.causes)],
        ["subjects", ", ".join(hook.subject_patterns)],
        ["datasets", ", ".join(hook.dataset_patterns)],
    ]
    if hook.larger_than:
        limits = ", ".join(f"{metric} {limit:g}" for metric, limit in sorted(hook.larger_than.items()))
        rows.append(["larger than", limits])
    for noun, seconds in (
        ("no data since", hook.no_data_since_seconds),
        ("stale longer than", hook.stale_longer_than_seconds),
    ):
        if seconds is not None:
            rows.append([noun, format_duration(int(seconds * SECOND))])
    rows += [[name.replace("_", " "), _shown(value)] for name, value in sorted(hook.definition.items())]
    rows += [
        ["registered", cell(hook.registered_at)],
        *([["ended", cell(hook.ended_at)]] if hook.ended_at is not None else []),
        [
            "messages",
            f"{hook.pending:,} pending, {hook.sending:,} being sent, {hook.done:,} done, {hook.dead:,} dead",
        ],
        ["last sent", cell(hook.last_done_at)],
        ["last failure", cell(hook.last_reason)],
    ]
    return rows


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
