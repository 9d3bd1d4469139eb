"""The TOML file of a backfill: read, checked whole, and laid over what the configuration says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

from disarray.backfill.description import (
    LARGEST_CHUNK,
    XMIN,
    HealthLimits,
    KindName,
    Processing,
    Rebuild,
    RebuildSpec,
    Replay,
    ReplaySpec,
    RepublishSpec,
    Resync,
    ResyncSpec,
    RetryPolicy,
    Source,
    Update,
    UpdateSpec,
    Verification,
)
from disarray.config import read_toml
from disarray.errors import ConfigError
from disarray.model.description.secret import secret_source
from disarray.model.description.spec_table import MisfitError, Problems, Table
from disarray.model.description.spec_values import (
    boolean,
    duration,
    integer,
    name,
    number,
    one_of,
    or_none,
    several,
    text,
)
from disarray.model.duration import DAY, MILLISECOND, SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from disarray.backfill.description import BackfillSpec
    from disarray.config import Config

_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The rows of a chunk: of the smallest and the largest where nobody says, and at most."""

    smallest: int
    largest: int
    at_most: int


_SIZES = {
    KindName.UPDATE: Sizes(10, 50_000, LARGEST_CHUNK),
    # A chunk is a subject: what counts as rows are its readings.
    KindName.REPLAY: Sizes(10, 50_000, LARGEST_CHUNK),
    KindName.REBUILD: Sizes(10, 50_000, LARGEST_CHUNK),
    # Subjects: what was loaded of each is kept with the chunk.
    KindName.REPUBLISH: Sizes(1, 100, 500),
    # A chunk is a file of each subject at least.
    KindName.RESYNC: Sizes(1_000, 100_000, LARGEST_CHUNK),
}


def read_spec(file: Path, config: Config) -> BackfillSpec:
    """The description in a file; what it leaves out is as `[backfill]` of the configuration says."""
    try:
        _, content = read_toml(file, shown=str(file))
    except FileNotFoundError:
        raise ConfigError(
            f"there is no file {file}; a backfill is described in one. See: docs/backfill.md"
        ) from None
    return parse_spec(content, shown=str(file), config=config)


def parse_spec(content: Mapping[str, object], *, shown: str, config: Config) -> BackfillSpec:
    """The description in a parsed file; every fault is named at once."""
    problems = Problems(shown)
    root = Table(content, path="", kind="backfill", problems=problems)
    job_name = root.required("name", name, "unnamed")
    kind = KindName(root.optional("kind", one_of(*KindName), KindName.UPDATE))
    common: dict[str, Any] = {
        "name": job_name,
        "processing": _processing(root.table("processing", "processing"), config, _SIZES[kind]),
        "health": _health(root.table("health", "health"), config),
        "alert_threshold": _closed(
            root.table("monitoring", "monitoring"), "alert_threshold", number(at_least=0, at_most=1), 0.01
        ),
    }
    spec: BackfillSpec
    match kind:
        case KindName.UPDATE:
            spec = UpdateSpec(
                source=_source(root.table("source", "source")),
                update=_update(root.table("update", "update")),
                verification=_verification(root.table("verification", "verification")),
                **common,
            )
        case KindName.REPUBLISH:
            spec = RepublishSpec(destination=_republish(root.table("republish", "republish")), **common)
        case KindName.REBUILD:
            root.refuse("kind", "a rebuild is started by: disarray rebuild --as-job")
            spec = RebuildSpec(rebuild=Rebuild(), **common)
        case KindName.REPLAY:
            spec = ReplaySpec(replay=_replay(root.table("replay", "replay")), **common)
        case KindName.RESYNC:
            spec = ResyncSpec(resync=_resync(root.table("resync", "resync")), **common)
        case _:
            assert_never(kind)
    root.close()
    problems.raise_if_any()
    return spec


def _source(table: Table) -> Source:
    found = Source(
        table=table.required("table", _qualified, ""),
        cursor=table.required("cursor_column", several(text, at_least=1), ("",)),
        where=table.optional("where", text, None),
        batch_rows=table.optional("batch_size", integer(at_least=1, at_most=LARGEST_CHUNK), 1_000),
        url=table.optional("url", secret_source(), None),
    )
    table.close()
    return found


def _qualified(value: object) -> str:
    """A table with its schema: a name alone may be another table in the session of another worker."""
    found = text(value)
    if not all(found.partition(".")):
        raise MisfitError("schema.table")
    return found


