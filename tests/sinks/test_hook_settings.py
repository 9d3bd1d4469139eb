"""`[[hook]]` tables: every fault is named at once, with what was probably meant, and no secret is shown."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from disarray import config
from disarray.errors import AddressRefusedError, ConfigError, SpecError, UnknownNameError
from disarray.formats.loader import load_datasets
from disarray.model.description.hook import HookKind
from disarray.model.outgoing_addresses import read_allow_list
from disarray.sinks.hook_connection import Deadline, open_connection
from disarray.sinks.hook_settings import (
    find_hook,
    hook_document,
    hook_settings,
    refuse_unusable_hooks,
)
from tests.sinks.hook_plant import DATASET
from tests.sinks.receivers import http_receiver

if TYPE_CHECKING:
    from pathlib import Path

    from disarray.sinks.hook_settings import HookSettings

ALLOW = '[hooks]\nallow = ["hooks.example.com", "mail.example.com"]\n'
WEBHOOK = '[[hook]]\nname = "quality"\nkind = "webhook"\nurl = "https://hooks.example.com/x"\non = ["restatement"]\n'
MAIL = """
[[hook]]
name = "shift"
kind = "mail"
smtp = { host = "mail.example.com" }
from = "disarray@example.com"
to = "ada@example.com"
on = ["quarantine"]
"""
REPORT = '[[hook]]\nname = "paper"\nkind = "report"\npath = "r/{key}.json"\non = ["dead_letter"]\n'


def read(folder: Path, hooks: str, *, allow: str = ALLOW) -> HookSettings:
    (folder / "disarray.toml").write_text(allow + hooks + DATASET)
    datasets = load_datasets(folder / "disarray.toml")
    return hook_settings(config.load(folder, environment={}), {each.name: each for each in datasets})


def faults(folder: Path, hooks: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        read(folder, hooks)
    return [line.partition("disarray.toml: ")[2] for line in caught.value.problems]


def test_hooks_of_each_kind_are_read(tmp_path: Path) -> None:
    settings = read(tmp_path, WEBHOOK + MAIL + REPORT)
    assert [hook.kind for hook in settings.hooks] == [HookKind.WEBHOOK, HookKind.MAIL, HookKind.REPORT]
    assert [hook.subject_patterns for hook in settings.hooks] == [("*",)] * 3
    assert find_hook(settings, "paper").timeout_seconds == 10.0
    with pytest.raises(UnknownNameError, match="did you mean 'paper'"):
        find_hook(settings, "papr")


WRONG = {
    "kind": (WEBHOOK.replace('"webhook"', '"webhok"'), "did you mean 'webhook'"),
    "cause": (WEBHOOK.replace("restatement", "restatment"), "did you mean 'restatement'"),
    "no cause": (WEBHOOK.replace('["restatement"]', "[]"), "on: expected a list of at least 1"),
    "key": (WEBHOOK + "subject = ['T*']\n", "unknown key; did you mean 'subjects'"),
    "key of another kind": (REPORT + 'url = "https://hooks.example.com"\n', "url: unknown key"),
    "name twice": (WEBHOOK + WEBHOOK, "found 'quality' again"),
    "host": (WEBHOOK.replace("hooks.example", "hoks.example"), "add it: hooks.allow"),
    "port": (WEBHOOK.replace(".com/x", ".com:8443/x"), '"hooks.example.com:8443"'),
    "scheme": (WEBHOOK.replace("https:", "ftp:"), "a url such as"),
    "user in the url": (WEBHOOK.replace("https://", "https://ada:s3cret@"), "without a user"),
    "slash in a password": (WEBHOOK.replace("https://", "https://ada:s3cret/44@"), "without a user"),
    "port that is none": (WEBHOOK.replace(".com/x", ".com:s3cret/x"), "its host or its port cannot be read"),
    "line end in the url": (WEBHOOK.replace("/x", "/x\\r\\nHost: evil"), "a url such as"),
    "secret as text": (WEBHOOK + 'secret = "s3cret"\n', "a secret by reference"),
    "secret of two": (WEBHOOK + 'secret = { env = "A", file = "b" }\n', "a secret by reference"),
    "length is missing": (
        WEBHOOK.replace("restatement", "no_data_since"),
        "no_data_since: expected a duration",
    ),
    "length too many": (WEBHOOK + 'stale_longer_than = "1 h"\n', "which 'on' does not name"),
    "limit of nothing": (MAIL + "larger_than = 3\n", "which 'on' does not name"),
    "negative limit": (WEBHOOK + "larger_than = -1\n", "a number from 0 on"),
    "metric": (WEBHOOK + "larger_than = { enrgy = 3 }\n", "did you mean 'energy'"),
    "dataset": (WEBHOOK + 'datasets = ["pres"]\n', "did you mean 'press'"),
    "choice of characters": (WEBHOOK + 'datasets = ["[pq]*"]\n', "[ ] is no choice of characters here"),
    "choice of subjects": (WEBHOOK + 'subjects = ["TOOL[07]"]\n', "write one pattern for each"),
    "timeout": (WEBHOOK + 'timeout = "5 min"\n', "a duration from"),
    "mailbox": (MAIL.replace("ada@example.com", "ada"), "an address such as"),
    "mailbox with a line end": (
        MAIL.replace("ada@example.com", "ada@example.com\\nBcc: x@y.z"),
        "an address such as",
    ),
    "no mail server": (MAIL.replace('smtp = { host = "mail.example.com" }', ""), "smtp: expected a table"),
    "password without TLS": (
        MAIL.replace('.com" }', '.com", starttls = false, user = "a", password = { env = "P" } }'),
        "expected true where there is a password",
    ),
    "user without password": (
        MAIL.replace('.com" }', '.com", user = "a" }'),
        "user and password, or neither",
    ),
    "template": (MAIL + 'subject = "{subjekt}"\n', "did you mean 'subject'"),
    "template that reaches for more": (MAIL + 'subject = "{hook.__class__}"\n', "names in braces"),
    "report without a key": (REPORT.replace("{key}", "today"), "with {key} in it"),
    "report that leads out": (REPORT.replace('"r/', '"../../'), "without '..'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_with_where_it_stands(tmp_path: Path, name: str) -> None:
    written, expected = WRONG[name]
    found = faults(tmp_path, written)
    assert len(found) == 1
    assert found[0].startswith("hook[")
    assert expected in found[0]
    assert "s3cret" not in found[0]


def test_all_faults_are_named_at_once(tmp_path: Path) -> None:
    assert len(faults(tmp_path, WRONG["cause"][0] + WRONG["mailbox"][0] + WRONG["template"][0])) == 4


def test_an_entry_of_the_allow_list_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"hooks\.allow: expected a host"):
        read(tmp_path, "", allow='[hooks]\nallow = ["https://hooks.example.com"]\n')


def test_no_secret_is_stored_or_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_URL", "https://hooks.example.com/t0ken")
    monkeypatch.setenv("HOOK_SECRET", "s3cret")
    written = WEBHOOK.replace('"https://hooks.example.com/x"', '{ env = "HOOK_URL" }')
    settings = read(tmp_path, f'{written}secret = {{ env = "HOOK_SECRET" }}\n')
    refuse_unusable_hooks(settings)
    shown = str([*map(hook_document, settings.hooks), settings])
    assert "t0ken" not in shown
    assert "s3cret" not in shown
    monkeypatch.setenv("HOOK_URL", "https://elsewhere.example.com/t0ken")
    with pytest.raises(ConfigError, match="an address that is allowed") as caught:
        refuse_unusable_hooks(settings)
    assert "t0ken" not in str(caught.value)
    for url in "https://t0ken:12/34@hooks.example.com", "https://hooks.example.com:t0ken/x", "t0ken/x":
        monkeypatch.setenv("HOOK_URL", url)
        with pytest.raises(ConfigError, match="a url such as") as caught:
            refuse_unusable_hooks(settings)
        assert "t0ken" not in str(caught.value)
    monkeypatch.delenv("HOOK_SECRET")
    with pytest.raises(ConfigError, match="no secret in the environment variable HOOK_SECRET"):
        refuse_unusable_hooks(settings)


def test_the_address_that_was_checked_is_the_one_that_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that leads elsewhere when it is asked for again: nobody asks again."""
    with http_receiver() as receiver:
        answers = iter(["127.0.0.1", "169.254.169.254", "169.254.169.254"])
        asked: list[str] = []

        def resolve(host: str, port: int, *_: object, **__: object) -> list[tuple[object, ...]]:
            asked.append(host)
            address = host if host[0].isdigit() else next(answers)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        allow = read_allow_list([f"hooks.example.com:{receiver.port}", "127.0.0.0/8"])
        with Deadline(5) as deadline:
            opened = open_connection(
                "hooks.example.com", receiver.port, HookKind.WEBHOOK, allow=allow, deadline=deadline
            )
            assert opened.getpeername()[0] == "127.0.0.1"
            opened.close()
        assert asked.count("hooks.example.com") == 1
        with Deadline(5) as deadline, pytest.raises(AddressRefusedError, match="no hook may reach"):
            open_connection(
                "hooks.example.com", receiver.port, HookKind.WEBHOOK, allow=allow, deadline=deadline
            )
