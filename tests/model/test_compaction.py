"""Which row groups become one: those that the same files name, and no other."""

from __future__ import annotations

import pytest

from disarray.model.compaction import PACK_FRAGMENTS, pack_groups, plan_compaction
from disarray.model.fragments import FragmentEntry, FragmentId, FragmentState


def entry(uri: str, row_group: int, *, cut: int | None = None, state: str = "active") -> FragmentEntry:
    return FragmentEntry(
        segment_us=0,
        source_uri=uri.rstrip("'"),
        generation=uri.count("'"),
        path="x.parquet",
        row_group=row_group,
        readings=10,
        first_position=row_group * 10,
        last_position=row_group * 10 + 9,
        first_us=0,
        last_us=9,
        cut_position=cut,
        state=FragmentState(state),
        fragment_id=FragmentId(row_group),
    )


@pytest.mark.parametrize(
    ("fragments", "groups"),
    [
        pytest.param([entry("a", 0), entry("a", 1)], [("a", [0, 1])], id="one-file"),
        pytest.param([entry("a", 0), entry("b", 1)], [("a", [0]), ("b", [1])], id="two-files"),
        pytest.param([entry("a", 0), entry("a'", 1)], [("a", [0]), ("a'", [1])], id="two-generations"),
        pytest.param(
            [entry("a", 0), entry("b", 0), entry("a", 1), entry("b", 1)], [("ab", [0, 1])], id="copies"
        ),
        pytest.param(
            [entry("a", 0), entry("b", 0), entry("a", 1), entry("b", 2)],
            [("a", [1]), ("ab", [0]), ("b", [2])],
            id="grown-apart",
        ),
        pytest.param([entry("a", 0), entry("a", 1, cut=15)], [("a", [0, 1])], id="cut"),
        pytest.param([entry("a", 0), entry("b", 0, cut=5), entry("a", 1)], [("a", [1])], id="cut-by-one"),
        pytest.param(
            [entry("a", 0), entry("b", 0, state="parked"), entry("a", 1)], [("a", [1])], id="parked-by-one"
        ),
        pytest.param([entry("a", 0, state="parked")], [], id="parked"),
    ],
)
def test_row_groups_are_merged_by_who_names_them(
    fragments: list[FragmentEntry], groups: list[tuple[str, list[int]]]
) -> None:
    found = [
        (
            "".join(uri + "'" * generation for uri, generation in group.files),
            [source.row_group for source in group.sources],
        )
        for group in plan_compaction(fragments)
    ]
    assert found == groups


def test_a_row_group_takes_a_bounded_number_of_fragments_and_no_file_twice() -> None:
    many = plan_compaction([entry(f"{number:05d}", number) for number in range(2 * PACK_FRAGMENTS + 1)])
    assert [len(pack) for pack in pack_groups(many)] == [PACK_FRAGMENTS, PACK_FRAGMENTS, 1]
    shared = plan_compaction([entry("a", 0), entry("b", 0), entry("a", 1), entry("b", 2), entry("c", 3)])
    for pack in pack_groups(shared):
        uris = [uri for group in pack for uri, _ in group.files]
        assert len(uris) == len(set(uris))
    assert pack_groups(()) == ()
