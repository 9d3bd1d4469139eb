"""Opens every kind of backfill, in a process that has what those about subjects need: runner, lake, definitions."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, assert_never

from disarray.backfill.description import RebuildSpec, ReplaySpec, RepublishSpec, ResyncSpec, UpdateSpec
from disarray.backfill.job_session import open_in_database
from disarray.backfill.rebuild import open_rebuild
from disarray.backfill.replay import open_replay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.backfill.description import BackfillSpec
    from disarray.backfill.kind import BackfillKind, KindOpener
    from disarray.backfill.replay import ReplayMeans
    from disarray.control.connections import Connection


def subject_kinds(means: ReplayMeans) -> KindOpener:
    """What opens the kind of a job."""

    @contextmanager
    def open_kind(
        connection: Connection, spec: BackfillSpec, _job_id: int | None = None, /
    ) -> Iterator[BackfillKind]:
        match spec:
            case ReplaySpec():
                yield open_replay(spec, means)
            case RebuildSpec():
                yield open_rebuild(spec, means)
            case UpdateSpec() | RepublishSpec() | ResyncSpec():
                with open_in_database(connection, spec) as kind:
                    yield kind
            case _:
                assert_never(spec)

    return open_kind
