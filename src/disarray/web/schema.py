"""One source for what the API takes and gives: dataclasses, read as JSON Schema."""

from __future__ import annotations

import types
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from disarray.model.documents import public_name

Json = dict[str, Any]

# Text that can be stored, logged and printed: no control characters.
PLAIN = r"^[^\x00-\x1f\x7f-\x9f]*$"


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a value is for and which values there are; beside a type in `Annotated`."""

    text: str = ""
    minimum: int | None = None
    maximum: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None

    def as_schema(self) -> Json:
        """The limits in the words of JSON Schema."""
        words = {
            "description": self.text or None,
            "minimum": self.minimum,
            "maximum": self.maximum,
            "minLength": self.min_length,
            "maxLength": self.max_length,
            "pattern": self.pattern,
        }
        return {word: value for word, value in words.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Member:
    """One field of a dataclass: its type without decoration, what is said about it, and whether it must be given."""

    name: str
    type: Any
    about: About
    is_required: bool
    default: Any = None


def members_of(kind: type[Any]) -> tuple[Member, ...]:
    """The fields of a dataclass, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    members = []
    for each in fields(kind):
        plain, about = undecorated(hints[each.name])
        is_required = each.default is MISSING and each.default_factory is MISSING
        default = None if each.default is MISSING else each.default
        members.append(Member(public_name(each.name), plain, about, is_required, default))
    return tuple(members)


def undecorated(hint: Any) -> tuple[Any, About]:
    """A type without `Annotated`, and what was said there."""
    if get_origin(hint) is Annotated:
        plain, *notes = get_args(hint)
        return plain, next((note for note in notes if isinstance(note, About)), About())
    return hint, About()


def without_none(hint: Any) -> tuple[Any, bool]:
    """The type that stands beside None, and whether None does."""
    if get_origin(hint) in (Union, types.UnionType):
        rest = [each for each in get_args(hint) if each is not type(None)]
        if len(rest) < len(get_args(hint)):
            return (rest[0] if len(rest) == 1 else Union[tuple(rest)]), True  # noqa: UP007 (built at run time)
    return hint, False


def schema_of(hint: Any, components: dict[str, Json]) -> Json:
    """The JSON Schema of a type; dataclasses go to `components` and are referred to."""
    plain, about = undecorated(hint)
    inner, is_nullable = without_none(plain)
    if is_nullable:
        return _with({"anyOf": [schema_of(inner, components), {"type": "null"}]}, about)
    return _with(_plain_schema(inner, components), about)


def _with(schema: Json, about: About) -> Json:
    """A schema with what was said about it; the length of a list has a word of its own."""
    words = about.as_schema()
    if schema.get("type") == "array":
        renamed = {"minLength": "minItems", "maxLength": "maxItems"}
        words = {renamed.get(word, word): value for word, value in words.items()}
    return schema | words


def _plain_schema(hint: Any, components: dict[str, Json]) -> Json:
    if isinstance(hint, type) and is_dataclass(hint):
        return _reference(hint, components)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"type": "string", "enum": [each.value for each in hint]}
    simple: dict[Any, Json] = {
        str: {"type": "string"},
        bool: {"type": "boolean"},
        int: {"type": "integer"},
        float: {"type": "number"},
        datetime: {"type": "string", "format": "date-time"},
        object: {},
    }
    if hint in simple:
        return dict(simple[hint])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is list:
        return {"type": "array", "items": schema_of(arguments[0], components)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(arguments[1], components)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(each, components) for each in arguments]}
    raise TypeError(f"{hint!r} has no JSON Schema here")


def _reference(kind: type[Any], components: dict[str, Json]) -> Json:
    name = kind.__name__
    if name not in components:
        components[name] = {}  # the name is taken before the fields are looked at: a type may hold itself
        members = members_of(kind)
        described: Json = {
            "type": "object",
            "description": (kind.__doc__ or "").partition("\n")[0],
            "properties": {member.name: _member_schema(member, components) for member in members},
            "additionalProperties": False,
        }
        required = [member.name for member in members if member.is_required]
        if required:
            described["required"] = required
        components[name] = described
    return {"$ref": f"#/components/schemas/{name}"}


def _member_schema(member: Member, components: dict[str, Json]) -> Json:
    schema = _with(schema_of(member.type, components), member.about)
    if member.default is not None:
        schema["default"] = member.default.value if isinstance(member.default, Enum) else member.default
    return schema


def parameters_of(kind: type[Any], components: dict[str, Json], *, path: str) -> list[Json]:
    """The fields of a dataclass as parameters of a path or its query: one that may be None may be left out."""
    parameters = []
    for member in members_of(kind):
        plain, _ = without_none(member.type)
        schema = _with(schema_of(plain, components), member.about)
        if schema.get("format") == "date-time":
            # As on the command line: a date is its midnight in UTC.
            either = [{"type": "string", "format": form} for form in (schema.pop("format"), "date")]
            schema = {**schema, "anyOf": either}
        text = schema.pop("description", "")
        if member.default is not None:
            schema["default"] = member.default.value if isinstance(member.default, Enum) else member.default
        parameters.append(
            {
                "name": member.name,
                "in": "path" if f"{{{member.name}}}" in path else "query",
                "description": text,
                "required": member.is_required,
                "schema": schema,
            }
        )
    return parameters
