"""From the `[[hook]]` tables of a TOML document to validated hooks: every fault is named at once."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, assert_never
from urllib.parse import urlsplit

from disarray.model.description.hook import (
    ALL,
    OTHER_METRICS,
    Hook,
    HookKind,
    Mail,
    Report,
    Target,
    Webhook,
)
from disarray.model.description.secret import SecretSource, secret_source
from disarray.model.description.spec_table import MisfitError, Problems, Table, near_miss
from disarray.model.description.spec_values import (
    boolean,
    choice,
    duration,
    glob,
    integer,
    name,
    number,
    several,
    text,
)
from disarray.model.duration import DAY, MINUTE, SECOND
from disarray.model.message_template import template
from disarray.model.side_effect import HookCause

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import PurePath

    from disarray.model.description.dataset import Dataset
    from disarray.model.outgoing_addresses import AllowList

USUAL_PORTS = {HookKind.WEBHOOK: (80, 443), HookKind.MAIL: (25, 465, 587), HookKind.REPORT: ()}
LONGEST_TIMEOUT_US = 30 * SECOND
DEFAULT_SUBJECT = "disarray: {cause} {subject}"
DEFAULT_BODY = """\
{summary}

hook: {hook}
cause: {cause}
subject: {subject}
dataset: {dataset}
noted: {noted_at}
key: {key}

