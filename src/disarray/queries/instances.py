"""Workers by name: what each serves and holds, and whether it may claim."""

from dataclasses import dataclass
from datetime import datetime

from disarray.control import instances
from disarray.control.connections import Connection
from disarray.control.instances import InstanceState
from disarray.model.documents import document_of
from disarray.queries.pages import Order

ORDER = Order("instances", {"instance_name": str})


@dataclass(frozen=True, kw_only=True)
class Instance:
    """A worker, what it holds now, and whether it claims."""

    instance_name: str
    incarnation: int
    state: InstanceState
    paused_at: datetime | None
    subject_patterns: list[str]
    registered_at: datetime
    last_seen_at: datetime
    held_subjects: int
    claimed_items: int


@dataclass(frozen=True)
class Instances:
    """Every worker that ever registered; `next` is the cursor of the next page, null on the last."""

    instances: list[Instance]
    next: str | None


def list_instances(connection: Connection, *, limit: int = 100, after: str | None = None) -> Instances:
    """Every worker that ever registered, by name."""
    found, following = ORDER.page_of(instances.list_instances(connection), after=after, limit=limit)
    return Instances([document_of(Instance, each) for each in found], following)
