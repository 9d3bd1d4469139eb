"""The connections of one thread at work on one job, and what it works with."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from disarray.backfill.description import (
    RebuildSpec,
    ReplaySpec,
    RepublishSpec,
    ResyncSpec,
    UpdateSpec,
)
from disarray.backfill.lease_keeper import open_keeper
from disarray.backfill.stored_description import spec_of_document
from disarray.backfill.update import UpdateKind, open_update
from disarray.backfill.user_database.marks import Marks
from disarray.backfill.user_database.session import defer_durability, prepare_session
from disarray.control.connections import SessionLimits, connect
from disarray.errors import ConfigError
from disarray.secret import read_secret

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any
    from uuid import UUID

    from disarray.backfill.description import BackfillSpec
    from disarray.backfill.kind import BackfillKind, KindOpener
    from disarray.backfill.lease_keeper import LeaseKeeper
    from disarray.control.connections import Connection
    from disarray.model.description.secret import SecretSource


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSession:
    """One job, seen from one thread: `control` and `target` are one connection where the table is in our database."""

    job_id: int
    spec: BackfillSpec
    kind: BackfillKind
    control: Connection
    target: Connection
    marks: Marks | None
    keeper: LeaseKeeper

    @property
    def is_one_database(self) -> bool:
        """Whether a chunk's effect and its end are one transaction."""
        return self.control is self.target


@contextmanager
def open_job(
    dsn: str,
    job_id: int,
    *,
    job_key: UUID,
    kind: str,
    description: Mapping[str, Any],
    lease_seconds: int,
    open_kind: KindOpener,
) -> Iterator[JobSession]:
    """Connections for a job that was started; what it works on is looked at anew."""
    spec = spec_of_document(kind, description)
    with (
        open_connections(dsn, spec, lease_seconds=lease_seconds) as (control, target),
        open_kind(target, spec, job_id) as opened,
        open_keeper(dsn, lease_seconds=lease_seconds) as keeper,
    ):
        marks = None
        if control is target:
            defer_durability(control)
        if control is not target and isinstance(opened, UpdateKind):
            marks = Marks(opened.table.layout.schema, job_key)
            marks.prepare(target, create=opened.spec.update.create)
        yield JobSession(
            job_id=job_id,
            spec=spec,
            kind=opened,
            control=control,
            target=target,
            marks=marks,
            keeper=keeper,
        )


@contextmanager
def open_in_database(
    connection: Connection, spec: BackfillSpec, _job_id: int | None = None, /
) -> Iterator[BackfillKind]:
    """The kind of a job that needs nothing but a database."""
    match spec:
        case UpdateSpec():
            yield open_update(connection, spec)
        case RepublishSpec() | ResyncSpec():
            raise ConfigError(
                f"backfill '{spec.name}' is about {spec.target}, for which this process lacks the project. Nothing was "
                "changed; a worker goes on with it"
            )
        case ReplaySpec() | RebuildSpec():
            raise ConfigError(
                f"backfill '{spec.name}' is a {spec.kind}: it needs Spark and the lake, and compares while it runs. "
                "Nothing was changed. A worker goes on with it, and so does: disarray backfill resume"
            )
        case _:
            assert_never(spec)


@contextmanager
def open_connections(
    dsn: str, spec: BackfillSpec, *, lease_seconds: int
) -> Iterator[tuple[Connection, Connection]]:
    """The control database and the user's; the same connection twice where they are one."""
    limits = SessionLimits.for_lease(lease_seconds)
    with ExitStack() as stack:
        control = stack.enter_context(
            connect(dsn, limits=limits, application_name=f"disarray backfill {spec.name}")
        )
        prepare_session(control)
        target = control
        if spec.url is not None:
            target = stack.enter_context(
                connect(
                    target_dsn(spec.url),
                    limits=limits,
                    application_name=f"disarray backfill {spec.name}",
                )
            )
            prepare_session(target)
        yield control, target


def target_dsn(source: SecretSource) -> str:
    """The DSN that a description names, never prints and never stores."""
    try:
        return read_secret(source).strip()
    except ConfigError as error:
        raise ConfigError(f"source.url: {error}. Nothing was changed") from None
