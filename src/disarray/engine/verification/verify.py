"""Which subjects are recomputed under which definition, and files that count where they do not belong."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from disarray.control import status, verification
from disarray.engine.verification.comparison import Difference
from disarray.engine.verification.recompute import Recompute
from disarray.engine.verification.sources import Unproven, accepted_files, dataset_of
from disarray.engine.verification.stored_page import load_page
from disarray.engine.verification.tables import table_differences
from disarray.engine.verification.verification_report import NotCompared, VerificationReport
from disarray.store.belonging import belonging_files
from disarray.store.definitions import KnownDefinitions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from disarray.control.connections import Connection
    from disarray.control.verification import StoredSubject
    from disarray.engine.runner import Runner
    from disarray.engine.verification.stored_page import StoredPage
    from disarray.model.description.dataset import Dataset, Version
    from disarray.store.lake import Lake

SUBJECTS_AT_ONCE = 64


def verify(
    connection: Connection,
    runner: Runner,
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
        keys = subjects[start : start + SUBJECTS_AT_ONCE]
        span = f"subjects {start + 1:,} to {start + len(keys):,} of {len(subjects):,}"
        with lake.scratch_folder() as folder:
            page = load_page(connection, keys, folder)
            now_us = status.current_us(connection)
            for name in sorted(set().union(*(_datasets_of(each, page, datasets) for each in page.subjects))):
                if dataset is not None and name != dataset:
                    continue
                held = [each for each in page.subjects if name in _datasets_of(each, page, datasets)]
                if name not in datasets:
                    reason = "no dataset of this name is described; describe it in disarray.toml"
                    report.not_compared += [NotCompared(name, each.subject_key, reason) for each in held]
                    continue
                # Subjects that wait for a rebuild are compared under the definition that their numbers were made with.
                for version, group in _by_version(held, name).items():
                    defined = known.of(name, version)
                    ready = [each for each in group if _is_comparable(each, defined, report)]
                    if not ready:
                        continue
                    on_step(f"{name}: reading the files again, {span}")
                    with lake.scratch_folder() as own_folder:
                        recompute = Recompute(
                            runner,
                            defined,
                            ready,
                            summaries=page.summaries.get(name, {}),
                            rollup_rows=page.rollup_parts.get(name, {}),
                            lake=lake,
                            folder=own_folder,
                            report=report,
                            on_step=on_step,
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
