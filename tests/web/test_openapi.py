"""The document, and the page that is made from it."""

from __future__ import annotations

import os
import re
from dataclasses import is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest

from disarray.documentation.rest_page import reference
from disarray.web.openapi import openapi_document
from disarray.web.route import Scope
from disarray.web.routes import ROUTES

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT = openapi_document(ROUTES)
PAGE = Path(__file__).parents[2] / "docs" / "rest-api.md"


def test_every_route_is_documented_with_its_scope() -> None:
    for route in ROUTES:
        operation = DOCUMENT["paths"][route.path][route.method.lower()]
        assert operation.get("x-scope") == route.scope
        assert bool(operation.get("security")) == (route.scope is not None)
        assert operation["summary"]
    ids = [each["operationId"] for methods in DOCUMENT["paths"].values() for each in methods.values()]
    assert len(ids) == len(set(ids)) == len(ROUTES)


def test_no_name_of_an_object_stands_for_two() -> None:
    modules: dict[str, set[str]] = {}
    for route in ROUTES:
        for kind in (route.asks, route.answers):
            modules.setdefault(kind.__name__, set()).add(kind.__module__)
    assert {name: found for name, found in modules.items() if len(found) > 1} == {}


def test_every_action_asks_for_a_reason_and_takes_a_key() -> None:
    for route in ROUTES:
        if route.method != "POST":
            continue
        operation = DOCUMENT["paths"][route.path]["post"]
        assert "Idempotency-Key" in [each["name"] for each in operation["parameters"]]
        if route.body is not None:
            continue
        assert len(operation["parameters"]) == 1
        name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        body = DOCUMENT["components"]["schemas"][name]
        assert body["additionalProperties"] is False
        if route.scope is Scope.OPERATE:
            assert "reason" in body["required"]


@pytest.mark.parametrize("name", sorted(DOCUMENT["components"]["schemas"]))
def test_every_schema_is_one(name: str) -> None:
    schema = {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}
    jsonschema_rs.Draft202012Validator(schema)


def examples() -> Iterator[tuple[str, Any, Any]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            answers = [each["content"] for each in operation["responses"].values()]
            for content in (*answers, operation.get("requestBody", {"content": {}})["content"]):
                for described in content.values():
                    if "example" in described:
                        yield f"{method} {path}", described["schema"], described["example"]


@pytest.mark.parametrize(("schema", "example"), [pytest.param(*each[1:], id=each[0]) for each in examples()])
def test_every_example_is_as_its_schema_says(schema: Any, example: Any) -> None:
    jsonschema_rs.Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(example)


def test_every_object_has_an_example_and_no_name_was_forgotten() -> None:
    shown = {name for name, _, _ in examples()}
    wanted = {
        f"{route.method.lower()} {route.path}"
        for route in ROUTES
        if is_dataclass(route.answers) or route.method == "POST"
    }
    assert wanted <= shown

    def forgotten(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            for name, inner in value.items():
                if inner == name or inner == [name]:
                    yield name
                yield from forgotten(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from forgotten(inner)

    assert sorted(set(forgotten([example for _, _, example in examples()]))) == []


def test_the_page_is_the_document() -> None:
    """Regenerate it with: DISARRAY_WRITE_DOCS=1 pytest tests/web/test_openapi.py"""
    made = re.sub(r"[ \t]+$", "", reference(DOCUMENT), flags=re.MULTILINE)
    if os.environ.get("DISARRAY_WRITE_DOCS"):
        PAGE.write_text(made)
    assert PAGE.read_text() == made
