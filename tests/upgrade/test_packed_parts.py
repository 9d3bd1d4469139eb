"""Rollup parts that were rows are packed into the blocks that a scan makes where channels differ, and lose no bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from disarray.kernels.scanning.rollup_blocks import BLOCK_PARTS, pack_parts
from disarray.kernels.scanning.rollups import ROLLUP_SCHEMA
from tests.upgrade.former import database_before, migration_named

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

pytestmark = pytest.mark.postgres

PACKING = migration_named("rollup_blocks")


@pytest.fixture
def former(server_dsn: str, template_database: str) -> Iterator[psycopg.Connection]:
    """The tables of before."""
    assert template_database, "the roles of the server are there"
    with database_before(PACKING, server_dsn) as connection:
        yield connection


def test_parts_of_a_large_segment_are_cut_as_a_scan_cuts_them(former: psycopg.Connection) -> None:
    # Names sort by bytes, as in a scan: another collation puts the capital behind.
    former.execute(
        """
        insert into disarray.rollup
        select
            'rig', 'R1', rollup, aggregate, (array['a', 'B', 'é'])[1 + place % 3] || place / 60, place / 3 % 20 * 10,
            0, place / 3 % 20 * 10 + 10, case when place % 2 = 0 then 'night' else '' end,
            place % 5 + (aggregate = 'n')::integer,
            case when aggregate = 'mean' and place % 5 > 0 then -0.1 * place end,
            case when aggregate = 'most' and place % 5 > 0 then 9223372036854775807 - place end,
            case when aggregate = 'most' and place % 5 > 0 then place end,
            case when rollup = 'spread' and aggregate = 'mean' then 5e-324 end,
            case when rollup = 'spread' and aggregate = 'mean' then 12.5 end,
            case when rollup = 'spread' and aggregate = 'mean' then 0.1 * place end
        -- A channel lacks a bucket, and points differ: a scan packs place by place as well.
        from generate_series(1, 8999) as place
        cross join unnest(array['mean', 'most', 'n']) as aggregate
        cross join unnest(array['plain', 'spread']) as rollup
        """
    )
    names = ", ".join(ROLLUP_SCHEMA.names)
    order = 'order by rollup collate "C", aggregate collate "C", channel collate "C", bucket_us'
    query = f"select {names} from disarray.rollup {order}".encode()
    before = former.execute(query).fetchall()
    assert len(before) > 3 * BLOCK_PARTS
    former.execute(PACKING.text.encode())
    assert former.execute(query).fetchall() == before

    rows = [dict(zip(ROLLUP_SCHEMA.names, row, strict=True)) for row in before]
    blocks = [block.document() for block in pack_parts(pa.Table.from_pylist(rows, schema=ROLLUP_SCHEMA))]
    assert len(blocks) == 4
    stored = former.execute(
        """
        select to_jsonb(packed) - '{dataset,subject_key}'::text[] from disarray.rollup_block as packed
        order by rollup collate "C", block
        """
    ).fetchall()
    assert [{name: value for name, value in row.items() if value is not None} for (row,) in stored] == blocks
