"""Which subjects are recomputed when, under which definition, and files that count where they do not belong."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from disarray.control import status
from disarray.control.verification_runs import list_verified_subjects
from disarray.engine.verification.comparison import Difference
from disarray.engine.verification.progress import Progress
from disarray.engine.verification.recompute import Recompute
from disarray.engine.verification.record import Verdict
from disarray.engine.verification.selection import EVERYTHING
from disarray.engine.verification.sources import Unproven, accepted_files, dataset_of
from disarray.engine.verification.stored_page import load_page
from disarray.engine.verification.tables import table_differences
from disarray.engine.verification.verification_report import NotCompared, VerificationReport
from disarray.engine.verification.waves import Waves
from disarray.store.belonging import belonging_files
from disarray.store.definitions import KnownDefinitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from disarray.control.connections import Connection
    from disarray.control.verification import StoredSubject
    from disarray.control.verification_runs import VerifiedSubject
    from disarray.engine.runner import Runner
    from disarray.engine.verification.record import VerificationRecord
    from disarray.engine.verification.selection import Selection
    from disarray.engine.verification.stored_page import StoredPage
    from disarray.model.description.dataset import Dataset, Version
    from disarray.store.lake import Lake

SUBJECTS_AT_ONCE = 64
READINGS_AT_ONCE = 20_000_000
_NEVER = datetime.min.replace(tzinfo=UTC)


def verify(
    connection: Connection,
    runner: Runner,
    datasets: Mapping[str, Dataset],
    *,
    lake: Lake,
    subject_key: str | None = None,
    dataset: str | None = None,
    selection: Selection = EVERYTHING,
    budget_seconds: float | None = None,
    may_go_on: Callable[[], bool] = lambda: True,
    give_way: Callable[[], None] | None = None,
    record: VerificationRecord | None = None,
    on_found: Callable[[VerificationReport], object] = lambda _: None,
    on_step: Callable[[str], None] = lambda _: None,
) -> VerificationReport:
    """Recompute what is stored, or a part of it, and compare; `on_step` hears what is done next.

    With a budget, subjects that were verified longest ago come first, and none is begun that would not end in time.
    Before each page of subjects `may_go_on` is asked; before each wave of tasks `give_way` is called, which returns
    when the cores may be used.
    What is found out about a subject goes into the record at once; subjects that are in it already are left out. Before
    that `on_found` hears what is wrong with some subjects: of a run that is broken off and goes on, perhaps twice.
    """
    report = VerificationReport(is_part=not selection.is_everything or dataset is not None)
    subjects = list_verified_subjects(connection, subject_key)
    if record is not None:
        done = [each for each in subjects if each.verification_id == record.verification_id]
        report.verified_before = len(done)
        verdicts = Counter(each.verdict for each in done if each.verdict is not None)
        report.verdicts_before = {
            name: verdicts[name]
            for name in sorted(verdicts)
            if name not in (Verdict.IDENTICAL, Verdict.IDENTICAL_IN_PART)
        }
        subjects = [each for each in subjects if each.verification_id != record.verification_id]
        record.start(connection, subjects)
        if record.refusal is not None:
            on_step(f"what is found out is not written down: {record.refusal}")
    if budget_seconds is not None:
        # A part of a subject counts for those who ask for parts: whoever asks for all goes by when all was verified.
        subjects.sort(
            key=lambda each: (
                (each.verified_at if report.is_part else each.wholly_verified_at) or _NEVER,
                each.subject_key,
            )
        )
    run = _Run(
        connection,
        Waves(runner, give_way),
        datasets,
        lake=lake,
        dataset=dataset,
        selection=selection,
        report=report,
        progress=Progress(_expected_readings(subjects, selection), on_step),
        on_step=on_step,
    )
    misplaced = _misplaced(connection, datasets, subject_key=subject_key, dataset=dataset)
    begun = begun_readings = 0
    for page in _pages(subjects, is_timed=budget_seconds is not None):
        if not may_go_on():
            break
        own_readings = sum(each.readings for each in page)
        # By subjects whole: of a sample, far fewer readings are recomputed than they have.
        expected = run.progress.seconds * own_readings / max(begun_readings, 1)
        if begun and budget_seconds is not None and run.progress.seconds + expected > budget_seconds:
            break
        marks = report.marks()
        span = f"subjects {begun + 1:,} to {begun + len(page):,} of {len(subjects):,}"
        run.verify_page([each.subject_key for each in page], span)
        begun += len(page)
        begun_readings += own_readings
        found = report.since(marks)
        found.add(misplaced.about({each.subject_key for each in page}))
        if not found.is_identical():
            on_found(found)
        if record is not None:
            record.note(connection, page, found)
    report.subjects, report.subjects_left = begun, len(subjects) - begun
    report.add(misplaced)
    if record is not None:
        record.end(connection)
    return report


def _expected_readings(subjects: Sequence[VerifiedSubject], selection: Selection) -> int:
    """Of a sample about its share, or it would seem to take a hundred times as long as it does."""
    readings = sum(each.readings for each in subjects)
    return readings if selection.share is None else round(readings * selection.share)


def _pages(subjects: Sequence[VerifiedSubject], *, is_timed: bool) -> Iterator[list[VerifiedSubject]]:
    """Subjects that are verified together, so that many small ones share their jobs; few where time is short."""
    most = READINGS_AT_ONCE // 20 if is_timed else READINGS_AT_ONCE
    page: list[VerifiedSubject] = []
    for each in subjects:
        readings = sum(known.readings for known in page) + each.readings
        if page and (len(page) == SUBJECTS_AT_ONCE or readings > most):
            yield page
            page = []
        page.append(each)
    if page:
        yield page


@dataclass(slots=True)
class _Run:
    """What stays the same while one page of subjects after the other is verified."""

    connection: Connection
    waves: Waves
    datasets: Mapping[str, Dataset]
    lake: Lake = field(kw_only=True)
    dataset: str | None = field(kw_only=True)
    selection: Selection = field(kw_only=True)
    report: VerificationReport = field(kw_only=True)
    progress: Progress = field(kw_only=True)
    on_step: Callable[[str], None] = field(kw_only=True)
    _known: KnownDefinitions = field(init=False)

    def __post_init__(self) -> None:
        self._known = KnownDefinitions(self.connection, self.datasets)

    def verify_page(self, subject_keys: Sequence[str], span: str) -> None:
        """Recompute every dataset of these subjects."""
        with self.lake.scratch_folder() as folder:
            page = load_page(self.connection, subject_keys, folder, selection=self.selection)
            now_us = status.current_us(self.connection)
            held_by = {each.subject_key: _datasets_of(each, page, self.datasets) for each in page.subjects}
            for name in sorted(set().union(*held_by.values())):
                if self.dataset is not None and name != self.dataset:
                    continue
                held = [each for each in page.subjects if name in held_by[each.subject_key]]
                if name not in self.datasets:
                    reason = "no dataset of this name is described; describe it in disarray.toml"
                    self.report.not_compared += [NotCompared(name, each.subject_key, reason) for each in held]
                    continue
                # Subjects that wait for a rebuild are compared under the definition that their numbers were made with.
                for version, group in _by_version(held, name).items():
                    self._verify_dataset(self._known.of(name, version), group, page, now_us, span)

    def _verify_dataset(
        self, dataset: Dataset, subjects: Sequence[StoredSubject], page: StoredPage, now_us: int, span: str
    ) -> None:
        ready = [each for each in subjects if _is_comparable(each, dataset, self.report)]
        if not ready:
            return
        self.on_step(f"{dataset.name}: reading the files again, {span}")
        with self.lake.scratch_folder() as folder:
            recompute = Recompute(
                self.waves,
                dataset,
                ready,
                summaries=page.summaries.get(dataset.name, {}),
                rollup_rows=page.rollup_parts.get(dataset.name, {}),
                lake=self.lake,
                folder=folder,
                report=self.report,
                selection=self.selection,
                progress=self.progress,
                on_step=self.on_step,
            )
            recompute.run(now_us)
        rows = [
            row
            for each in ready
            for row in each.segments.get(dataset.name, ())
            if self.selection.takes(each.subject_key, row["segment_us"], length_us=dataset.segment_length_us)
        ]
        self.report.differences += table_differences(self.connection, dataset, rows)


def _misplaced(
    connection: Connection,
    datasets: Mapping[str, Dataset],
    *,
    subject_key: str | None,
    dataset: str | None,
) -> VerificationReport:
    """Files that count for another dataset or subject than they are about, and those that no dataset takes."""
    report = VerificationReport()
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
    return report


def _datasets_of(subject: StoredSubject, page: StoredPage, datasets: Mapping[str, Dataset]) -> set[str]:
    announced = {dataset_of(file, list(datasets.values())) for file in subject.files}
    key = subject.subject_key
    rows = {
        name for table in (page.summaries, page.rollup_parts) for name, own in table.items() if key in own
    }
    return {*subject.datasets, *rows, *(name for name in announced if name is not None)}


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
