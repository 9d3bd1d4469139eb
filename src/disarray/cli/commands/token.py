"""`disarray token`: who may call the REST server."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from disarray.cli.support.options import AsJson, By
from disarray.cli.support.printing import Columns, print_json, print_list
from disarray.cli.support.project import configuration, control_session
from disarray.cli.support.rendering import parse_length
from disarray.model.api_token import Scope  # noqa: TC001 (typer reads it when it runs)

if TYPE_CHECKING:
    from datetime import datetime

    from disarray.control.tokens import TokenRecord

app = typer.Typer(no_args_is_help=True, help="Tokens with which programs and people call the REST server.")

# A token that nobody uses any more should not open the door for ever.
LIFETIME = "90d"
NEVER = "never"

Name = Annotated[str, typer.Argument(help="What the holder is called in the records.")]


@app.command()
def local(context: typer.Context) -> None:
    """Print the token of this machine: curl -H "Authorization: Bearer $(disarray token local)" …

    It is in the state folder of the embedded database, where only its user can read it, and is good for calls from this
    machine that come through no proxy.
    """
    from disarray.cli.support.local_token import local_token
    from disarray.errors import ConfigError

    config = configuration(context)
    if config.dsn is not None:
        raise ConfigError(
            f"a PostgreSQL of your own is configured ({config.origin('database.dsn')}): there is no token of this "
            "machine. Run: disarray token create NAME --scope read"
        )
    typer.echo(local_token(config.state_dir).text)


@app.command()
def create(
    context: typer.Context,
    name: Name,
    *,
    scope: Annotated[
        Scope,
        typer.Option(
            help="produce records events and nothing else; of the others each includes those before it."
        ),
    ],
    expires: Annotated[str, typer.Option(help="After this time, such as 8h or 365d; or never.")] = LIFETIME,
    by: By,
    as_json: AsJson = False,
) -> None:
    """Make a token and print it. It is shown this once: only its hash is kept."""
    from disarray.control.tokens import create_token
    from disarray.model.api_token import make_token

    valid_for = None if expires == NEVER else timedelta(microseconds=parse_length(expires))
    token = make_token()
    with control_session(context) as connection:
        expires_at = create_token(
            connection,
            token_id=token.token_id,
            token_name=name,
            token_hash=token.token_hash,
            scope=scope,
            by=by,
            valid_for=valid_for,
        )
    if as_json:
        print_json({"token_name": name, "scope": scope, "token": token.text, "expires_at": expires_at})
        return
    # The token alone on standard output, so that a script can take it from there.
    typer.echo(f"{name} may {scope} {_until(expires_at)}. The token is shown this once:", err=True)
    typer.echo(token.text)


@app.command("list")
def list_known(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List every token that was ever made, without its secret."""
    from disarray.control.tokens import list_tokens

    with control_session(context) as connection:
        found = list_tokens(connection)
    columns: Columns = {
        "name": "token_name",
        "scope": "scope",
        "": _state,
        "last used": lambda each: _day(each.last_used_at),
    }
    otherwise = "There is no token. Run: disarray token create NAME --scope read"
    print_list(found, columns, as_json=as_json, otherwise=otherwise)


@app.command()
def revoke(context: typer.Context, name: Name, *, by: By, as_json: AsJson = False) -> None:
    """End a token at once. Its name is not given again: the records carry it."""
    from disarray.control.tokens import revoke_token

    with control_session(context) as connection:
        is_new = revoke_token(connection, name, by=by)
    if as_json:
        print_json({"token_name": name, "revoked_now": is_new})
    else:
        typer.echo(f"{name} is revoked." if is_new else f"{name} was revoked before.")


def _until(expires_at: datetime | None) -> str:
    return "for good" if expires_at is None else f"until {expires_at:%Y-%m-%dT%H:%MZ}"


def _state(token: TokenRecord) -> str:
    if token.revoked_at is not None:
        return f"revoked {_day(token.revoked_at)} by {token.revoked_by}"
    return f"holds {_until(token.expires_at)}"


def _day(instant: datetime | None) -> str:
    return "never" if instant is None else f"{instant:%Y-%m-%d %H:%MZ}"
