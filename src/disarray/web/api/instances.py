"""Workers by name: what each serves and holds, and whether it may claim."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from disarray.control import instances
from disarray.control.instances import InstanceState
from disarray.web.parameters import Reason
from disarray.web.route import API, Call, Nothing, Route, Scope
from disarray.web.schema import PLAIN, About

InstanceName = Annotated[
    str, About(text="The name of a worker.", min_length=1, max_length=128, pattern=PLAIN)
]


@dataclass(frozen=True, kw_only=True)
class Instance:
    """A worker, what it holds now, and whether it claims."""

    instance: str
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
    """Every instance that ever registered."""

    instances: list[Instance]


@dataclass(frozen=True)
class InstanceDecision:
    """Which instance, and why."""

    instance: InstanceName
    reason: Reason


@dataclass(frozen=True)
class InstanceTold:
    """How the instance stands now; it learns of it with its next claim."""

    instance: str
    state: InstanceState


def list_instances(call: Call, _: Nothing) -> Instances:
    """Every instance that ever registered."""
    return Instances(
        [
            Instance(
                instance=each.instance_name,
                incarnation=each.incarnation,
                state=each.state,
                paused_at=each.paused_at,
                subject_patterns=each.subject_patterns,
                registered_at=each.registered_at,
                last_seen_at=each.last_seen_at,
                held_subjects=each.held_subjects,
                claimed_items=each.claimed_items,
            )
            for each in instances.list_instances(call.connection)
        ]
    )


def pause_instance(call: Call, asked: InstanceDecision) -> InstanceTold:
    """Let an instance claim nothing until it is resumed."""
    return _tell(call, asked, instances.pause_instance)


def drain_instance(call: Call, asked: InstanceDecision) -> InstanceTold:
    """Let this life of an instance finish what it has and claim nothing more."""
    return _tell(call, asked, instances.drain_instance)


def resume_instance(call: Call, asked: InstanceDecision) -> InstanceTold:
    """Let an instance that is paused or draining claim again."""
    return _tell(call, asked, instances.resume_instance)


def _tell(call: Call, asked: InstanceDecision, decide: Callable[..., None]) -> InstanceTold:
    decide(call.connection, asked.instance, reason=asked.reason, by=call.who)
    state = instances.instance_state(call.connection, asked.instance)
    assert state is not None
    return InstanceTold(asked.instance, state)


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/instances",
        scope=Scope.READ,
        summary="Every worker that ever registered, and what it holds now",
        asks=Nothing,
        answers=Instances,
        handle=list_instances,
    ),
    Route(
        method="POST",
        path=f"{API}/instances/pause",
        scope=Scope.OPERATE,
        summary="Let a worker claim nothing until it is resumed; it finishes what it has",
        asks=InstanceDecision,
        answers=InstanceTold,
        handle=pause_instance,
        refusals=(404,),
    ),
    Route(
        method="POST",
        path=f"{API}/instances/drain",
        scope=Scope.OPERATE,
        summary="Let a worker finish what it has and claim nothing more until it is started again",
        asks=InstanceDecision,
        answers=InstanceTold,
        handle=drain_instance,
        refusals=(404,),
    ),
    Route(
        method="POST",
        path=f"{API}/instances/resume",
        scope=Scope.OPERATE,
        summary="Let a worker that is paused or draining claim again",
        asks=InstanceDecision,
        answers=InstanceTold,
        handle=resume_instance,
        refusals=(404,),
    ),
)
