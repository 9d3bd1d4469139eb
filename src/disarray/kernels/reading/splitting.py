"""A file about several subjects: its rows go to one builder of fragments for each, in one pass over its bytes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disarray.errors import UnreadableFileError
from disarray.kernels.fragments.fragment_writer import Fragment, FragmentBuilder
from disarray.kernels.parsing.readings import place_in_time
from disarray.kernels.parsing.rejects import RejectReason
from disarray.model.description.format import EVENT_US, POSITION
from disarray.model.description.spec_table import MisfitError
from disarray.model.description.spec_values import subject_key
from disarray.model.fingerprints import PartMark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from disarray.kernels.fragments.fragment_writer import FragmentSink
    from disarray.kernels.parsing.candidates import Candidates
    from disarray.model.description.read_spec import ReadSpec

# A column with more values than this is no subject, and each of them would be locked, claimed and listed as one.
MAX_SUBJECTS_PER_FILE = 10_000
_MAX_SUBJECT_BYTES = 256  # that is what the database takes
# Builders together hold so much before all of them write; a builder alone keeps to its own bound.
_HELD_BYTES = 64 << 20
_MAX_FRAGMENTS_PER_FILE = 100_000


@dataclass(frozen=True, slots=True)
class PartRead:
    """What was read of one subject now, and what all of the file says of it."""

    mark: PartMark
    fragments: tuple[Fragment, ...] = ()

    @property
    def subject_key(self) -> str:
        """The subject that it is about."""
        return self.mark.subject_key


class Splitter:
    """Takes typed rows in file order and sorts them by subject; rows without one are rejected.

    With `only`, what the others say is passed over.
    """

    def __init__(
        self,
        spec: ReadSpec,
        sink: FragmentSink,
        *,
        start: Sequence[PartMark] = (),
        latest_us: int | None,
        only: str | None = None,
    ) -> None:
        assert spec.subject_column is not None
        self._spec = spec
        self._sink = sink
        self._latest_us = latest_us
        self._only = only
        self._column = spec.column_names.index(spec.subject_column)
        self._marks = {mark.subject_key: mark for mark in start}
        self._builders: dict[str, FragmentBuilder] = {}
        self._held_bytes = 0

    @property
    def marks(self) -> tuple[PartMark, ...]:
        """What the file says of each subject up to here, by subject."""
        return tuple(self._marks[subject] for subject in sorted(self._marks))

    @property
    def fragments(self) -> dict[str, tuple[Fragment, ...]]:
        """What was written, by subject."""
        return {subject: tuple(builder.fragments) for subject, builder in self._builders.items()}

    def take(
        self,
        candidates: Candidates,
        *,
        positions: NDArray[np.int64],
        reject: Callable[[NDArray[np.int64], RejectReason], None],
    ) -> Iterator[pa.Table]:
        """Sort rows by subject and place them in time, subject by subject; the readings that came of it."""
        for subject, rows in self._by_subject(candidates, reject):
            mark = self._marks.get(subject) or PartMark(subject_key=subject)
            placed = place_in_time(
                candidates.take(rows),
                self._spec,
                positions=positions,
                folds=mark.folds,
                latest_us=self._latest_us,
                reject=reject,
            )
            if placed.table.num_rows:
                self._add(replace(mark, folds=placed.folds), placed.table)
                yield placed.table

    def cut(self) -> None:
        """Write all that is held."""
        for builder in self._builders.values():
            builder.cut()
        self._held_bytes = 0

    def _by_subject(
        self, candidates: Candidates, reject: Callable[[NDArray[np.int64], RejectReason], None]
    ) -> Iterator[tuple[str, NDArray[np.int64]]]:
        encoded = pc.cast(candidates.columns[self._column], pa.string()).dictionary_encode()
        codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        texts = encoded.dictionary.to_pylist()
        subjects: dict[str, int] = {}
        number_of_code = np.full(len(texts) + 1, -1, dtype=np.int64)
        for code, text in enumerate(texts):
            with suppress(MisfitError):
                subject = subject_key(text.strip())
                if len(subject.encode()) <= _MAX_SUBJECT_BYTES:
                    number_of_code[code] = subjects.setdefault(subject, len(subjects))
        numbers = number_of_code[codes]
        if (numbers < 0).any():
            reject(candidates.rows[numbers < 0], RejectReason.NO_SUBJECT)
        # Stable: the rows of a subject stay in file order.
        order = np.argsort(numbers, kind="stable")
        edges = np.searchsorted(numbers[order], np.arange(len(subjects) + 1))
        for subject, number in subjects.items():
            if self._only is None or subject == self._only:
                yield subject, order[edges[number] : edges[number + 1]]

    def _add(self, mark: PartMark, table: pa.Table) -> None:
        subject = mark.subject_key
        event_us = table.column(EVENT_US).to_numpy()
        low_us, high_us = int(event_us.min()), int(event_us.max())
        self._marks[subject] = replace(
            mark,
            kept=mark.kept + table.num_rows,
            first_us=low_us if mark.first_us is None else min(low_us, mark.first_us),
            last_us=high_us if mark.last_us is None else max(high_us, mark.last_us),
            last_position=max(mark.last_position, int(table.column(POSITION).to_numpy().max())),
        )
        if len(self._marks) > MAX_SUBJECTS_PER_FILE:
            raise UnreadableFileError(
                f"column {self._spec.subject_column} names more than {MAX_SUBJECTS_PER_FILE:,} subjects; nothing of "
                "the file was taken. Choose another column, or cut the file into several"
            )
        builder = self._builders.get(subject)
        if builder is None:
            builder = self._builders[subject] = FragmentBuilder(self._spec, self._sink)
        self._held_bytes -= builder.held_bytes
        builder.add(table)
        self._held_bytes += builder.held_bytes
        if self._held_bytes >= _HELD_BYTES:
            self.cut()
            if sum(len(each.fragments) for each in self._builders.values()) > _MAX_FRAGMENTS_PER_FILE:
                raise UnreadableFileError(
                    f"makes more than {_MAX_FRAGMENTS_PER_FILE:,} fragments of its subjects and segments; choose a "
                    "longer segment for the dataset"
                )


def with_cut_parts(
    marks: Sequence[PartMark],
    fragments: Mapping[str, tuple[Fragment, ...]],
    *,
    stored: Sequence[PartMark],
    seam_position: int,
) -> tuple[PartRead, ...]:
    """What has to be done about which subject: it was read, or what it said after the seam is no longer said."""
    after = {mark.subject_key: mark for mark in marks}
    cut = {mark.subject_key for mark in stored if mark.last_position >= seam_position}
    return tuple(
        PartRead(after.get(subject) or PartMark(subject_key=subject), fragments.get(subject, ()))
        for subject in sorted({subject for subject, own in fragments.items() if own} | cut)
    )


def joined_marks(before: Sequence[PartMark], after: Sequence[PartMark]) -> tuple[PartMark, ...]:
    """Marks that were counted from a later point, counted from the first one's."""
    known = {mark.subject_key: mark for mark in before}
    for mark in after:
        old = known.get(mark.subject_key)
        if old is None:
            known[mark.subject_key] = mark
            continue
        known[mark.subject_key] = replace(
            mark,
            kept=old.kept + mark.kept,
            first_us=min((us for us in (old.first_us, mark.first_us) if us is not None), default=None),
            last_us=max((us for us in (old.last_us, mark.last_us) if us is not None), default=None),
            last_position=max(old.last_position, mark.last_position),
        )
    return tuple(known[subject] for subject in sorted(known))
