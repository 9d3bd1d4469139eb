"""A plant with views over its readings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control import instances
from disarray.sinks.views import Refreshed, ViewPlan, ViewRefresher, apply_view, load_views
from tests.plant import Plant
from tests.store.conftest import DATASET, in_store
from tests.store.test_values import rows_of, write

if TYPE_CHECKING:
    from pathlib import Path

VIEW = """
[[view]]
name = "{name}"
file = "{name}.sql"
key = ["subject_key"]
depends_on = {depends_on}
at_most_every = "1 min"
"""
COUNTS = "select subject_key, count(*) as readings\nfrom cells_running\ngroup by subject_key;\n"


class ViewPlant(Plant):
    """Readings in a table, and views that count them."""

    def __init__(self, root: Path, dsn: str) -> None:
        super().__init__(root, dsn, description=in_store(DATASET, "timescale"))
        self.root = root
        self.dsn = dsn
        self.views: dict[str, str] = {}

    def declare(
        self, name: str = "counts", *, query: str = COUNTS, depends_on: str = '["cells"]', **changes: str
    ) -> None:
        """Write a view into disarray.toml, and its file beside it."""
        text = VIEW.format(name=name, depends_on=depends_on)
        for before, after in changes.items():
            text = text.replace(f"{before} = ", f"{before} = {after} # ")
        self.views[name] = text
        (self.root / f"{name}.sql").write_text(query)
        self.description.write_text(in_store(DATASET, "timescale") + "".join(self.views.values()))

    def apply(self) -> list[ViewPlan]:
        """Apply all that is declared."""
        with self.pool.connection() as connection:
            return [apply_view(connection, each, by="tester") for each in load_views(self.description)]

    def refresher(self, name: str = "Worker02") -> ViewRefresher:
        """A worker that refreshes views."""
        with self.pool.connection() as connection:
            return ViewRefresher(self.pool, instances.register_instance(connection, name))

    def refresh(self) -> list[Refreshed]:
        """Let a worker refresh what is due."""
        return list(self.refresher().refresh_due())

    def add_file(self, number: int, subject: str = "C1") -> None:
        """A file of fifty readings that is news."""
        self.ingest(write(self, f"{subject}/{number}.csv", rows_of(number, hours=(number,))))

    def advance(self, minutes: int) -> None:
        """Let the database's clock jump."""
        self.rows(f"update disarray.test_clock set ahead = ahead + interval '{minutes} min' returning 1")

    def counted(self, view: str = "telemetry.counts") -> dict[object, object]:
        """What a view says."""
        return dict(self.rows(f"select subject_key, readings from {view} order by 1"))  # type: ignore[arg-type]
