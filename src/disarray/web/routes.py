"""All routes there are: what is not listed here does not exist."""

from disarray.web import pages
from disarray.web.api import (
    conflicts,
    dead_letters,
    definitions,
    figures,
    files,
    health,
    hooks,
    inbox,
    instances,
    prometheus,
    quarantine,
    queue,
    rollups,
    runs,
    sinks,
    sources,
    subjects,
    tokens,
    values,
)
from disarray.web.route import AnyRoute

ROUTES: tuple[AnyRoute, ...] = (
    *health.ROUTES,
    *instances.ROUTES,
    *definitions.ROUTES,
    *subjects.ROUTES,
    *queue.ROUTES,
    *files.ROUTES,
    *inbox.ROUTES,
    *hooks.ROUTES,
    *dead_letters.ROUTES,
    *quarantine.ROUTES,
    *conflicts.ROUTES,
    *values.ROUTES,
    *rollups.ROUTES,
    *figures.ROUTES,
    *runs.ROUTES,
    *sinks.ROUTES,
    *sources.ROUTES,
    *tokens.ROUTES,
    *prometheus.ROUTES,
    *pages.ROUTES,
)
