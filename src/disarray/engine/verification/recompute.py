"""An independent recompute of everything that is stored: from the files, in other code than the kernels.

The parser is the one of the pipeline, run over whole files; order, keys, expressions, folds, bases and rollup parts
are Spark's window functions. What comes out must be what is stored, bit for bit; and one plain window over each whole
history must agree to within rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812

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
from disarray.engine.verification.sources import gather_sources
from disarray.engine.verification.verification_report import NotCompared, SealedSegments
from disarray.engine.verification.whole_history import history_differences

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from disarray.control.verification import StoredSubject
    from disarray.engine.verification.sources import Sources
    from disarray.engine.verification.verification_report import VerificationReport
    from disarray.model.description.dataset import Dataset
    from disarray.store.lake import Lake


class Recompute:
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
            ends_later = F.col("segment_us") + self.dataset.segment_length_us > stale_us
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
