"""The channels of a subject: the series that its metrics are told for."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from disarray.control import values
from disarray.control.connections import Connection
from disarray.model.description.dataset import Dataset
from disarray.model.segments import LAST_US, instant_of
from disarray.queries.names import find_subjects
from disarray.queries.pages import Order

ORDER = Order("channels", {"dataset": str, "channel": str})


@dataclass(frozen=True, kw_only=True)
class Channel:
    """A series of a subject, its metrics and its last reading; `channel` is empty where there is only one."""

    dataset: str
    subject_key: str
    channel: str
    metrics: list[str]
    last: datetime | None


@dataclass(frozen=True)
class Channels:
    """Channels by dataset and name; `next` is the cursor of the next page, null on the last."""

    channels: list[Channel]
    next: str | None


def list_channels(
    connection: Connection,
    datasets: Mapping[str, Dataset],
    *,
    subject_key: str,
    dataset: str | None = None,
    limit: int = 1000,
    after: str | None = None,
) -> Channels:
    """Channels of a subject that has readings."""
    found = []
    for subject in find_subjects(connection, datasets, subject_key=subject_key, dataset=dataset):
        metrics: dict[str, list[str]] = defaultdict(list)
        last_us: dict[str, int] = {}
        for metric in subject.dataset.metrics:
            newest = values.load_bases(
                connection,
                subject.dataset.name,
                subject_key,
                metric=metric.name,
                from_us=LAST_US,
                to_us=LAST_US,
            )
            for piece in newest:
                if metric.name not in metrics[piece.channel]:
                    metrics[piece.channel].append(metric.name)
                if piece.last_reading_us is not None:
                    last_us[piece.channel] = max(
                        piece.last_reading_us, last_us.get(piece.channel, piece.last_reading_us)
                    )
        found += [
            Channel(
                dataset=subject.dataset.name,
                subject_key=subject_key,
                channel=channel,
                metrics=names,
                last=instant_of(last_us.get(channel)),
            )
            for channel, names in metrics.items()
        ]
    return Channels(*ORDER.page_of(found, after=after, limit=limit))
