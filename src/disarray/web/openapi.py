"""The OpenAPI 3.1 document, made from the declarations of the routes."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from disarray import __version__
from disarray.web import idempotency, problems
from disarray.web.route import JSON, Nothing
from disarray.web.schema import Json, parameters_of, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from disarray.web.route import AnyRoute

ABOUT = """\
Metrics and rollups that stay right while instrument files arrive late, twice and half-written.

Names of subjects, metrics and files are parameters, never part of a path. What is not documented is refused. \
Every POST takes an `Idempotency-Key`: sent again within a day, it gives the stored answer and acts no second time. \
Every POST is recorded with the name of the token and the reason given."""

_REFUSALS = {
    400: "Not as documented.",
    401: "No token, or one that does not hold.",
    403: "The scope of the token is too small.",
    404: "No such subject, metric, file or instance.",
    409: "Not possible as things stand now, or the same request is under way.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "As documented, but it cannot be done; or the Idempotency-Key was used for another request.",
    500: "An error of disarray.",
    501: "This host cannot do it.",
    503: "The database is away or busy, or it took too long. A POST can be repeated with its Idempotency-Key.",
}


def openapi_document(routes: Iterable[AnyRoute]) -> Json:
    """The whole API."""
    components: dict[str, Json] = {}
    problem = schema_of(problems.ProblemDocument, components)
    paths: dict[str, Json] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, components, problem)
    return {
        "openapi": "3.1.0",
        "info": {"title": "disarray", "version": __version__, "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Made with `disarray token create NAME --scope read|operate|admin`.",
                }
            },
        },
    }


def _operation(route: AnyRoute, components: dict[str, Json], problem: Json) -> Json:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": route.handle.__name__,
        "tags": [route.noun],
        "responses": {
            "200": {
                "description": (route.answers.__doc__ or "").partition("\n")[0]
                if route.media_type == JSON
                else route.summary,
                "content": {
                    route.media_type: {
                        "schema": schema_of(route.answers, components)
                        if route.media_type == JSON
                        else {"type": "string"}
                    }
                },
            }
        },
    }
    if route.scope is not None:
        operation["security"] = [{"token": []}]
        operation["x-scope"] = route.scope.value
    if route.method == "POST":
        operation["parameters"] = [_key_parameter()]
        operation["requestBody"] = {
            "required": True,
            "content": {JSON: {"schema": schema_of(route.asks, components)}},
        }
        operation["responses"]["200"]["headers"] = {
            idempotency.REPLAYED: {
                "description": "true where the answer is that of an earlier request",
                "schema": {"type": "string"},
            }
        }
    elif route.asks is not Nothing:
        operation["parameters"] = parameters_of(route.asks, components)
    for status in sorted(_refusals(route)):
        operation["responses"][str(status)] = {
            "description": _REFUSALS[status],
            "content": {problems.MEDIA_TYPE: {"schema": problem}},
        }
    assert all(HTTPStatus(int(status)) for status in operation["responses"])
    return operation


def _refusals(route: AnyRoute) -> set[int]:
    refusals = {400, 413, 500, 503, *route.refusals}
    if route.scope is not None:
        refusals |= {401, 403}
    if route.method == "POST":
        refusals |= {409, 415, 422}
    elif route.asks is not Nothing:
        refusals.add(422)
    return refusals


def _key_parameter() -> Json:
    return {
        "name": idempotency.HEADER,
        "in": "header",
        "required": False,
        "description": "The same for every try of one action.",
        "schema": {"type": "string", "pattern": idempotency.PATTERN},
    }
