"""What datasets mean: the definition in force, those before it, and which of them a subject was made under."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control.calls import call, fetch_records, fetch_rows, fetch_value, find_value
from disarray.errors import UnknownNameError
from disarray.model.description.dataset import Version
from disarray.model.description.dataset_reader import restore_dataset, written_text
from disarray.model.description.format import ColumnType
from disarray.model.fingerprints import Fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset


@dataclass(frozen=True, slots=True)
class SubjectVersion:
    """Under which definition the numbers of a subject were made; if not the one in force, a rebuild is pending."""

    version: Version
    is_in_force: bool


@dataclass(frozen=True, slots=True)
class PendingRebuild:
    """A subject that waits for the definition in force; `files` are read again only where parsing changed."""

    dataset: str
    subject_key: str
    parse_version: str
    scan_version: str
    segments: int
    readings: int
    files: int
    is_queued: bool

    @property
    def version(self) -> Version:
        """The definition that it has now."""
        return Version(self.parse_version, self.scan_version)


def metric_documents(dataset: Dataset) -> list[dict[str, object]]:
    """The metrics of a definition as the database knows them: what carries values from segment to segment."""
    return [
        {
            "name": metric.name,
            "kind": metric.kind.value,
            "method": metric.method.value,
            "max_gap_us": metric.max_gap_us,
            "is_integer": metric.type is ColumnType.INT64,
            "unit": metric.unit,
        }
        for metric in dataset.metrics
    ]


def register_dataset(
    connection: Connection, dataset: Dataset, *, is_on_purpose: bool = False, queues: bool = True
) -> int:
    """Make a definition known; one never seen is put in force, and as many rebuilds as this answers are queued.

    One that was superseded is refused, unless it is put in force again on purpose. Without `queues`, subjects wait for
    whoever queues them one by one.
    """
    return fetch_value(
        connection,
        int,
        "select disarray.register_dataset(%s, %s, %s, %s::json, %s::jsonb, %s, %s)",
        (
            dataset.name,
            dataset.parse_version,
            dataset.scan_version,
            written_text(dataset),
            json.dumps(metric_documents(dataset)),
            is_on_purpose,
            queues,
        ),
    )


def assert_in_force(connection: Connection, datasets: Iterable[Dataset]) -> None:
    """Refuse to go on with a definition that another one has replaced."""
    used = sorted(datasets, key=lambda dataset: dataset.name)
    call(
        connection,
        "select disarray.assert_in_force(%s::text[], %s::text[], %s::text[])",
        (
            [dataset.name for dataset in used],
            [dataset.parse_version for dataset in used],
            [dataset.scan_version for dataset in used],
        ),
    )


def load_definition(connection: Connection, dataset: str, version: Version) -> Dataset:
    """A dataset as it was defined under a version."""
    written = find_value(
        connection,
        dict,
        "select disarray.load_definition(%s, %s, %s)",
        (dataset, version.parse, version.scan),
    )
    if not written:
        raise UnknownNameError(f"dataset '{dataset}' was never defined as {version.parse} {version.scan}")
    return restore_dataset(written, version)


def is_defined(connection: Connection, dataset: Dataset) -> bool:
    """Whether the database knows this version of a dataset, in force or not."""
    return fetch_value(
        connection,
        bool,
        "select disarray.load_definition(%s, %s, %s) is not null",
        (dataset.name, dataset.parse_version, dataset.scan_version),
    )


def definition_in_force(connection: Connection, dataset: str) -> Version | None:
    """The version under which a dataset is read and scanned now; None where it was never registered."""
    rows = fetch_rows(
        connection, "select parse_version, scan_version from disarray.definition_in_force(%s)", (dataset,)
    )
    return Version(*rows[0]) if rows else None


def load_subject_versions(
    connection: Connection, subject_keys: Sequence[str]
) -> dict[tuple[str, str], SubjectVersion]:
    """Under which definitions the numbers of some subjects were made, by dataset and subject."""
    rows = fetch_rows(
        connection,
        """
        select dataset, subject_key, parse_version, scan_version, is_in_force
        from disarray.load_subject_versions(%s::text[])
        """,
        (list(subject_keys),),
    )
    return {
        (dataset, subject): SubjectVersion(Version(parse, scan), is_in_force)
        for dataset, subject, parse, scan, is_in_force in rows
    }


def queue_rebuilds(connection: Connection, *, dataset: str | None, subject_key: str | None) -> int:
    """Queue an item for each subject that waits for the definition in force; how many there are."""
    return fetch_value(connection, int, "select disarray.queue_rebuilds(%s, %s)", (dataset, subject_key))


def list_rebuilds(
    connection: Connection,
    *,
    dataset: str | None = None,
    subject_key: str | None = None,
    version: Version | None = None,
) -> list[PendingRebuild]:
    """Subjects that wait for the definition in force, or would for another, and how much each has to scan or read."""
    wanted = (None, None) if version is None else (version.parse, version.scan)
    return fetch_records(
        connection,
        PendingRebuild,
        "select * from disarray.list_rebuilds(%s, %s, %s, %s)",
        (dataset, subject_key, *wanted),
    )


def count_rebuilt(connection: Connection, dataset: str) -> tuple[int, int]:
    """How many subjects of a dataset have numbers under the definition in force, of how many."""
    ((rebuilt, subjects),) = fetch_rows(
        connection, "select rebuilt, subjects from disarray.count_rebuilt(%s)", (dataset,)
    )
    return rebuilt, subjects


def load_rebuild_files(connection: Connection, dataset: str, subject_key: str) -> dict[str, Fingerprint]:
    """The files of a subject that are read again where parsing changed, and what is remembered of their bytes."""
    rows = fetch_rows(
        connection,
        "select source_uri, fingerprint from disarray.load_rebuild_files(%s, %s)",
        (dataset, subject_key),
    )
    return {uri: Fingerprint.from_bytes(fingerprint) for uri, fingerprint in rows}
