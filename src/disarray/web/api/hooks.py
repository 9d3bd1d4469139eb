"""Hooks, and the ledger of messages to them."""

from dataclasses import dataclass

from disarray.model.side_effect import EffectState
from disarray.queries.hooks import Hooks, SideEffects, list_hooks, list_side_effects
from disarray.web.parameters import Name, PageAsked
from disarray.web.route import API, Route, Scope, on_connection


@dataclass(frozen=True, kw_only=True)
class SideEffectsAsked(PageAsked):
    """Which messages."""

    state: EffectState | None = None
    hook_name: Name | None = None


ROUTES = (
    Route(
        method="GET",
        path=f"{API}/hooks",
        scope=Scope.READ,
        summary="Hooks: who is told of what, and how many messages stand where",
        asks=PageAsked,
        answers=Hooks,
        handle=on_connection(list_hooks),
    ),
    Route(
        method="GET",
        path=f"{API}/side-effects",
        scope=Scope.READ,
        summary="Messages to hooks in the order in which they were noted, with their answers",
        asks=SideEffectsAsked,
        answers=SideEffects,
        handle=on_connection(list_side_effects),
    ),
)
