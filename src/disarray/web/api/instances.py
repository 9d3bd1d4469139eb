"""Workers by name: what each serves and holds, and whether it may claim."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from disarray.control import instances
from disarray.control.instances import InstanceState
from disarray.queries.instances import Instances, list_instances
from disarray.web.parameters import PageAsked, Reason
from disarray.web.route import API, Call, Route, Scope, on_connection
from disarray.web.schema import PLAIN, About

InstanceName = Annotated[
    str, About(text="The name of a worker.", min_length=1, max_length=128, pattern=PLAIN)
]


@dataclass(frozen=True)
class InstanceDecision:
    """Which instance, and why."""

    instance_name: InstanceName
    reason: Reason


@dataclass(frozen=True)
class InstanceStanding:
    """How the instance stands now; it learns of it with its next claim."""

    instance_name: str
    state: InstanceState


def pause_instance(call: Call, asked: InstanceDecision) -> InstanceStanding:
    """Let an instance claim nothing until it is resumed."""
    return _decide(call, asked, instances.pause_instance)


def drain_instance(call: Call, asked: InstanceDecision) -> InstanceStanding:
    """Let this life of an instance finish what it has and claim nothing more."""
    return _decide(call, asked, instances.drain_instance)


def resume_instance(call: Call, asked: InstanceDecision) -> InstanceStanding:
    """Let an instance that is paused or draining claim again."""
    return _decide(call, asked, instances.resume_instance)


def _decide(call: Call, asked: InstanceDecision, decide: Callable[..., None]) -> InstanceStanding:
    decide(call.connection, asked.instance_name, reason=asked.reason, by=call.who)
    state = instances.instance_state(call.connection, asked.instance_name)
    assert state is not None
    return InstanceStanding(asked.instance_name, state)


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/instances",
        scope=Scope.READ,
        summary="Every worker that ever registered, and what it holds now",
        asks=PageAsked,
        answers=Instances,
        handle=on_connection(list_instances),
    ),
    Route(
        method="POST",
        path=f"{API}/instances/pause",
        scope=Scope.OPERATE,
        summary="Let a worker claim nothing until it is resumed; it finishes what it has",
        asks=InstanceDecision,
        answers=InstanceStanding,
        handle=pause_instance,
        refusals=(404,),
    ),
    Route(
        method="POST",
        path=f"{API}/instances/drain",
        scope=Scope.OPERATE,
        summary="Let a worker finish what it has and claim nothing more until it is started again",
        asks=InstanceDecision,
        answers=InstanceStanding,
        handle=drain_instance,
        refusals=(404,),
    ),
    Route(
        method="POST",
        path=f"{API}/instances/resume",
        scope=Scope.OPERATE,
        summary="Let a worker that is paused or draining claim again",
        asks=InstanceDecision,
        answers=InstanceStanding,
        handle=resume_instance,
        refusals=(404,),
    ),
)
