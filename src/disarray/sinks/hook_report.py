"""Reports: a file for each message, whole and on disk before it has its name."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from disarray.failpoints import failpoint
from disarray.model.message_template import filled
from disarray.model.side_effect import EffectOutcome
from disarray.store.lake import make_durable_folder, sync_folder

if TYPE_CHECKING:
    from disarray.model.description.hook import Report
    from disarray.sinks.hook_connection import Outgoing
    from disarray.sinks.hook_message import HookMessage

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_NAME = 80


def write_report(report: Report, message: HookMessage, outgoing: Outgoing) -> EffectOutcome:
    """Write a message beside its path, bring it to disk and rename it: written twice, it is the same file."""
    path = report_path(report, message)
    content = (
        message.json_bytes() + b"\n"
        if report.body is None
        else filled(report.body, message.fields()).encode("utf-8", errors="backslashreplace")
    )
    beside = path.with_name(f".{message.key}.part")
    try:
        make_durable_folder(path.parent)
        with beside.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        outgoing.before_sending()
        failpoint("report.written", about=message.hook_name)
        beside.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        return EffectOutcome(reason=f"{path} cannot be written: {error.strerror or error}", is_away=True)
    return EffectOutcome(reason=None, status="written", answer=str(path))


def report_path(report: Report, message: HookMessage) -> Path:
    """Where the report of a message lies; no name of a subject leads out of its folder."""
    return Path(filled(report.path, {name: _safe(value) for name, value in message.fields().items()}))


def _safe(value: str) -> str:
    return _UNSAFE.sub("_", value)[:_LONGEST_NAME] or "_"
