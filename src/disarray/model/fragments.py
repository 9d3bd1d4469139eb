"""Fragments and the files that they lie in, as the catalog knows them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NewType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FragmentId = NewType("FragmentId", int)
Extent = tuple[str, int, int | None]  # file of the lake, row group, first row in it


@dataclass(frozen=True, kw_only=True)
class LakeFile:
    """A Parquet file that fragments lie in; in the catalog its path is relative to the lake."""

    path: str
    bytes: int
    checksum: str


class FragmentState(StrEnum):
    """Whether a fragment counts."""

    ACTIVE = "active"
    PARKED = "parked"
    REJECTED = "rejected"
    SEALED = "sealed"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentEntry:
    """A fragment as the catalog knows it, or will know it: `fragment_id` is None until it is committed."""

    segment_us: int
    source_uri: str
    generation: int
    path: str
    row_group: int
    readings: int
    first_position: int
    last_position: int
    first_us: int
    last_us: int
    cut_position: int | None = None
    state: FragmentState = FragmentState.ACTIVE
    contradicts: bool = False  # parked because another file says something else under its keys
    arrival: int = 0  # when its file was first announced, by number; 0 where the dataset does not ask
    fragment_id: FragmentId | None = None
    digest: str | None = None  # of the bytes of its row group and of the footer of its file
    file_checksum: str | None = None  # of the whole file, where there is no digest
    first_row: int | None = None  # in a row group that it shares with others; None: all of it is its own

    @property
    def extent(self) -> Extent:
        """Where its readings lie in the lake."""
        return self.path, self.row_group, self.first_row

    @property
    def end_position(self) -> int:
        """The last position in its file that was not cut off."""
        return self.last_position if self.cut_position is None else self.cut_position - 1

    @property
    def order_key(self) -> str:
        """What stands for the uri in the canonical order: a later generation of a file comes after an earlier one."""
        return f"{self.source_uri}\0{self.generation:08d}"

    @property
    def precedence(self) -> tuple[int, bytes]:
        """The greater wins where files say the same."""
        return self.arrival, self.order_key.encode()


def restored_state(
    fragment: FragmentEntry, before: Sequence[FragmentEntry], *, otherwise: FragmentState
) -> FragmentState:
    """What a part of a file counts for that is allowed again and was read anew: the same as before."""
    states = former_states(fragment, before)
    if len(states) > 1:
        # In one segment with what waits or was rejected: an operator is asked again.
        return FragmentState.PARKED
    return next(iter(states), otherwise)


def as_released(before: Iterable[FragmentEntry]) -> list[FragmentEntry]:
    """What an operator saw who released a file: what was parked counts, what was rejected stays so."""
    return [
        replace(old, state=FragmentState.ACTIVE) if old.state is FragmentState.PARKED else old
        for old in before
    ]


def former_states(fragment: FragmentEntry, before: Iterable[FragmentEntry]) -> set[FragmentState]:
    """The states of those of some older fragments of a file that say what this one says now."""
    kept = [old for old in before if old.state is not FragmentState.SEALED]
    # Times tell the old fragments apart, unless it is the times that are read differently now: then positions do.
    return {old.state for old in kept if meets_in_time(old, fragment)} or {
        old.state for old in kept if _meets_in_file(old, fragment)
    }


def counts_for_ever(
    fragment: FragmentEntry, *, there: Iterable[FragmentEntry], here: Iterable[FragmentEntry]
) -> bool:
    """Whether a part of a file counts in a sealed segment of what the file was about, where it would count twice.

    `there` is what the file says of others, `here` what it said of this one: what counts although it does so there was
    released by an operator.
    """
    is_sealed = any(old.state is FragmentState.SEALED and meets_in_time(old, fragment) for old in there)
    return is_sealed and former_states(fragment, here) != {FragmentState.ACTIVE}


def meets_in_time(old: FragmentEntry, new: FragmentEntry) -> bool:
    """Whether two fragments have a time in common."""
    return old.first_us <= new.last_us and new.first_us <= old.last_us


def _meets_in_file(old: FragmentEntry, new: FragmentEntry) -> bool:
    return old.first_position <= new.last_position and new.first_position <= old.last_position
