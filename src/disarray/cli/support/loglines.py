"""One line per event on standard error, with the time in UTC; for people, or as JSON for programs."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from disarray.model.printable import visible_json

if TYPE_CHECKING:
    from collections.abc import Collection

LEVELS = ("debug", "info", "warning", "error")

LogLevel = Annotated[str, typer.Option("--log-level", help=f"How much is logged: {', '.join(LEVELS)}.")]
JsonLogs = Annotated[bool, typer.Option("--json-logs", help="One JSON object per line on standard error.")]


class PlainLines(logging.Formatter):
    """`2026-11-16T08:00:00.123Z INFO text`."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """ISO 8601 in UTC, to the millisecond."""
        return instant_of(record)


class JsonLines(logging.Formatter):
    """The same as an object: at, level, logger, message, and a traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """One object, one line."""
        line = {
            "at": instant_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return visible_json(json.dumps(line, ensure_ascii=False))


def start_logging(level: str, *, as_json: bool = False, errors_only: Collection[str] = ()) -> None:
    """Send log lines to standard error from now on; of some loggers, no warnings."""
    if level not in LEVELS:
        raise typer.BadParameter(f"{level!r} is none of: {', '.join(LEVELS)}", param_hint="--log-level")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else PlainLines("%(asctime)s %(levelname)s %(message)s"))
    handler.addFilter(lambda record: record.levelno >= logging.ERROR or record.name not in errors_only)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # These tell every step of every attempt, and call a lost connection an error; what matters our own lines say.
    for noisy in ("pika", "psycopg.pool", "py4j", "py4j.java_gateway", "py4j.clientserver"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def instant_of(record: logging.LogRecord) -> str:
    """When the event happened."""
    at = datetime.fromtimestamp(record.created, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"
