"""Every setting that there is: its names, its default, what it means and what its value may be."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import assert_never

from disarray.model.description.spec_values import any_text, duration, integer, several, text
from disarray.model.duration import DAY, HOUR, LONGEST, SECOND


class Kind(Enum):
    """What the value of a setting may be; in the file a number needs no quotes."""

    TEXT = "text"
    PATH = "path"
    NUMBER = "number"
    LENGTH = "length of time"
    WORDS = "list of words"


@dataclass(frozen=True)
class Option:
    """One setting: `section.key` in the file, a flag and a variable, both named after the key unless given.

    `at_least` and `at_most` bound a number, or a length of time in microseconds.
    """

    name: str
    default: str | None
    meaning: str
    kind: Kind = Kind.TEXT
    _: KW_ONLY
    own_flag: str = ""
    own_variable: str = ""
    at_least: int = 0
    at_most: int = LONGEST

    @property
    def section(self) -> str:
        return self.name.partition(".")[0]

    @property
    def key(self) -> str:
        return self.name.partition(".")[2]

    @property
    def flag(self) -> str:
        return self.own_flag or f"--{self.key.replace('_', '-')}"

    @property
    def variable(self) -> str:
        return self.own_variable or f"DISARRAY_{self.key.upper()}"

    def read(self, value: object) -> str:
        """The value as text, if it is what the setting needs; `MisfitError` says what was expected."""
        match self.kind:
            case Kind.TEXT:
                return any_text(value)
            case Kind.PATH:
                return text(value)
            case Kind.NUMBER:
                is_digits = isinstance(value, str) and value.isascii() and value.isdigit()
                number = int(value) if isinstance(value, str) and is_digits else value
                return str(integer(at_least=self.at_least, at_most=self.at_most)(number))
            case Kind.LENGTH:
                duration(at_least=self.at_least, at_most=self.at_most)(value)
                return text(value)
            case Kind.WORDS:
                return ", ".join(several(text)(value)) if isinstance(value, list) else any_text(value)
            case _:
                assert_never(self.kind)


# The file may hold nothing that is not listed here.
OPTIONS = (
    Option(
        "state.dir",
        ".disarray",
        "where the embedded database, the lake, the agent's memory and Spark's log live",
        Kind.PATH,
        own_flag="--state-dir",
        own_variable="DISARRAY_STATE_DIR",
    ),
    Option("database.dsn", None, "PostgreSQL 15 or later; without it one is embedded in the state folder"),
    Option(
        "broker.url",
        None,
        "`amqp://user:password@host:5672/%2F`; without it agents queue straight in the database",
        own_flag="--broker",
        own_variable="DISARRAY_BROKER",
    ),
    Option(
        "broker.prefix",
        "disarray",
        "what exchanges and queues are called; two installations on one broker differ in it",
        own_flag="--broker-prefix",
        own_variable="DISARRAY_BROKER_PREFIX",
    ),
    Option(
        "agent.scan_every",
        "500 ms",
        "how often roots are listed; a listing that takes long is followed by a pause nine times as long",
        Kind.LENGTH,
    ),
    Option(
        "agent.tiers",
        "1 h every 0 s, 7 d every 1 min, older every 10 min",
        "how often files are looked at, by the time since they last changed; every scan sees new names",
    ),
    Option(
        "agent.ignore",
        ".* ~* *~ *.tmp *.temp *.part *.partial *.crdownload *.swp Thumbs.db",
        "names of files and folders that are passed over",
    ),
    Option(
        "agent.spool_mb",
        "64",
        "how many MB of notifications wait on disk while the broker is away",
        Kind.NUMBER,
        at_least=1,
        at_most=1_000_000,
    ),
    Option(
        "agent.announce_again",
        "1 d",
        "every file is announced again after this time, unread, in case that a message was lost",
        Kind.LENGTH,
    ),
    Option("agent.deep_rescan", "7 d", "every file is hashed whole again after this time", Kind.LENGTH),
    Option(
        "agent.metrics_port",
        None,
        "where the agent tells its figures (`/metrics`, `/health`); 0 takes a free port, which is logged; "
        "without it nowhere",
        Kind.NUMBER,
        own_variable="DISARRAY_AGENT_METRICS_PORT",
        at_most=65_535,
    ),
    Option(
        "agent.metrics_host",
        "127.0.0.1",
        "on which address; the figures are open to everybody who reaches it",
        own_variable="DISARRAY_AGENT_METRICS_HOST",
    ),
    Option(
        "lake.root",
        None,
        "the folder of fragments, shared by all workers and readers; without it `lake` in the state folder",
        Kind.PATH,
        own_flag="--lake-root",
        own_variable="DISARRAY_LAKE_ROOT",
    ),
    Option(
        "landing.root",
        None,
        "where sources put what they deliver, shared by all workers; without it `landing` in the state folder",
        Kind.PATH,
        own_flag="--landing-root",
        own_variable="DISARRAY_LANDING_ROOT",
    ),
    Option(
        "landing.keep",
        None,
        "a delivery of which nothing counts any more (its segments are sealed) is deleted after this time; "
        "without it never",
        Kind.LENGTH,
        own_flag="--landing-keep",
        own_variable="DISARRAY_LANDING_KEEP",
        at_least=DAY,
    ),
    Option(
        "inbox.every",
        "5 s",
        "how often a worker delivers events that wait in the inbox; each delivery is a file for each subject",
        Kind.LENGTH,
        own_flag="--inbox-every",
        own_variable="DISARRAY_INBOX_EVERY",
        at_least=SECOND // 10,
    ),
    Option(
        "inbox.max_attempts",
        "3",
        "how often an event that cannot be read is tried, 1 and 5 minutes apart, before it is a dead letter",
        Kind.NUMBER,
        own_flag="--inbox-max-attempts",
        own_variable="DISARRAY_INBOX_MAX_ATTEMPTS",
        at_least=1,
        at_most=100,
    ),
    Option(
        "sinks.load_every",
        "2 s",
        "how often a worker looks for commits that a [[destination]] has not loaded",
        Kind.LENGTH,
        at_least=SECOND // 10,
    ),
    Option(
        "hooks.allow",
        None,
        'where hooks may connect to: `["hooks.example.com", "127.0.0.1:8080", "10.0.0.0/8"]`; nowhere else. A name '
        "that leads to an address that is not public needs that address as well",
        Kind.WORDS,
        own_flag="--hooks-allow",
        own_variable="DISARRAY_HOOKS_ALLOW",
    ),
    Option(
        "hooks.every",
        "2 s",
        "how often a worker looks for messages to hooks that are due",
        Kind.LENGTH,
        own_flag="--hooks-every",
        own_variable="DISARRAY_HOOKS_EVERY",
        at_least=SECOND // 10,
    ),
    Option(
        "hooks.check_every",
        "1 min",
        "how often workers look for subjects that are silent or stale for too long",
        Kind.LENGTH,
        own_flag="--hooks-check-every",
        own_variable="DISARRAY_HOOKS_CHECK_EVERY",
        at_least=SECOND,
    ),
    Option(
        "backfill.on_workers",
        "yes",
        "whether workers process chunks of backfills: `yes` or `no`; jobs run SQL of an operator with their rights",
        own_variable="DISARRAY_BACKFILL_ON_WORKERS",
    ),
    Option(
        "backfill.functions",
        None,
        "which Python functions of jobs a worker may call, as `module:name` with commas between; without it none",
        own_variable="DISARRAY_BACKFILL_FUNCTIONS",
    ),
    Option(
        "backfill.max_concurrency",
        "2",
        "how many chunks of a job are processed at once, over all workers, where its file says nothing",
        Kind.NUMBER,
        own_variable="DISARRAY_BACKFILL_MAX_CONCURRENCY",
        at_least=1,
        at_most=1000,
    ),
    Option(
        "backfill.rate_limit_per_second",
        "0",
        "how many rows a second a job may take, over all workers, where its file says nothing; 0: as many as it can",
        Kind.NUMBER,
        own_variable="DISARRAY_BACKFILL_RATE_LIMIT",
        at_most=1_000_000_000,
    ),
    Option(
        "backfill.target_duration",
        "100 ms",
        "chunks grow and shrink until one takes so long: about as long as a row may be locked",
        Kind.LENGTH,
        own_variable="DISARRAY_BACKFILL_TARGET_DURATION",
        at_least=SECOND // 1000,
        at_most=60 * SECOND,
    ),
    Option(
        "backfill.max_commit_p99",
        "30 s",
        "a backfill waits while p99 of live commits, from claim to commit, is more than this",
        Kind.LENGTH,
        own_variable="DISARRAY_BACKFILL_MAX_COMMIT_P99",
    ),
    Option(
        "backfill.max_queue_age",
        "2 min",
        "a backfill waits while an item of the live lane has waited longer than this",
        Kind.LENGTH,
        own_variable="DISARRAY_BACKFILL_MAX_QUEUE_AGE",
    ),
    Option(
        "backfill.max_lock_waits",
        "20",
        "a backfill waits while more sessions than this wait for a lock on the server of its table",
        Kind.NUMBER,
        own_variable="DISARRAY_BACKFILL_MAX_LOCK_WAITS",
        at_most=1_000_000,
    ),
    Option(
        "backfill.max_replication_lag",
        "30 s",
        "a backfill waits while a replica of that server is further behind than this",
        Kind.LENGTH,
        own_variable="DISARRAY_BACKFILL_MAX_REPLICATION_LAG",
    ),
    Option(
        "api.host",
        "127.0.0.1",
        "where the REST server listens; elsewhere than on this machine callers need a token",
        own_variable="DISARRAY_API_HOST",
    ),
    Option(
        "api.port",
        "8321",
        "its port; 0 takes a free one, which is printed",
        Kind.NUMBER,
        at_least=0,
        at_most=65_535,
        own_variable="DISARRAY_API_PORT",
    ),
    Option(
        "output.zone",
        "UTC",
        "the IANA zone in which the command line shows instants and reads those that name none; JSON is in UTC",
    ),
    Option(
        "worker.name",
        "Worker01",
        "under which it holds subjects; of two processes of one name the later takes over",
        own_variable="DISARRAY_WORKER_NAME",
    ),
    Option(
        "worker.patterns",
        None,
        "globs of the subjects it serves, with commas between; without it those it served before, or all",
        own_variable="DISARRAY_WORKER_PATTERNS",
    ),
    Option(
        "worker.runner",
        "spark",
        "`in-process` runs the kernels in the worker itself: for tests and tiny machines, without Java",
        own_variable="DISARRAY_WORKER_RUNNER",
    ),
    Option(
        "worker.lease",
        "5 min",
        "how long a subject stays held by a worker that says nothing",
        Kind.LENGTH,
        own_variable="DISARRAY_WORKER_LEASE",
        at_least=SECOND,
        at_most=DAY,
    ),
    Option(
        "worker.drain_within",
        "30 s",
        "how long a pass may take to end after SIGTERM, before it is handed back",
        Kind.LENGTH,
        own_variable="DISARRAY_WORKER_DRAIN_WITHIN",
    ),
    Option(
        "verify.on_workers",
        "yes",
        "whether workers verify subjects while nothing is queued, those first that have waited longest: `yes` or `no`",
        own_variable="DISARRAY_VERIFY_ON_WORKERS",
    ),
    Option(
        "verify.every",
        "1 d",
        "how often one of the workers does",
        Kind.LENGTH,
        at_least=HOUR,
        own_variable="DISARRAY_VERIFY_EVERY",
    ),
    Option(
        "verify.budget",
        "10 min",
        "and for how long at a time",
        Kind.LENGTH,
        at_least=SECOND,
        own_variable="DISARRAY_VERIFY_BUDGET",
    ),
    Option(
        "housekeeping.cold_after",
        "1 h",
        "a segment that nothing changed for so long may be compacted",
        Kind.LENGTH,
    ),
    Option(
        "housekeeping.compact_fragments",
        "8",
        "it is compacted when it lies in at least so many row groups",
        Kind.NUMBER,
        at_least=2,
        at_most=1_000_000_000,
    ),
    Option(
        "housekeeping.compact_readings",
        "20000",
        "and when they hold fewer readings than this on average",
        Kind.NUMBER,
        at_least=1,
        at_most=1_000_000_000,
    ),
    Option(
        "housekeeping.vacuum_after",
        "1 d",
        "a file of the lake is deleted so long after the last need of it",
        Kind.LENGTH,
        at_least=HOUR,
    ),
    Option(
        "housekeeping.keep_history",
        "90 d",
        "how long resolved dirty ranges and runs are kept",
        Kind.LENGTH,
        at_least=DAY,
    ),
    Option(
        "housekeeping.keep_commits",
        "30 d",
        "how long notices of commits are kept that every follower has done",
        Kind.LENGTH,
        at_least=DAY,
    ),
    Option(
        "housekeeping.keep_events",
        "365 d",
        "how long events are kept, in whole months",
        Kind.LENGTH,
        at_least=31 * DAY,
    ),
    Option(
        "housekeeping.keep_inbox",
        "90 d",
        "how long an event of the inbox that is done is known: sent again after that, it is new",
        Kind.LENGTH,
        at_least=DAY,
    ),
    Option(
        "housekeeping.keep_effects",
        "90 d",
        "how long messages to hooks are kept that were sent",
        Kind.LENGTH,
        at_least=DAY,
    ),
    Option(
        "housekeeping.keep_backfills",
        "90 d",
        "how long backfills that have ended are kept, with their chunks and verdicts",
        Kind.LENGTH,
        at_least=DAY,
    ),
)