def _update(table: Table) -> Update:
    function = table.optional("function", _function, None)
    expressions: dict[str, str] = {}
    set_columns: tuple[str, ...] = ()
    if function is None:
        expressions = table.required("set", _expressions, {})
    else:
        set_columns = table.required("set", several(text, at_least=1), ())
    columns = table.optional("columns", several(text), ())
    if columns and function is None:
        table.refuse("columns", "only a function gets columns; an SQL expression names what it needs")
    found = Update(
        expressions=expressions,
        function=function,
        columns=columns,
        set_columns=set_columns,
        version=table.optional("version", text, XMIN),
        create=table.optional("create", boolean, False),
    )
    table.close()
    return found


def _replay(table: Table) -> Replay:
    found = Replay(
        datasets=table.optional("datasets", several(text, at_least=1), None),
        subjects=table.optional("subjects", several(text, at_least=1), None),
        last_us=table.optional("last", duration(at_least=SECOND), None),
        allows_vanished=table.optional("vanished", one_of("refuse", "allow"), "refuse") == "allow",
    )
    table.close()
    return found


def _republish(table: Table) -> str:
    destination = table.required("destination", name, "unnamed")
    table.close()
    return destination


def _resync(table: Table) -> Resync:
    found = Resync(
        source=table.required("source", name, "unnamed"),
        allows_deletes=table.optional("deletes", one_of("refuse", "allow"), "refuse") == "allow",
    )
    table.close()
    return found


def _processing(table: Table, config: Config, sizes: Sizes) -> Processing:
    retry = table.table("retry_policy", "retry_policy")
    policy = RetryPolicy(
        max_attempts=retry.optional("max_attempts", integer(at_least=1, at_most=100), 5),
        backoff_seconds=retry.optional("backoff", _seconds(at_most=DAY), 1.0),
        multiplier=retry.optional("multiplier", number(at_least=1, at_most=100), 5.0),
    )
    retry.close()
    rate = config.number("backfill.rate_limit_per_second")
    found = Processing(
        max_concurrency=table.optional(
            "max_concurrency", integer(at_least=1, at_most=1000), config.number("backfill.max_concurrency")
        ),
        rate_limit=table.optional(
            "rate_limit_per_second", or_none(number(at_least=0.001, at_most=1e9)), float(rate) or None
        ),
        retry=policy,
        target_seconds=table.optional(
            "target_duration",
            _seconds(at_least=MILLISECOND, at_most=60 * SECOND),
            config.length_us("backfill.target_duration") / SECOND,
        ),
        min_rows=table.optional("min_batch_size", integer(at_least=1, at_most=sizes.at_most), sizes.smallest),
        max_rows=table.optional("max_batch_size", integer(at_least=1, at_most=sizes.at_most), sizes.largest),
        cut_ahead=table.optional("cut_ahead", integer(at_least=1, at_most=10_000), 8),
        lock_seconds=table.optional("lock_timeout", _seconds(at_least=MILLISECOND, at_most=60 * SECOND), 0.5),
        max_error_rate=table.optional("max_error_rate", number(at_least=0, at_most=1), 0.1),
    )
    if found.min_rows > found.max_rows:
        table.refuse("min_batch_size", f"is more than max_batch_size ({found.max_rows})")
    table.close()
    return found


def _health(table: Table, config: Config) -> HealthLimits:
    def length(key: str) -> float | None:
        read = or_none(_seconds(at_most=DAY))
        return table.optional(key, read, config.length_us(f"backfill.{key}") / SECOND)

    found = HealthLimits(
        max_commit_p99_seconds=length("max_commit_p99"),
        max_queue_age_seconds=length("max_queue_age"),
        max_lock_waits=table.optional(
            "max_lock_waits", or_none(integer(at_least=0)), config.number("backfill.max_lock_waits")
        ),
        max_replication_lag_seconds=length("max_replication_lag"),
    )
    table.close()
    return found


def _verification(table: Table) -> Verification:
    found = Verification(
        checksum_query=table.optional("checksum_query", text, None),
        check=table.optional("check", text, None),
        allows_changes=table.optional("changes", one_of("refuse", "allow"), "refuse") == "allow",
    )
    table.close()
    return found


def _closed(table: Table, key: str, read: Callable[[object], float], default: float) -> float:
    value = table.optional(key, read, default)
    table.close()
    return value


def _seconds(*, at_least: int = 0, at_most: int) -> Callable[[object], float]:
    read = duration(at_least=at_least, at_most=at_most)
    return lambda value: read(value) / SECOND


def _function(value: object) -> str:
    if not isinstance(value, str) or not _FUNCTION.fullmatch(value):
        raise MisfitError("a function as module:name")
    return value


def _expressions(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not value:
        raise MisfitError('a table of columns and SQL expressions such as { net = "gross - tax" }')
    for column, expression in value.items():
        if not isinstance(expression, str) or not expression.strip():
            raise MisfitError("an SQL expression", found=expression, key=f".{column}")
    return dict(value)
