"""All routes there are: what is not listed here does not exist."""

from disarray.web import (
    conflicts,
    dead_letters,
    figures,
    files,
    health,
    instances,
    metrics,
    pages,
    quarantine,
    rollups,
    runs,
    subjects,
    tokens,
    values,
)
from disarray.web.route import AnyRoute

ROUTES: tuple[AnyRoute, ...] = (
    *health.ROUTES,
    *instances.ROUTES,
    *subjects.ROUTES,
    *files.ROUTES,
    *dead_letters.ROUTES,
    *quarantine.ROUTES,
    *conflicts.ROUTES,
    *values.ROUTES,
    *rollups.ROUTES,
    *figures.ROUTES,
    *runs.ROUTES,
    *tokens.ROUTES,
    *metrics.ROUTES,
    *pages.ROUTES,
)
