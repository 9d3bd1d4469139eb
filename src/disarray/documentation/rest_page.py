"""The OpenAPI document as a page for people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from disarray.web.problems import TYPES, problem_kinds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.web.schema import Json

HEAD = """\
# The REST API

Made from the OpenAPI document that the server gives at `/api/v1/openapi.json`; [monitoring.md](monitoring.md) is about
running the server, tokens and metrics.
"""


def reference(document: Json) -> str:
    """Every path with its parameters, and every object that goes over the wire."""
    parts = [HEAD, document["info"]["description"], ""]
    parts += ["## Refusals", "", *_refusal(document), "", "## Paths", ""]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts += [*_operation(path, method, operation), ""]
    parts += ["## Objects", ""]
    for name, schema in document["components"]["schemas"].items():
        parts += [*_object(name, schema), ""]
    return "\n".join(parts).rstrip() + "\n"


def _refusal(document: Json) -> Iterator[str]:
    """What a refusal looks like, and the types there are."""
    operation = next(iter(next(iter(document["paths"].values())).values()))
    [content] = operation["responses"]["400"]["content"].values()
    yield from ("```json", json.dumps(content["example"], indent=2), "```", "")
    yield "| `type` | status | |"
    yield "|---|---|---|"
    for kind, status, title in problem_kinds():
        yield f"| `{TYPES}{kind}` | {status} | {title} |"


def _operation(path: str, method: str, operation: Json) -> Iterator[str]:
    yield f"### `{method.upper()} {path}`"
    yield ""
    scope = operation.get("x-scope")
    yield f"{operation['summary']}. " + (f"Scope: `{scope}`." if scope else "Open to everybody.")
    yield ""
    rows = [
        (
            each["name"],
            _kind(each["schema"]),
            each["required"],
            each["schema"].get("default"),
            each["description"],
        )
        for each in operation.get("parameters", ())
        if each["in"] != "header"
    ]
    if rows:
        yield "| parameter | | required | default | |"
        yield "|---|---|---|---|---|"
        for name, kind, required, default, text in rows:
            yield f"| `{name}` | {kind} | {'yes' if required else ''} | {_code(default)} | {text} |"
        yield ""
    if "requestBody" in operation:
        bodies = operation["requestBody"]["content"]
        kinds = [
            _kind(content["schema"]) if len(bodies) == 1 else f"`{media_type}`"
            for media_type, content in bodies.items()
        ]
        yield f"Body: {' or '.join(kinds)}."
        yield ""
    responses = operation["responses"]
    answers = responses["200" if "200" in responses else "202"]["content"]
    [(media_type, answer)] = answers.items()
    given = _kind(answer["schema"]) if media_type == "application/json" else f"`{media_type}`"
    refusals = ", ".join(status for status in responses if not status.startswith("2"))
    where = " where a worker does it next" if "200" in responses else ": workers go on with it"
    later = f" 202 and `Location`{where}." if "202" in responses else ""
    yield f"Answer: {given}.{later} Refusals: {refusals}."
    for content in (*operation.get("requestBody", {"content": {}})["content"].values(), answer):
        if "example" in content:
            yield from ("", "```json", json.dumps(content["example"], indent=2, ensure_ascii=False), "```")


def _object(name: str, schema: Json) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    yield schema["description"]
    if not schema["properties"]:
        return
    required = schema.get("required", ())
    yield ""
    yield "| name | | required | |"
    yield "|---|---|---|---|"
    for member, described in schema["properties"].items():
        text = described.get("description", "")
        yield f"| `{member}` | {_kind(described)} | {'yes' if member in required else ''} | {text} |"


def _kind(schema: Json) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}"
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties")
        return f"object of {_kind(inner)}" if isinstance(inner, dict) and inner else "object"
    return f"{_word(schema)}{_limits(schema)}"


def _word(schema: Json) -> str:
    if schema.get("format") == "date-time":
        return "instant"
    if schema.get("format") == "date":
        return "date"
    words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
    return {**words, "null": "null"}.get(schema.get("type", ""), "anything")


def _limits(schema: Json) -> str:
    for least, most, what in (("minimum", "maximum", ""), ("minLength", "maxLength", " characters")):
        if most in schema:
            return f", {schema.get(least, 0)} to {schema[most]}{what}"
    return ""


def _code(value: Any) -> str:
    return "" if value is None else f"`{value}`"
