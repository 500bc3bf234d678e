"""What pydantic found, said in the words of gangplan: what is wrong, and what to write instead."""

from __future__ import annotations

import re
import types
from collections.abc import Callable
from difflib import get_close_matches
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from planner.scan import Loc
from planner.words import shown


def place_of(error: ErrorDetails) -> Loc:
    """Return where an error stands; a key that is wrong itself stands where its entry does."""
    loc = error["loc"]
    return loc[:-1] if loc and loc[-1] == "[key]" else loc


def reword(error: ErrorDetails, model: type[BaseModel]) -> str:
    """Return the message for one error of a model's validation."""
    words = _WORDS.get(error["type"])
    return words(error, model) if words else f"{shown(error['input'])}: {error['msg']}"


def one_of(value: object, known: list[str], what: str) -> str:
    """Say that a value is none of the known ones, and which of them may be meant."""
    near = get_close_matches(str(value)[:80], known, 1) if isinstance(value, str) else []
    if near:
        return f"{shown(value)} is not {what}, write {near[0]} (known: {', '.join(known)})"
    return f"{shown(value)} is not {what}, write one of {', '.join(known)}"


def _unknown_key(error: ErrorDetails, model: type[BaseModel]) -> str:
    owner = _entry_at(model, error["loc"][:-1])
    known = _keys(owner) if owner else []
    near = get_close_matches(str(error["loc"][-1])[:80], known, 1)
    if near:
        return f"is no known key, write {near[0]} (known: {', '.join(known)})"
    return f"is no known key, write one of {', '.join(known)}"


def _missing(error: ErrorDetails, model: type[BaseModel]) -> str:
    owner = _entry_at(model, error["loc"][:-1])
    key = str(error["loc"][-1])
    for name, field in owner.model_fields.items() if owner else ():
        if (field.alias or name) == key and field.examples:
            return f"is missing, write for example `{key}: {field.examples[0]}`"
    return f"is missing, add `{key}:`"


def _mapping(error: ErrorDetails, model: type[BaseModel]) -> str:
    owner = _entry_at(model, error["loc"])
    keys = f"with the keys {', '.join(_keys(owner))}" if owner else "of names and values"
    return f"{shown(error['input'])} is not a mapping, write one {keys}"


def _literal(error: ErrorDetails, model: type[BaseModel]) -> str:
    known = re.findall(r"'([^']*)'", error["ctx"]["expected"])
    return one_of(error["input"], known, "known here")


def _truth(error: ErrorDetails, model: type[BaseModel]) -> str:
    fix = {"yes": "true", "on": "true", "no": "false", "off": "false"}
    said = str(error["input"]).lower()
    return f"{shown(error['input'])} is not a truth value, write {fix.get(said, 'true or false')}"


def _bound(error: ErrorDetails, model: type[BaseModel]) -> str:
    ctx = error["ctx"]
    if "ge" in ctx:
        return f"{shown(error['input'])} is too small, write at least {ctx['ge']}"
    return f"{shown(error['input'])} is too large, write at most {ctx['le']}"


def _whole(error: ErrorDetails, model: type[BaseModel]) -> str:
    return f"{shown(error['input'])} is not a whole number, write one such as 8"


def _list(error: ErrorDetails, model: type[BaseModel]) -> str:
    return f"{shown(error['input'])} is not a list, write [a, b] or a line with - for each entry"


def _own(error: ErrorDetails, model: type[BaseModel]) -> str:
    return str(error["ctx"]["error"])


_WORDS: dict[str, Callable[[ErrorDetails, type[BaseModel]], str]] = {
    "bool_type": _truth,
    "dict_type": _mapping,
    "extra_forbidden": _unknown_key,
    "greater_than_equal": _bound,
    "int_type": _whole,
    "less_than_equal": _bound,
    "list_type": _list,
    "literal_error": _literal,
    "missing": _missing,
    "model_type": _mapping,
    "value_error": _own,
}


def _keys(model: type[BaseModel]) -> list[str]:
    """Return the keys of an entry as users write them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def _entry_at(model: type[BaseModel], loc: Loc) -> type[BaseModel] | None:
    """Return the schema of the entry at a place, None where there is none."""
    here: Any = model
    for step in loc:
        here = _inner(here, step)
    here = _bare(here)
    return here if isinstance(here, type) and issubclass(here, BaseModel) else None


def _inner(kind: Any, step: str | int) -> Any:
    """Go down one step in a type."""
    kind = _bare(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            if (field.alias or name) == step:
                return field.annotation
    args = get_args(kind)
    return args[-1] if args else None


def _bare(kind: Any) -> Any:
    """Take the wrappings off a type: metadata, and None beside it."""
    while get_origin(kind) in (Annotated, Union, types.UnionType):
        kind = get_args(kind)[0]
    return kind
