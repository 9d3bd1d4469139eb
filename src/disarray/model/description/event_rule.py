"""How events of programs become readings of a dataset: the `events` table of a `[[dataset]]`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from disarray.model.description.spec_table import MisfitError
from disarray.model.description.spec_values import several, subject_key, text

if TYPE_CHECKING:
    from disarray.model.description.spec_table import Table


@dataclass(frozen=True, slots=True)
class EventRule:
    """Which fields of an event name its subject and tell it from others; dotted paths lead into nested objects."""

    subject: str
    id: tuple[str, ...] = ()  # none: two events are the same where all of them is

    def subject_of(self, payload: str) -> str:
        """The subject that an event names; `MisfitError` where it names none."""
        value: Any = json.loads(payload)
        for name in self.subject.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        return subject_key(value)


def read_event_rule(table: Table) -> EventRule:
    """The `events` table of a dataset."""
    rule = EventRule(
        subject=table.required("subject", _path, ""), id=table.optional("id", several(_path), ())
    )
    table.close()
    return rule


def _path(value: object) -> str:
    path = text(value)
    if not all(path.split(".")):
        raise MisfitError("the name of a field, or names with dots between")
    return path
