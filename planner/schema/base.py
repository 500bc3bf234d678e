"""The common parent of all file entries, the way from a document to them, and their JSON Schema."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from planner.scan import Loc
from planner.schema.wording import place_of, reword
from planner.strict import Document

MAX_ERRORS = 2_000
"""A file with more errors than this has one cause; the rest is not looked at."""


class Entry(BaseModel):
    """A mapping in a file: unknown keys are errors, a key with nothing after it is as good as absent."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: Any) -> Any:
        if isinstance(data, dict) and None in data.values():
            return {key: value for key, value in data.items() if value is not None}
        return data


Model = TypeVar("Model", bound=Entry)


def validate(document: Document, model: type[Model], fillers: dict[str, Any]) -> Model | None:
    """Check a document against a schema; every fault goes to the document.

    What is malformed is left out, entry by entry, until the rest is well-formed and can be searched for
    contradictions in the same run. `fillers` stand in for required keys at the top. None: nothing is left.
    """
    holes, data = document.holes, document.data
    while True:
        try:
            return model.model_validate(data)
        except ValidationError as error:
            errors = error.errors(include_url=False)
        found = set()
        for detail in errors[:MAX_ERRORS]:
            loc = place_of(detail)
            if not holes.places:
                document.fault(loc, reword(detail, model))
            absent = detail["type"] == "missing" and not (len(loc) == 1 and loc[0] in fillers)
            found.add(holes.original(loc[:-1] if absent else loc))
        if () in found or found <= holes.places or len(errors) > MAX_ERRORS:
            return None
        holes.add(found)
        data = {**fillers, **holes.cut(document.data)}


def validate_part(document: Document, model: type[Model], loc: Loc) -> Model | None:
    """Check what stands at a place that is well-formed as far as it was looked at; faults go to the document.

    None: it is malformed.
    """
    part: Any = document.data
    for step in loc:
        part = part[step]
    try:
        return model.model_validate(part)
    except ValidationError as error:
        for detail in error.errors(include_url=False)[:MAX_ERRORS]:
            document.fault((*loc, *place_of(detail)), reword(detail, model))
        return None


def json_schema(model: type[Entry], title: str) -> dict[str, Any]:
    """Return the JSON Schema of a file for editors; whatever may be absent may also be null."""
    schema = model.model_json_schema()
    for entry in [schema, *schema.get("$defs", {}).values()]:
        entry.pop("title", None)
        required = entry.get("required", ())
        for key, value in entry.get("properties", {}).items():
            value.pop("title", None)
            if key not in required:
                entry["properties"][key] = _nullable(value)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **schema}


_ABOUT = ("description", "default", "examples")


def _nullable(value: dict[str, Any]) -> dict[str, Any]:
    """Allow null beside what a schema allows; what is said about it stays outside."""
    about = {key: value[key] for key in _ABOUT if key in value}
    kinds = value.get("anyOf") or [{k: v for k, v in value.items() if k not in _ABOUT}]
    plain = [kind for kind in kinds if kind != {"type": "null"}]
    return {"anyOf": [*plain, {"type": "null"}], **about}
