"""What was in each bucket of a rollup."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from disarray.control.connections import Connection
from disarray.model.description.dataset import Dataset
from disarray.model.description.rollups import Rollup
from disarray.model.segments import FIRST_US, LAST_US, datetime_of, instant_of
from disarray.queries import rollup_buckets
from disarray.queries.names import SubjectOf, find_rollup, find_subjects


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """A number for each aggregate, null where it had no points."""

    channel: str
    start: datetime
    end: datetime
    label: str
    values: dict[str, int | float | None]
    final: bool


@dataclass(frozen=True, kw_only=True)
class Buckets:
    """Buckets by channel and time, all of one moment. The newest may still be filling."""

    dataset: str
    subject_key: str
    rollup: str
    stale_from: datetime | None
    rebuild_pending: bool  # the numbers are those of a former definition
    buckets: list[Bucket]


@dataclass(frozen=True)
class RollupAnswer:
    """The answer, and what it is about."""

    subject: SubjectOf
    rollup: Rollup
    document: Buckets


def query_rollup(
    connection: Connection,
    datasets: Mapping[str, Dataset],
    *,
    subject_key: str,
    rollup: str,
    from_us: int | None = None,
    to_us: int | None = None,
    channel: str | None = None,
    dataset: str | None = None,
    most_values: int | None = None,
) -> RollupAnswer:
    """The buckets that overlap a span and hold readings; where an end is not given, up to all readings."""
    subjects = find_subjects(connection, datasets, subject_key=subject_key, dataset=dataset)
    found, chosen = find_rollup(subjects, rollup)
    answer = rollup_buckets.rollup(
        connection,
        dataset=found.dataset,
        subject_key=subject_key,
        rollup=chosen,
        from_us=FIRST_US if from_us is None else from_us,
        to_us=LAST_US if to_us is None else to_us,
        channel=channel,
        most_values=most_values,
    )
    buckets = Buckets(
        dataset=found.dataset.name,
        subject_key=subject_key,
        rollup=chosen.name,
        stale_from=instant_of(answer.stale_from_us),
        rebuild_pending=found.is_rebuild_pending,
        buckets=[
            Bucket(
                channel=each.channel,
                start=datetime_of(each.start_us),
                end=datetime_of(each.end_us),
                label=each.label,
                values=dict(each.numbers),
                final=each.is_final,
            )
            for each in answer.buckets
        ],
    )
    return RollupAnswer(found, chosen, buckets)
