"""The document of the API, and the page that a person finds first."""

from functools import cache

from disarray import __version__
from disarray.web.openapi import openapi_document
from disarray.web.route import API, AnyRoute, Call, Nothing, Route

INDEX = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>disarray</title>
<style>body {{ font: 16px/1.5 system-ui, sans-serif; margin: 3rem auto; max-width: 40rem; padding: 0 1rem }}</style>
<h1>disarray {__version__}</h1>
<p>Metrics and rollups that stay right while instrument files arrive late, twice and half-written.</p>
<ul>
<li><a href="{API}/openapi.json">{API}/openapi.json</a>: every path, what it takes and what it gives</li>
<li><a href="{API}/status">{API}/status</a>: where everything stands</li>
<li><a href="/metrics">/metrics</a>: figures for Prometheus</li>
<li><a href="{API}/ready">{API}/ready</a>: whether it can work</li>
</ul>
</html>
"""


def show_openapi(_: Call, __: Nothing) -> dict[str, object]:
    """This document."""
    return _document()


@cache
def _document() -> dict[str, object]:
    from disarray.web.routes import ROUTES as EVERY_ROUTE  # which this page is part of

    return openapi_document(EVERY_ROUTE)


def show_index(_: Call, __: Nothing) -> str:
    """A page with links."""
    return INDEX


ROUTES: tuple[AnyRoute, ...] = (
    Route(
        method="GET",
        path=f"{API}/openapi.json",
        scope=None,
        summary="This document",
        asks=Nothing,
        answers=dict[str, object],
        handle=show_openapi,
        is_instant=True,
    ),
    Route(
        method="GET",
        path="/",
        scope=None,
        summary="A page with links",
        asks=Nothing,
        answers=str,
        handle=show_index,
        media_type="text/html",
        headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"},
        is_instant=True,
    ),
)
