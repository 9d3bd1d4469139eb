"""Workers by name, their lives, and the subjects that they serve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from disarray.control.calls import call, fetch_records, fetch_value, find_value
from disarray.control.metadata import Metadata, as_jsonb
from disarray.control.queue import Holder, Incarnation

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from disarray.control.connections import Connection


class InstanceState(StrEnum):
    """Whether an instance claims; paused outlasts a restart, draining ends with the life that drains."""

    ACTIVE = "active"
    PAUSED = "paused"
    DRAINING = "draining"


@dataclass(frozen=True)
class Instance:
    """An instance as a person sees it in a listing."""

    instance_name: str
    incarnation: Incarnation
    subject_patterns: list[str]
    registered_at: datetime
    last_seen_at: datetime
    held_subjects: int
    claimed_items: int
    state: InstanceState
    paused_at: datetime | None


def register_instance(
    connection: Connection,
    instance_name: str,
    *,
    subject_patterns: Sequence[str] | None = None,
    metadata: Metadata | None = None,
) -> Holder:
    """Begin a new life under a name; claims of its former life go back at once, and that life is fenced."""
    incarnation = fetch_value(
        connection,
        int,
        "select disarray.register_instance(%s, %s::text[], %s)",
        (
            instance_name,
            list(subject_patterns) if subject_patterns is not None else None,
            as_jsonb(metadata or {}),
        ),
    )
    return Holder(instance_name, Incarnation(incarnation))


def register_command(connection: Connection, name: str) -> Holder:
    """Begin a life of a command that holds sources, messages or jobs: it serves no subject, and is no worker."""
    return register_instance(connection, name, metadata={"is_command": True})


def bind_instance(
    connection: Connection, instance_name: str, subject_patterns: Sequence[str], *, by: str
) -> None:
    """Change which subjects an instance serves."""
    call(
        connection,
        "select disarray.bind_instance(%s, %s::text[], %s)",
        (instance_name, list(subject_patterns), by),
    )


def list_instances(connection: Connection) -> list[Instance]:
    """Every worker that ever registered, with what it holds now."""
    found = fetch_records(connection, Instance, "select * from disarray.list_instances()")
    return [replace(known, state=InstanceState(known.state)) for known in found]


def instance_state(connection: Connection, instance_name: str) -> InstanceState | None:
    """Whether an instance claims, which tells why it was given nothing; None where it never registered."""
    state = find_value(connection, str, "select disarray.instance_state(%s)", (instance_name,))
    return None if state is None else InstanceState(state)


def pause_instance(connection: Connection, instance_name: str, *, reason: str, by: str) -> None:
    """Let an instance claim nothing until it is resumed; it finishes what it has, and no claim comes after this."""
    call(connection, "select disarray.pause_instance(%s, %s, %s)", (instance_name, reason, by))


def drain_instance(connection: Connection, instance_name: str, *, reason: str, by: str) -> None:
    """Let this life of an instance finish what it has and claim nothing more."""
    call(connection, "select disarray.drain_instance(%s, %s, %s)", (instance_name, reason, by))


def resume_instance(connection: Connection, instance_name: str, *, reason: str, by: str) -> None:
    """Let an instance that is paused or draining claim again."""
    call(connection, "select disarray.resume_instance(%s, %s, %s)", (instance_name, reason, by))
