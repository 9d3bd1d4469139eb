"""What a replay compares: subjects that have readings in a span, what is stored of them, and bases carried on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disarray.control.calls import call, fetch_dicts, fetch_records, fetch_value, find_record
from disarray.control.definitions import metric_documents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReplayedSubject:
    """One dataset of one subject, and how many readings it has in the span."""

    subject_key: str
    dataset: str
    readings: int


@dataclass(frozen=True, slots=True)
class ReplayExtent:
    """How much there is to compare; the last subject and dataset are None where there is nothing."""

    subjects: int
    readings: int
    last_subject_key: str | None
    last_dataset: str | None

    @property
    def last(self) -> tuple[str, str] | None:
        """The last subject and its dataset, in the order of chunks."""
        if self.last_subject_key is None or self.last_dataset is None:
            return None
        return self.last_subject_key, self.last_dataset


@dataclass(frozen=True)
class FindingRecord:
    """One finding of a replay, as a person sees it in a listing."""

    chunk_no: int
    kind: str
    dataset: str
    subject_key: str
    segment_us: int | None
    what: str
    name: str
    channel: str
    stored: str | None
    replayed: str | None


def list_backfill_findings(connection: Connection, job_id: int, *, limit: int = 100) -> list[FindingRecord]:
    """What a replay found, differences first."""
    return fetch_records(
        connection,
        FindingRecord,
        "select * from disarray.list_backfill_findings(%s, %s)",
        (job_id, limit),
    )


def next_replayed_subject(
    connection: Connection,
    after: Sequence[str] | None,
    *,
    datasets: Sequence[str] | None,
    subjects: Sequence[str] | None,
    from_us: int,
    to_us: int,
) -> ReplayedSubject | None:
    """The next subject and dataset behind a cursor that have readings in a span."""
    return find_record(
        connection,
        ReplayedSubject,
        "select * from disarray.next_replayed_subject(%s::text[], %s::text[], %s::text[], %s, %s)",
        (after, _listed(datasets), _listed(subjects), from_us, to_us),
    )


def measure_replay(
    connection: Connection,
    *,
    datasets: Sequence[str] | None,
    subjects: Sequence[str] | None,
    from_us: int,
    to_us: int,
) -> ReplayExtent:
    """How much a replay of a span compares."""
    [extent] = fetch_records(
        connection,
        ReplayExtent,
        "select * from disarray.measure_replay(%s::text[], %s::text[], %s, %s)",
        (_listed(datasets), _listed(subjects), from_us, to_us),
    )
    return extent


def distrust_segments(
    connection: Connection, dataset: str, subject_key: str, *, segments: Sequence[int]
) -> int:
    """Let the next scan of some segments put all of their numbers anew, whatever it finds; how many there are."""
    return fetch_value(
        connection,
        int,
        "select disarray.distrust_segments(%s, %s, %s::bigint[])",
        (dataset, subject_key, list(segments)),
    )


def begin_applying(connection: Connection, job_id: int, chunk_no: int) -> bool:
    """Note that what a chunk found is taken over in this transaction; False where it was taken over before."""
    return fetch_value(connection, bool, "select disarray.begin_applying(%s, %s)", (job_id, chunk_no))


def note_backfill_applied(
    connection: Connection, job_id: int, *, files: int, rebuilds: int, reason: str, by: str
) -> None:
    """Write down that what a replay found was taken over."""
    call(
        connection,
        "select disarray.note_backfill_applied(%s, %s, %s, %s, %s)",
        (job_id, files, rebuilds, reason, by),
    )


def newest_commit_seq(connection: Connection, subject_key: str, dataset: str) -> int:
    """The number of the newest commit that changed numbers here: the same twice means that nothing changed between."""
    return fetch_value(connection, int, "select disarray.newest_commit_seq(%s, %s)", (subject_key, dataset))


def load_span_summaries(
    connection: Connection, dataset: str, subject_key: str, *, from_us: int, to_us: int
) -> list[Row]:
    """Summaries and bases of the segments that start in a span, both ends included."""
    return fetch_dicts(
        connection,
        "select * from disarray.load_span_summaries(%s, %s, %s, %s)",
        (dataset, subject_key, from_us, to_us),
    )


def load_last_summaries(
    connection: Connection, dataset: str, subject_key: str, *, before_us: int
) -> list[Row]:
    """The last piece of each series before a point, and the blocks that it lies behind."""
    return fetch_dicts(
        connection,
        """
        select
            metric,
            channel,
            segment_us,
            summary,
            blocks
        from disarray.load_last_summaries(%s, %s, %s)
        """,
        (dataset, subject_key, before_us),
    )


def load_span_rollup_parts(
    connection: Connection, dataset: str, subject_key: str, *, from_us: int, to_us: int
) -> list[Row]:
    """What the segments that start in a span contribute to buckets."""
    return fetch_dicts(
        connection,
        "select * from disarray.load_span_rollup_parts(%s, %s, %s, %s)",
        (dataset, subject_key, from_us, to_us),
    )


def carry_bases(
    connection: Connection,
    dataset: Dataset,
    subject_key: str,
    pieces: Sequence[Row],
    seeds: Sequence[Row],
    *,
    frontier_us: int,
) -> list[Row]:
    """The bases of pieces from a frontier on, by the arithmetic of a commit; seeds are what they are carried on from.

    The last piece of each series comes with its own `summary` and `blocks`: the next seeds. Nothing of it is left in
    the database.
    """
    documents = [*(row["summary"] for row in seeds), *pieces]
    blocks = [block for row in seeds for block in row["blocks"]]
    return fetch_dicts(
        connection,
        """
        select
            (made.carried).*,
            made.summary,
            made.blocks
        from disarray.carry_bases(%s, %s, %s::json, %s, %s::json, %s::json) as made
        """,
        (
            dataset.name,
            subject_key,
            json.dumps(metric_documents(dataset)),
            frontier_us,
            json.dumps([without_owner(each) for each in documents], allow_nan=False),
            json.dumps([without_owner(each) for each in blocks], allow_nan=False),
        ),
    )


def without_owner(row: Row) -> Row:
    """A row as one of nobody."""
    return {name: value for name, value in row.items() if name not in ("dataset", "subject_key")}


def _listed(names: Sequence[str] | None) -> list[str] | None:
    return None if names is None else list(names)
