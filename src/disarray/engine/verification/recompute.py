"""An independent recompute of everything that is stored: from the files, in other code than the kernels.

The parser is the one of the pipeline, run over whole files; order, keys, expressions, folds, bases and rollup parts
are Spark's window functions. What comes out must be what is stored, bit for bit; and one plain window over each whole
history must agree to within rounding.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812

from disarray.control import status, verification
from disarray.engine.runner import SparkRunner
from disarray.engine.verification.comparison import (
    BASES,
    PRIORS,
    ROLLUP_PARTS,
    SEGMENTS,
    SUMMARIES,
    Comparison,
    Difference,
    differing_rows,
    differing_values,
    stored_table,
)
from disarray.engine.verification.metrics import summarize, whole_history, with_bases
from disarray.engine.verification.readings import (
    SEGMENT,
    arrivals_of,
    load_readings,
    misplaced_readings,
    segment_digests,
    source_readings,
    winners,
    with_attributes,
)
from disarray.engine.verification.rollups import rollup_parts
from disarray.engine.verification.scratch import SUBJECT, URI
from disarray.engine.verification.sources import Unproven, accepted_files, dataset_of, gather_sources
from disarray.engine.verification.tables import table_differences
from disarray.engine.verification.whole_history import history_differences
from disarray.store.belonging import belonging_files
from disarray.store.definitions import KnownDefinitions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from disarray.control.connections import Connection
    from disarray.control.verification import StoredSubject
    from disarray.engine.verification.sources import Sources
    from disarray.model.description.dataset import Dataset, Version
    from disarray.store.lake import Lake

SUBJECTS_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class NotCompared:
    """Numbers of a subject that are known not to be final: `reason` says what has to happen first."""

    dataset: str
    subject_key: str
    reason: str
    stale_from_us: int | None = None


@dataclass(frozen=True, slots=True)
class SealedSegments:
    """Segments of which only the numbers are kept: bases are checked on top of them, they themselves cannot be."""

    dataset: str
    subject_key: str
    segments: int
    readings: int


@dataclass(slots=True)
class VerificationReport:
    """What was compared, what differs (the first of each kind), and what proves nothing."""

    files: int = 0
    readings: int = 0
    segments: int = 0
    bases: int = 0
    rollup_parts: int = 0
    differences: list[Difference] = field(default_factory=list)
    unproven: list[Unproven] = field(default_factory=list)
    not_compared: list[NotCompared] = field(default_factory=list)
    sealed: list[SealedSegments] = field(default_factory=list)

    def is_identical(self, *, allow_vanished: bool = False) -> bool:
        """Whether everything is stored as the files say; sources that are gone count only if that is allowed.

        Sealed segments say nothing either way: whoever reports this reports `sealed` beside it.
        """
        return not (self.differences or self.not_compared or (self.unproven and not allow_vanished))


def verify(
    connection: Connection,
    session: SparkSession,
    datasets: Mapping[str, Dataset],
    *,
    lake: Lake,
    subject_key: str | None = None,
    dataset: str | None = None,
    on_step: Callable[[str], None] = lambda _: None,
) -> VerificationReport:
    """Recompute what is stored, or one subject or dataset of it, and compare; `on_step` hears what is done next."""
    report = VerificationReport()
    known = KnownDefinitions(connection, datasets)
    subjects = verification.list_verified_subjects(connection, subject_key)
    for start in range(0, len(subjects), SUBJECTS_AT_ONCE):
        page = [
            verification.load_subject(connection, key) for key in subjects[start : start + SUBJECTS_AT_ONCE]
        ]
        now_us = status.current_us(connection)
        for name in sorted(set().union(*(_datasets_of(each, datasets) for each in page))):
            if dataset is not None and name != dataset:
                continue
            held = [each for each in page if name in _datasets_of(each, datasets)]
            if name not in datasets:
                reason = "no dataset of this name is described; describe it in disarray.toml"
                report.not_compared += [NotCompared(name, each.subject_key, reason) for each in held]
                continue
            # Subjects that wait for a rebuild are compared under the definition that their numbers were made with.
            for version, group in _by_version(held, name).items():
                defined = known.of(name, version)
                ready = [each for each in group if _is_comparable(each, defined, report)]
                if ready:
                    span = f"subjects {start + 1:,} to {start + len(page):,} of {len(subjects):,}"
                    on_step(f"{name}: reading the files again, {span}")
                    with lake.scratch_folder() as folder:
                        recompute = _Recompute(
                            session, defined, ready, lake=lake, folder=folder, report=report, on_step=on_step
                        )
                        recompute.run(now_us)
                    rows = [row for each in ready for row in each.segments.get(name, ())]
                    report.differences += table_differences(connection, defined, rows)
    _note_misplaced(connection, datasets, report, subject_key=subject_key, dataset=dataset)
    return report


def _note_misplaced(
    connection: Connection,
    datasets: Mapping[str, Dataset],
    report: VerificationReport,
    *,
    subject_key: str | None,
    dataset: str | None,
) -> None:
    """Files that count for another dataset or subject than they are about, and those that no dataset takes."""
    for each in belonging_files(connection, datasets.values()):
        file = each.file
        if subject_key not in (None, file.subject_key, each.subject_key):
            continue
        if dataset not in (None, file.dataset, each.dataset):
            continue
        name = file.dataset or each.dataset or ""
        if each.dataset is None and file.homes:
            reason = f"{each.problem}; what it said before still counts"
            report.unproven.append(Unproven(file.subject_key, file.source_uri, 0, reason))
        elif each.is_elsewhere and each.is_on_its_way:
            reason = f"{file.source_uri} is about to move to {each.belongs_to}; run again after it"
            report.not_compared.append(NotCompared(name, file.subject_key, reason))
        elif each.is_elsewhere:
            report.differences.append(
                Difference(
                    dataset=name,
                    subject_key=file.subject_key,
                    what="file counts for",
                    name=file.source_uri,
                    channel="",
                    segment_us=None,
                    stored=each.counts_for,
                    recomputed=each.belongs_to,
                )
            )


def _datasets_of(subject: StoredSubject, datasets: Mapping[str, Dataset]) -> set[str]:
    announced = {dataset_of(file, list(datasets.values())) for file in subject.files}
    return {*subject.datasets, *(name for name in announced if name is not None)}


def _by_version(subjects: Sequence[StoredSubject], dataset: str) -> dict[Version | None, list[StoredSubject]]:
    grouped: dict[Version | None, list[StoredSubject]] = defaultdict(list)
    for subject in subjects:
        grouped[subject.versions.get(dataset)].append(subject)
    return grouped


def _is_comparable(subject: StoredSubject, dataset: Dataset, report: VerificationReport) -> bool:
    """Whether all that is stored was made under one definition; if not, it is noted."""
    if any(
        file.fingerprint.parse_version != dataset.parse_version for file in accepted_files(subject, dataset)
    ):
        reason = "some of its files were read under another definition of the dataset than the others"
    elif any(row["scan_version"] != dataset.scan_version for row in subject.segments.get(dataset.name, ())):
        reason = "some of it was scanned under another definition of the dataset than the rest"
    else:
        return True
    report.not_compared.append(NotCompared(dataset.name, subject.subject_key, reason))
    return False


class _Recompute:
    """One dataset of some subjects."""

    def __init__(
        self,
        session: SparkSession,
        dataset: Dataset,
        subjects: Sequence[StoredSubject],
        *,
        lake: Lake,
        folder: Path,
        report: VerificationReport,
        on_step: Callable[[str], None],
    ) -> None:
        self.on_step = on_step
        self.session = session
        self.dataset = dataset
        self.subjects = subjects
        self.lake = lake
        self.folder = folder
        self.report = report
        self.stale = {
            each.subject_key: each.stale_from_us[dataset.name]
            for each in subjects
            if dataset.name in each.stale_from_us
        }

        self.sealed = {each.subject_key: each.sealed_segments(dataset.name) for each in subjects}

    def run(self, now_us: int) -> None:
        """Recompute and compare."""
        self._note_sealed()
        sources = gather_sources(
            SparkRunner(self.session),
            self.dataset,
            self.subjects,
            lake=self.lake,
            folder=self.folder,
            now_us=now_us,
        )
        self.report.files += sources.files
        self._step(f"comparing readings, files read: {sources.files:,}")
        self.report.unproven += sources.unproven
        self.report.not_compared += [
            NotCompared(
                self.dataset.name, subject, "its bases wait for a shift; run again after it", stale_us
            )
            for subject, stale_us in sorted(self.stale.items())
        ]
        read = source_readings(self.session, self.dataset, sources)
        self._compare_readings(read, sources)
        readings = with_attributes(
            self.session,
            winners(read, self.dataset, arrivals_of(self.session, self.dataset, self.subjects)),
            self.dataset,
            [subject.subject_key for subject in self.subjects],
        ).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            self._compare_segments(readings)
            if self.dataset.metrics:
                self._step("comparing metrics")
                self._compare_metrics(readings)
            if self.dataset.rollups:
                self._step("comparing rollups")
                self._compare_rollups(readings, sources)
        finally:
            readings.unpersist()

    def _step(self, what: str) -> None:
        self.on_step(f"{self.dataset.name}: {what}")

    def _compare_readings(self, read: DataFrame, sources: Sources) -> None:
        for (subject, uri, segment_us), reason in sources.unreadable.items():
            self._note("fragment", subject, segment_us, name=uri, stored=reason, recomputed="readable")
        lake = load_readings(self.session, self.dataset, sources.lake_files)
        found = misplaced_readings(read, lake, self.dataset).orderBy(SUBJECT, SEGMENT, URI).limit(100)
        for row in found.collect():
            self._note(
                "readings",
                row[SUBJECT],
                row[SEGMENT],
                name=row[URI],
                stored=f"{row['only_lake']} that its source has not",
                recomputed=f"{row['only_source']} that the lake has not",
            )

    def _note_sealed(self) -> None:
        for subject in self.subjects:
            own = self.sealed[subject.subject_key]
            rows = [row for row in subject.segments.get(self.dataset.name, ()) if row["segment_us"] in own]
            if rows:
                readings = sum(row["readings"] for row in rows)
                self.report.sealed.append(
                    SealedSegments(self.dataset.name, subject.subject_key, len(rows), readings)
                )

    def _is_sealed(self, row: Mapping[str, Any]) -> bool:
        return row["segment_us"] in self.sealed[row["subject_key"]]

    def _compare_segments(self, readings: DataFrame) -> None:
        rows = [row for row in self._stored("segments") if not self._is_sealed(row)]
        self.report.segments += len(rows)
        self.report.readings += sum(row["readings"] for row in rows)
        stored = stored_table(self.session, rows, SEGMENTS, self.folder / "stored-segments.parquet")
        self._compare(stored, segment_digests(readings, self.dataset), SEGMENTS, what="segment")

    def _compare_metrics(self, readings: DataFrame) -> None:
        rows = self._stored("summaries")
        self.report.bases += len(rows)
        stored = stored_table(self.session, rows, SUMMARIES, self.folder / "stored-summaries.parquet")
        summaries = self._kept(summarize(readings, self.dataset), "summaries")
        sealed = [row for row in rows if self._is_sealed(row)]
        if sealed:
            # Taken as they are stored: what is right of them has to follow from them.
            kept = stored_table(self.session, sealed, SUMMARIES, self.folder / "sealed-summaries.parquet")
            summaries = summaries.unionByName(kept.select(*summaries.columns))
        recomputed = with_bases(summaries, self.dataset.metrics)
        self._compare(self._final(stored), self._final(recomputed), SUMMARIES, what="metric")
        whole = [subject for subject, sealed in self.sealed.items() if not sealed]
        self.report.differences += history_differences(
            stored.where(~self._is_stale() & F.col("subject_key").isin(whole)),
            whole_history(readings, self.dataset),
            self.dataset,
        )

    def _compare_rollups(self, readings: DataFrame, sources: Sources) -> None:
        rows = [row for row in self._stored("rollup_parts") if not self._is_sealed(row)]
        self.report.rollup_parts += len(rows)
        stored = stored_table(self.session, rows, ROLLUP_PARTS, self.folder / "stored-rollups.parquet")
        recomputed = rollup_parts(self.session, readings, self.dataset, sources.segments)
        self._compare(stored, recomputed, ROLLUP_PARTS, what="rollup")

    def _kept(self, rows: DataFrame, name: str) -> DataFrame:
        """The rows through a file: one long plan would take Spark longer than two short ones."""
        path = str(self.folder / f"{name}.parquet")
        rows.write.parquet(path)
        return self.session.read.schema(rows.schema).parquet(path)

    def _stored(self, table: str) -> list[dict[str, Any]]:
        return [row for each in self.subjects for row in getattr(each, table).get(self.dataset.name, ())]

    def _final(self, summaries: DataFrame) -> DataFrame:
        """The summaries without the bases that are known to be stale."""
        if not self.stale:
            return summaries
        is_stale = self._is_stale()
        return summaries.withColumns({name: F.when(~is_stale, F.col(name)) for name in (*BASES, *PRIORS)})

    def _is_stale(self) -> Column:
        found = F.lit(False)
        for subject, stale_us in self.stale.items():
            ends_later = F.col("segment_us") + self.dataset.segment_us > stale_us
            found = found | ((F.col("subject_key") == subject) & ends_later)
        return found

    def _compare(
        self, stored: DataFrame, recomputed: DataFrame, comparison: Comparison, *, what: str
    ) -> None:
        for row in differing_rows(stored, recomputed, comparison):
            for column, left, right in differing_values(row, comparison):
                self._note(
                    f"{what} {column}",
                    row["subject_key"],
                    row["segment_us"],
                    name=_name_of(row),
                    channel=row.get("channel", ""),
                    stored=left,
                    recomputed=right,
                )

    def _note(
        self,
        what: str,
        subject_key: str,
        segment_us: int,
        *,
        name: str,
        stored: float | str | None,
        recomputed: float | str | None,
        channel: str = "",
    ) -> None:
        self.report.differences.append(
            Difference(
                dataset=self.dataset.name,
                subject_key=subject_key,
                what=what,
                name=name,
                channel=channel,
                segment_us=segment_us,
                stored=stored,
                recomputed=recomputed,
            )
        )


def _name_of(row: Mapping[str, Any]) -> str:
    if "rollup" in row:
        return f"{row['rollup']}.{row['aggregate']}"
    return str(row.get("metric", ""))
