"""Subjects whose numbers were made under another definition of their dataset, and how they come to the one in force."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from disarray.control import definitions
from disarray.control.queue import Lane
from disarray.errors import RebuildBlockedError, SubjectMissingError
from disarray.kernels.reading.outcome import ReadStatus
from disarray.model.description.dataset import OnShrink, SubjectKind
from disarray.model.description.scan_spec import scan_spec_of
from disarray.model.description.versions import scan_version, unchanged_names
from disarray.model.fingerprints import ORIGIN
from disarray.model.matching import match_file, subject_of
from disarray.model.plan import RebuildStep
from disarray.model.seam import Change, Replacement, Seam, judge_replacement

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from disarray.control.catalog import SegmentEntry
    from disarray.control.connections import Connection
    from disarray.kernels.reading.outcome import ReadOutcome
    from disarray.model.description.dataset import Dataset, Version
    from disarray.model.fingerprints import Fingerprint
    from disarray.model.fragments import FragmentEntry
    from disarray.worker.passes.assignment import Assignment
    from disarray.worker.passes.work import Work

SubjectOfDataset = tuple[str, str]  # dataset, subject

SHOWN_FILES = 10
PORTION_READINGS = 20_000_000
# Whoever changes a file waits for the portion that is under way: a second of work where nothing came lately, and
# hardly more than the start of a job where something did.
QUIET_READINGS_A_CORE = 1_000_000
BUSY_READINGS_A_CORE = 125_000
# How long items wait whose subject cannot be rebuilt: `disarray rebuild`, or any other item, tries at once.
BLOCKED_SECONDS = 1500


@dataclass(frozen=True, slots=True)
class Rebuild:
    """One subject on its way from the definition `before` to the one in force; `files` are read again."""

    dataset: Dataset
    before: Dataset
    subject_key: str
    files: Mapping[str, Fingerprint]
    readings: int = 0  # about how many it has to look at

    @property
    def key(self) -> SubjectOfDataset:
        """What it is about."""
        return self.dataset.name, self.subject_key

    @property
    def reads_files(self) -> bool:
        """Whether the fragments themselves are of no use any more."""
        return self.before.parse_version != self.dataset.parse_version

    @property
    def scans_nothing(self) -> bool:
        """Whether the change does not concern this subject, such as an attribute of another one."""
        rules_are_the_same = scan_version(self.before) == self.before.scan_version
        return (
            rules_are_the_same
            and not self.reads_files
            and scan_spec_of(self.before, self.subject_key) == scan_spec_of(self.dataset, self.subject_key)
        )

    @property
    def step(self) -> RebuildStep:
        """What the commit has to know."""
        return RebuildStep(
            before=self.before.version,
            kept_metrics=tuple(unchanged_names(self.before.metrics, self.dataset.metrics)),
            kept_rollups=tuple(unchanged_names(self.before.rollups, self.dataset.rollups)),
        )

    def segments_to_scan(self, segments: Sequence[SegmentEntry]) -> list[int]:
        """The segments whose readings are kept. A sealed one keeps the numbers that mean the same, and no others."""
        sealed = [segment for segment in segments if segment.is_sealed]
        if sealed and self.before.segment_length_us != self.dataset.segment_length_us:
            raise RebuildBlockedError(
                f"{len(sealed)} segments have numbers alone, their readings are no longer kept, and segments of "
                "another length cannot be made of them. Restore the length of segments, or give the changed "
                "definition a new dataset name"
            )
        if self.scans_nothing:
            return []
        return [segment.segment_us for segment in segments if not segment.is_sealed]


def due_rebuilds(
    connection: Connection, assignments: Sequence[Assignment]
) -> dict[SubjectOfDataset, Rebuild]:
    """The subjects of a batch that wait for the definition in force: whatever is done to them moves them first."""
    wanted = {
        (each.dataset.name, each.item.subject_key): each.dataset
        for each in assignments
        if each.dataset is not None
    }
    made = definitions.load_subject_versions(connection, sorted({subject for _, subject in wanted}))
    known: dict[tuple[str, Version], Dataset] = {}
    due = {}
    for (name, subject), dataset in wanted.items():
        version = made[name, subject].version if (name, subject) in made else dataset.version
        if version == dataset.version:
            continue
        if (name, version) not in known:
            known[name, version] = definitions.load_definition(connection, name, version)
        is_parse_change = version.parse != dataset.parse_version
        files = definitions.load_rebuild_files(connection, name, subject) if is_parse_change else {}
        waiting = definitions.list_rebuilds(connection, dataset=name, subject_key=subject)
        readings = sum(each.readings for each in waiting)
        due[name, subject] = Rebuild(dataset, known[name, version], subject, files, readings)
    return due


def in_portions(
    assignments: Sequence[Assignment],
    readings: Mapping[SubjectOfDataset, int],
    *,
    cores: int,
    is_busy: bool,
) -> list[list[Assignment]]:
    """The work of a batch, whole subjects at a time, live orders first, cut where readings add up to enough."""
    weights: dict[str, int] = defaultdict(int)
    for (_, subject), count in readings.items():
        weights[subject] += count
    by_subject: dict[str, list[Assignment]] = defaultdict(list)
    for each in assignments:
        by_subject[each.item.subject_key].append(each)
    most = min(PORTION_READINGS, (BUSY_READINGS_A_CORE if is_busy else QUIET_READINGS_A_CORE) * cores)
    portions: list[list[Assignment]] = [[]]
    held = 0
    for subject in sorted(
        by_subject, key=lambda subject: (is_backfill(by_subject[subject]), weights[subject])
    ):
        own = by_subject[subject]
        is_next_lane = is_backfill(own) and not is_backfill(portions[-1])
        if portions[-1] and (is_next_lane or held + weights[subject] > most):
            portions.append([])
            held = 0
        portions[-1] += own
        held += weights[subject]
    return [portion for portion in portions if portion]


def is_backfill(assignments: Sequence[Assignment]) -> bool:
    """Whether nobody waits for any of it."""
    return all(each.item.lane is Lane.BACKFILL for each in assignments)


def blocked_by_failures(
    work: Sequence[Work], rebuilds: Mapping[SubjectOfDataset, Rebuild]
) -> dict[SubjectOfDataset, RebuildBlockedError]:
    """Rebuilds that need a file whose own item failed: without it, its readings would be lost."""
    lost: dict[SubjectOfDataset, dict[str, str]] = {}
    for each in work:
        key = each.assignment.dataset_subject
        rebuild = None if key is None else rebuilds.get(key)
        if rebuild is not None and each.failure is not None and each.item.source_uri in rebuild.files:
            lost.setdefault(rebuild.key, {})[each.item.file_uri] = each.failure
    return {key: lost_files(files) for key, files in lost.items()}


def moved_files(rebuild: Rebuild, outcomes: Mapping[str, ReadOutcome]) -> dict[str, str]:
    """Files that are about another subject under the definition in force, or as they are now, and which."""
    rule = rebuild.dataset.subject
    if rebuild.before.subject == rule and rule.kind is not SubjectKind.PREAMBLE:
        return {}
    moved, lost = {}, {}
    for uri in rebuild.files:
        found = outcomes[uri].fingerprint if uri in outcomes else None
        try:
            match = match_file(uri, [rebuild.dataset])
            if match is None or found is None:
                continue
            subject = subject_of(uri, match, dict(found.end.state.fields))
        except SubjectMissingError as error:
            lost[uri] = str(error)
            continue
        if subject != rebuild.subject_key:
            moved[uri] = subject
    if lost:
        raise lost_files(lost)
    return moved


def refuse_lost_readings(
    rebuild: Rebuild,
    outcomes: Mapping[str, ReadOutcome],
    known: Sequence[FragmentEntry],
    *,
    removed: Collection[str],
    asked_for: Collection[str],
    earlier: Collection[str] = (),
) -> None:
    """Refuse a rebuild that would lose what counts now because its source says it no more.

    Somebody wants the files in `removed` gone, and those in `asked_for` as they are now. Those in `earlier` are about
    another subject since they were replaced.
    """
    lost = {uri: "an earlier generation of it is gone" for uri in earlier if uri not in removed}
    for uri, stored in rebuild.files.items():
        if uri not in removed:
            outcome = outcomes.get(uri)
            loss = _loss(stored, outcome, rebuild.dataset, is_asked_for=uri in asked_for)
            lost |= {} if loss is None else {uri: loss}
    for fragment in known:
        uri = fragment.source_uri
        stored_now = rebuild.files.get(uri)
        if stored_now is not None and uri not in removed and fragment.generation != stored_now.generation:
            lost[uri] = "an earlier generation of it is gone"
    if lost:
        raise lost_files(lost)


def lost_files(lost: Mapping[str, str]) -> RebuildBlockedError:
    """Which files cannot be read again and why, and the ways out."""
    shown = "; ".join(f"{uri} ({reason})" for uri, reason in sorted(lost.items())[:SHOWN_FILES])
    more = f" and {len(lost) - SHOWN_FILES} more" if len(lost) > SHOWN_FILES else ""
    return RebuildBlockedError(
        f"{len(lost)} of its files cannot be read again: {shown}{more}. Restore them; or blacklist them, and their "
        "readings go with the rebuild (allowed again, a file counts as it is then)"
    )


def blocked_message(rebuild: Rebuild, error: RebuildBlockedError) -> str:
    """The error with all that an operator needs."""
    name, subject = rebuild.key
    return (
        f"{subject} waits for its rebuild under the new definition of dataset '{name}': {error}. Its old numbers "
        f"are served until then. Afterwards run: disarray rebuild --dataset {name} --subject {subject}"
    )


def _loss(
    stored: Fingerprint, outcome: ReadOutcome | None, dataset: Dataset, *, is_asked_for: bool
) -> str | None:
    """What a file that was read again no longer says, None where it says as much as before."""
    if outcome is None:
        return "it was not read"
    found = outcome.fingerprint
    if outcome.status is not ReadStatus.READ or found is None:
        return outcome.message or outcome.status.value
    if is_asked_for or found.content_hash == stored.content_hash:
        return None
    whole_blocks = max(len(stored.hashes) - 1, 0)
    if found.size > stored.size and found.hashes[:whole_blocks] == stored.hashes[:whole_blocks]:
        return None
    replacement = judge_replacement(
        stored,
        Seam(Change.REWRITTEN, ORIGIN),
        kept=found.counts.kept,
        first_us=found.first_us,
        last_us=found.last_us,
    )
    if replacement is Replacement.NEW_GENERATION:
        return "it was replaced, and what it said before is gone"
    if replacement is Replacement.TAKES_READINGS_AWAY and dataset.on_shrink is OnShrink.PARK:
        return "it was replaced by a version that says less"
    return None