{details}
"""
# Enough to tell a slip from an address; whether anybody lives there, the mail server knows.
_MAILBOX = re.compile(r"[^\s@<>,;:\"\\]{1,64}@[^\s@<>,;:\"\\]{1,255}")


def read_hooks(
    document: Mapping[str, object],
    *,
    problems: Problems,
    datasets: Collection[Dataset],
    allow: AllowList,
    folder: PurePath,
) -> tuple[Hook, ...]:
    """Every `[[hook]]`; paths start at `folder`, and `allow` says which hosts may be named."""
    top = Table(document, path="", kind="document", problems=problems)
    hooks = tuple(
        _read_hook(table, datasets=datasets, allow=allow, folder=folder)
        for table in top.array("hook", "hook")
    )
    names = [hook.name for hook in hooks]
    for index, own_name in enumerate(names):
        if own_name and own_name in names[:index]:
            problems.add(f"hook[{index}].name", f"expected a name of its own, found {own_name!r} again")
    return hooks


def _read_hook(written: Table, *, datasets: Collection[Dataset], allow: AllowList, folder: PurePath) -> Hook:
    kind = written.required("kind", choice(HookKind), None)
    if kind is None:
        # Which of its keys are right, nobody knows; the file is refused anyway.
        return Hook(name="", target=Report(path=""), causes=())
    # Each kind has keys of its own: a url in a mail is refused, not ignored.
    table = Table(
        written.values, path=written.path, kind=f"hook of kind {kind.value}", problems=written.problems
    )
    table.optional("kind", lambda value: value, None)
    causes = table.required("on", several(choice(HookCause), at_least=1), ())
    hook = Hook(
        name=table.required("name", name, ""),
        causes=causes,
        target=_read_target(table, kind, allow, folder),
        subject_patterns=table.optional("subjects", several(glob, at_least=1), ALL),
        dataset_patterns=_read_datasets(table, datasets),
        larger_than=_read_limits(table, causes, datasets),
        no_data_since_us=_read_length(table, HookCause.NO_DATA_SINCE, causes),
        stale_longer_than_us=_read_length(table, HookCause.STALE_LONGER_THAN, causes),
        timeout_us=table.optional(
            "timeout", duration(at_least=SECOND // 10, at_most=LONGEST_TIMEOUT_US), 10 * SECOND
        ),
    )
    table.close()
    return hook


def _read_target(table: Table, kind: HookKind, allow: AllowList, folder: PurePath) -> Target:
    match kind:
        case HookKind.WEBHOOK:
            return Webhook(
                url=table.required("url", _url(allow, folder), ""),
                secret=table.optional("secret", secret_source(folder), None),
                ca_file=table.optional("ca_file", _path(folder), None),
            )
        case HookKind.MAIL:
            return _read_mail(table, allow, folder)
        case HookKind.REPORT:
            return Report(
                path=table.required("path", _report_path(folder), ""),
                body=table.optional("body", template(single_line=False), None),
            )
        case _:
            assert_never(kind)


def _read_mail(table: Table, allow: AllowList, folder: PurePath) -> Mail:
    server = table.table("smtp", "smtp")
    if "smtp" not in table.values:
        table.refuse("smtp", 'expected a table such as { host = "mail.example.com" }, found nothing')
    starttls = server.optional("starttls", boolean, True)
    port = server.optional("port", integer(at_least=1, at_most=65_535), 587)
    host = server.required("host", _host(allow, port), "") if "smtp" in table.values else ""
    user = server.optional("user", _text_or_secret(folder), None)
    password = server.optional("password", secret_source(folder), None)
    if (user is None) != (password is None):
        server.refuse("user" if user is None else "password", "expected user and password, or neither")
    if password is not None and not starttls:
        server.refuse("starttls", "expected true where there is a password, which would be read on the way")
    ca_file = server.optional("ca_file", _path(folder), None)
    server.close()
    return Mail(
        host=host,
        port=port,
        starttls=starttls,
        sender=table.required("from", _mailbox, ""),
        recipients=table.required("to", several(_mailbox, at_least=1), ()),
        subject=table.optional("subject", template(), DEFAULT_SUBJECT),
        body=table.optional("body", template(single_line=False), DEFAULT_BODY),
        user=user,
        password=password,
        ca_file=ca_file,
    )


def _read_datasets(table: Table, datasets: Collection[Dataset]) -> tuple[str, ...]:
    globs = table.optional("datasets", several(glob, at_least=1), ALL)
    known = [dataset.name for dataset in datasets]
    for pattern in globs:
        if not any(fnmatchcase(own, pattern) for own in known):
            table.refuse("datasets", f"no dataset is called {pattern!r}; {near_miss(pattern, known)}")
    return globs


def _read_limits(
    table: Table, causes: Collection[HookCause], datasets: Collection[Dataset]
) -> dict[str, float]:
    limits = table.optional("larger_than", _limits, {})
    if limits and HookCause.RESTATEMENT not in causes:
        table.refuse("larger_than", "a limit of restatements, which 'on' does not name")
    known = {metric.name for dataset in datasets for metric in dataset.metrics}
    for metric in limits:
        if metric != OTHER_METRICS and metric not in known:
            table.refuse(f"larger_than.{metric}", f"no dataset has this metric; {near_miss(metric, known)}")
    return limits


def _read_length(table: Table, cause: HookCause, causes: Collection[HookCause]) -> int | None:
    length = table.optional(cause.value, duration(at_least=MINUTE, at_most=3650 * DAY), None)
    if cause in causes and cause.value not in table.values:
        table.refuse(cause.value, f"expected a duration such as '2 h', found nothing; 'on' names {cause}")
    if cause not in causes and cause.value in table.values:
        table.refuse(cause.value, f"a length of {cause}, which 'on' does not name")
        return None
    return length


def _limits(value: object) -> dict[str, float]:
    expected = 'a number from 0 on, or numbers by metric such as { cycles = 0.5, "*" = 10 }'
    read = number(at_least=0)
    try:
        if not isinstance(value, dict):
            return {OTHER_METRICS: read(value)}
        return {metric: read(limit) for metric, limit in value.items()}
    except MisfitError:
        raise MisfitError(expected) from None


def _url(allow: AllowList, folder: PurePath) -> Callable[[object], str | SecretSource]:
    def read(value: object) -> str | SecretSource:
        if isinstance(value, dict):
            return secret_source(folder)(value)
        return check_url(text(value), allow)

    return read


def check_url(url: str, allow: AllowList) -> str:
    """A url to which a webhook may go; `MisfitError` says what speaks against it."""
    expected = "a url such as https://hooks.example.com/disarray"
    if "@" in url or " " in url:
        # Wherever it stands: with a slash in a password, half of it would pass for the host, and be shown.
        raise MisfitError(
            f"{expected}, without a user and without blanks",
            found="another (not shown)",
            hint="write %40 for an @ of the path",
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        # What the error quotes may be part of a secret.
        raise MisfitError(
            expected, found="another (not shown)", hint="its host or its port cannot be read"
        ) from None
    if parts.scheme not in ("http", "https") or not host or not url.isascii() or not url.isprintable():
        raise MisfitError(expected)
    refuse_unlisted(host, port or (443 if parts.scheme == "https" else 80), HookKind.WEBHOOK, allow)
    return url


def refuse_unlisted(host: str, port: int, kind: HookKind, allow: AllowList) -> None:
    """Refuse a host that the configuration does not allow."""
    if not allow.names(host, port, usual_ports=USUAL_PORTS[kind]):
        shown = f"{host}:{port}" if port not in USUAL_PORTS[kind] else host
        raise MisfitError(
            "an address that is allowed", found=f"{host}:{port}", hint=f'add it: hooks.allow = ["{shown}"]'
        )


def _host(allow: AllowList, port: int) -> Callable[[object], str]:
    def read(value: object) -> str:
        host = text(value)
        refuse_unlisted(host, port, HookKind.MAIL, allow)
        return host

    return read


def _mailbox(value: object) -> str:
    if not isinstance(value, str) or not value.isascii() or not _MAILBOX.fullmatch(value):
        raise MisfitError("an address such as operators@example.com")
    return value


def _text_or_secret(folder: PurePath) -> Callable[[object], str | SecretSource]:
    return lambda value: secret_source(folder)(value) if isinstance(value, dict) else text(value)


def _path(folder: PurePath) -> Callable[[object], str]:
    return lambda value: str(folder / text(value))


def _report_path(folder: PurePath) -> Callable[[object], str]:
    def read(value: object) -> str:
        path = template(required="key")(value)
        if ".." in path.split("/"):
            raise MisfitError("a path without '..'")
        return str(folder / path)

    return read
