"""All routes there are: what is not listed here does not exist."""

from disarray.web import pages
from disarray.web.api import (
    conflicts,
    dead_letters,
    figures,
    files,
    health,
    instances,
    prometheus,
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
    *prometheus.ROUTES,
    *pages.ROUTES,
)
