"""Destinations: what is loaded where, as the `[[destination]]` tables of disarray.toml say it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from disarray.model.duration import DAY, HOUR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.model.description.dataset import Dataset
    from disarray.model.description.metrics import Metric
    from disarray.model.description.rollups import Rollup
    from disarray.model.description.secret import SecretSource


class Content(StrEnum):
    """What a destination holds."""

    READINGS = "readings"
    ROLLUP = "rollup"
    METRIC = "metric"  # at regular instants
    NEWEST = "newest"  # the newest value of each metric


class Load(StrEnum):
    """How rows come into the target."""

    UPSERT = "upsert"
    APPEND = "append"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class TableTarget:
    """A table in PostgreSQL: of this database where there is no url."""

    schema: str
    table: str
    url: SecretSource | None = None

    @property
    def shown(self) -> str:
        """How messages name it."""
        if self.url is None:
            return f"{self.schema}.{self.table} in this database"
        # Not the words of a SecretSource: this text is stored, and another text would be another target.
        origin = f"environment {self.url.env}" if self.url.env else f"file {self.url.file}"
        return f"{self.schema}.{self.table} in the database of {origin}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAccess:
    """How a bucket is reached. One target under other keys is the same target."""

    endpoint: str
    region: str
    access_key: SecretSource = field(compare=False)
    secret_key: SecretSource = field(compare=False)


@dataclass(frozen=True, slots=True)
class DeltaTarget:
    """A Delta table in a folder, or in a bucket: then `path` is `s3://bucket/prefix`."""

    path: str
    access: BucketAccess | None = None

    @property
    def bucket(self) -> str:
        """The bucket; empty for a folder."""
        return "" if self.access is None else self.path.removeprefix("s3://").partition("/")[0]

    @property
    def shown(self) -> str:
        """How messages name it."""
        where = "" if self.access is None else f" at {self.access.endpoint}"
        return f"Delta table {self.path}{where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """One destination. `columns` are theirs → ours, none where all have our names."""

    name: str
    content: Content
    dataset: Dataset
    target: TableTarget | DeltaTarget
    load: Load
    subjects: tuple[str, ...] = ("*",)
    rollup: Rollup | None = None
    metric: Metric | None = None
    every_us: int = HOUR
    columns: Mapping[str, str] | None = None
    creates: bool = False
    keep_superseded_us: int = 7 * DAY

    @property
    def content_name(self) -> str:
        """The dataset, with the rollup or metric of it."""
        part = self.rollup or self.metric
        return self.dataset.name if part is None else f"{self.dataset.name}.{part.name}"
