"""The OpenAPI 3.1 document, made from the declarations of the routes."""

from __future__ import annotations

import re
from dataclasses import is_dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from disarray import __version__
from disarray.web import idempotency, problems, request_numbers
from disarray.web.examples import example_of
from disarray.web.route import JSON, Nothing
from disarray.web.schema import Json, Member, members_of, parameters_of, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from disarray.web.route import AnyRoute

ABOUT = """\
Metrics and rollups that stay right while instrument files arrive late, twice and half-written.

Names of subjects, metrics and files are parameters, never part of a path; only events name their dataset there. \
What is not documented is refused. \
Every POST takes an `Idempotency-Key`: sent again within a day, it gives the stored answer and acts no second time. \
Every POST is recorded with the name of the token and the reason given.

Every answer has `X-Request-Id`: the one that was sent, or a new one. A refusal is `application/problem+json` with \
that number, a `type` that tells kinds of refusals apart, and in `errors` which value of the body (`pointer`) or the \
query (`parameter`) does not fit. Answers of more than 1 kB are compressed for who accepts gzip."""

_NUMBER = {
    request_numbers.HEADER: {
        "description": "the number of the request, which the log has too",
        "schema": {"type": "string", "pattern": request_numbers.PATTERN},
    }
}

_REFUSALS = {
    400: "Not as documented.",
    401: "No token, or one that does not hold.",
    403: "The scope of the token is too small.",
    404: "No such subject, metric, file, instance or dataset.",
    406: "The format that was asked for is not offered.",
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
                    "description": "Made with `disarray token create NAME --scope produce|read|operate|admin`.",
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
                "headers": dict(_NUMBER),
                "content": {
                    route.media_type: {
                        "schema": schema_of(route.answers, components),
                        "example": example_of(route.answers),
                    }
                    if is_dataclass(route.answers)
                    else {"schema": schema_of(route.answers, components)}
                },
            }
        },
    }
    if route.scope is not None:
        operation["security"] = [{"token": []}]
        operation["x-scope"] = route.scope.value
    if route.method == "POST":
        bodies = (
            {JSON: (route.asks, example_of(route.asks))} if route.body is None else route.body.media_types
        )
        operation["parameters"] = [*_path_parameters(route), _key_parameter()]
        operation["requestBody"] = {
            "required": True,
            "content": {
                kind: {"schema": schema_of(body, components), "example": example}
                for kind, (body, example) in bodies.items()
            },
        }
        operation["responses"]["200"]["headers"] |= {
            idempotency.REPLAYED: {
                "description": "true where the answer is that of an earlier request",
                "schema": {"type": "string"},
            }
        }
    elif route.asks is not Nothing:
        operation["parameters"] = parameters_of(route.asks, components, path=route.path)
    if route.queued is not None or route.followed_at is not None:
        done = operation["responses"].pop("200")
        place = {"description": "where to look for what is done later", "schema": {"type": "string"}}
        if route.queued is not None:
            operation["responses"]["200"] = {**done, "description": "Nothing is left to be done."}
        operation["responses"]["202"] = {**done, "headers": {**done["headers"], "Location": place}}
    elif any(member.name == "next" for member in _members(route)):
        operation["responses"]["200"]["headers"] |= {
            "Link": {"description": "the next page, where there is one", "schema": {"type": "string"}}
        }
    for status in sorted(_refusals(route)):
        operation["responses"][str(status)] = {
            "description": _REFUSALS[status],
            "content": {problems.MEDIA_TYPE: _refused(problem, status)},
            "headers": _NUMBER,
        }
    assert all(HTTPStatus(int(status)) for status in operation["responses"])
    return operation


def _refused(problem: Json, status: int) -> Json:
    example = example_of(problems.ProblemDocument)
    return {"schema": problem, "example": example} if status == example["status"] else {"schema": problem}


def _members(route: AnyRoute) -> tuple[Member, ...]:
    return members_of(route.answers) if is_dataclass(route.answers) else ()


def _refusals(route: AnyRoute) -> set[int]:
    refusals = {400, 406, 413, 500, 503, *route.refusals}
    if route.scope is not None:
        refusals |= {401, 403}
    if route.method == "POST":
        refusals |= {409, 415, 422}
    elif route.asks is not Nothing:
        refusals.add(422)
    return refusals


def _path_parameters(route: AnyRoute) -> list[Json]:
    return [
        {"name": name, "in": "path", "required": True, "description": "", "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]


def _key_parameter() -> Json:
    return {
        "name": idempotency.HEADER,
        "in": "header",
        "required": False,
        "description": "The same for every try of one action.",
        "schema": {"type": "string", "pattern": idempotency.PATTERN},
    }
