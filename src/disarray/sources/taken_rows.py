"""The rows of one extract: taken up to a limit, counted, and parted by subject."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from disarray.control.deliveries import BatchCounts
from disarray.errors import SourceKeyError
from disarray.model.description.spec_values import LONGEST_SUBJECT_BYTES
from disarray.sources.table_pages import BEYOND, TRANSACTION

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from disarray.model.description.table_source import TableSource

# What the rows of one extract may take in memory, whatever its limit says.
MOST_BYTES = 64 << 20
_SUBJECT = "__subject"
_LONGEST_SUBJECT = 200


@dataclass(slots=True)
class TakenRows:
    """Takes rows of pages until there are enough."""

    source: TableSource
    limit: int
    is_by_key: bool = False  # whether pages come in the order of the key, in which equal ones are neighbours
    notices: list[str] = field(default_factory=list)
    seen: int = 0
    rejected: int = 0
    taken: int = 0
    _parts: list[pa.Table] = field(default_factory=list)
    _bytes: int = 0

    @property
    def is_full(self) -> bool:
        """Whether the extract ends here."""
        return self.taken >= self.limit or self._bytes >= MOST_BYTES

    @property
    def counts(self) -> BatchCounts:
        """What became of the rows."""
        return BatchCounts(
            seen=self.seen,
            taken=self.taken,
            duplicate=self.seen - self.taken - self.rejected,
            rejected=self.rejected,
        )

    def add(self, page: pa.Table, fresh: NDArray[np.bool_]) -> int:
        """Take the fresh rows of a page as far as there is room; how many rows of the page that is."""
        subjects, is_subject = _subjects(page, self.source)
        refused = fresh & ~is_subject
        if BEYOND in page.column_names:
            beyond = page.column(BEYOND).fill_null(False).to_numpy().astype(bool)
            refused |= fresh & beyond
        wanted = np.flatnonzero(fresh & ~refused)
        room = self.limit - self.taken
        used = page.num_rows if len(wanted) <= room else int(wanted[room - 1]) + 1
        wanted = wanted[:room]
        if refused[:used].any():
            self._refuse(page, int(np.flatnonzero(refused)[0]), int(refused[:used].sum()))
        self.seen += used
        self.taken += len(wanted)
        if len(wanted):
            hidden = [name for name in (TRANSACTION, BEYOND) if name in page.column_names]
            part = page.drop_columns(hidden).append_column(_SUBJECT, subjects).take(pa.array(wanted))
            self._parts.append(part)
            self._bytes += part.nbytes
        return used

    def by_subject(self) -> dict[str, pa.Table]:
        """The rows of each subject in the order in which they were read."""
        if not self._parts:
            return {}
        rows = _together(self._parts)
        if not self.is_by_key:
            self._refuse_equal_keys(rows)
        subjects = rows.column(_SUBJECT).combine_chunks().dictionary_encode()
        rows = rows.drop_columns([_SUBJECT])
        indices = subjects.indices.to_numpy()
        order = np.argsort(indices, kind="stable")
        ends = np.cumsum(np.bincount(indices, minlength=len(subjects.dictionary)))
        return {
            subject: rows.take(pa.array(order[begin:end]))
            for subject, begin, end in zip(
                subjects.dictionary.to_pylist(), (0, *ends[:-1].tolist()), ends.tolist(), strict=True
            )
        }

    def _refuse(self, page: pa.Table, row: int, count: int) -> None:
        self.rejected += count
        key = ", ".join(f"{name} = {page.column(name)[row].as_py()}" for name in self.source.key)
        self.notices.append(
            "rows without a usable subject, or with a time before year 1 or after 9999, are not taken; "
            f"the first: {key}"
        )

    def _refuse_equal_keys(self, rows: pa.Table) -> None:
        counted = rows.group_by(list(self.source.key)).aggregate([([], "count_all")])
        twice = counted.filter(pc.greater(counted.column("count_all"), 1))
        if twice.num_rows:
            key = ", ".join(f"{name} = {twice.column(name)[0].as_py()}" for name in self.source.key)
            raise SourceKeyError.of(self.source.name, f"its key is not unique: {key} is there more than once")


def _subjects(page: pa.Table, source: TableSource) -> tuple[Any, NDArray[np.bool_]]:
    if source.subject.column is None:
        constant = pa.repeat(pa.scalar(source.subject.constant, pa.string()), page.num_rows)
        return constant, np.ones(page.num_rows, dtype=bool)
    subjects = page.column(source.subject.column).cast(pa.string())
    length = pc.utf8_length(subjects)
    # As `subject_key` reads one: the database would refuse the whole batch for one that is too long for it.
    is_short = pc.and_(
        pc.less_equal(length, _LONGEST_SUBJECT),
        pc.less_equal(pc.binary_length(subjects), LONGEST_SUBJECT_BYTES),
    )
    usable = pc.and_(pc.and_(pc.greater(length, 0), is_short), pc.utf8_is_printable(subjects))
    return subjects, usable.fill_null(False).to_numpy(zero_copy_only=False)


def _together(parts: list[pa.Table]) -> pa.Table:
    """All parts as one; a column of which they disagree (SQLite keeps whatever it is given) becomes text."""
    names = parts[0].column_names
    differing = [name for name in names if len({part.schema.field(name).type for part in parts}) > 1]
    for name in differing:
        parts = [
            part.set_column(part.column_names.index(name), name, part.column(name).cast(pa.string()))
            for part in parts
        ]
    return pa.concat_tables(parts)
