"""Conformity of a JSON value to one of the published schemas, told in one line. Only the keywords that these schemas use are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["departure"]

Schema = dict[str, Any]

_SAID = {"$schema", "$defs", "title", "description"}


def _integer(value: Any) -> bool:
    return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": _integer,
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
}


def departure(value: Any, schema: Schema) -> str:
    """The first departure of the value from the schema, naming field and value; empty where there is none.

    Raises ValueError where the schema has a keyword that is not known here.
    """
    return _Walk(schema).of(value, schema, "")


class _Walk:
    """One way through a value and its schema. root: where references start."""

    def __init__(self, root: Schema) -> None:
        self._root = root

    def of(self, value: Any, schema: Schema, at: str) -> str:
        unknown = set(schema) - set(self._KEYWORDS) - _SAID - {"properties", "additionalProperties"}
        if unknown:
            raise ValueError(f"schema keyword {min(unknown)!r} is not known")
        for keyword, check in self._KEYWORDS.items():
            if keyword in schema and (found := check(self, value, schema[keyword], at)):
                return found
        return self._fields(value, schema, at) if isinstance(value, dict) else ""

    def _fields(self, value: dict[str, Any], schema: Schema, at: str) -> str:
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name, item in value.items():
            below = known.get(name, others)
            if below is False:
                return f"{_named(_at(at, name))} is not known"
            if isinstance(below, dict) and (found := self.of(item, below, _at(at, name))):
                return found
        return ""

    def _reference(self, value: Any, target: str, at: str) -> str:
        return self.of(value, self._root["$defs"][target.removeprefix("#/$defs/")], at)

    def _type(self, value: Any, kinds: str | list[str], at: str) -> str:
        names = [kinds] if isinstance(kinds, str) else kinds
        return "" if any(_TYPES[name](value) for name in names) else _wrong(at, " or ".join(names), value)

    def _enum(self, value: Any, allowed: list[Any], at: str) -> str:
        same = any(value == item and isinstance(value, bool) == isinstance(item, bool) for item in allowed)
        return "" if same else _wrong(at, "one of " + ", ".join(map(repr, allowed)), value)

    def _const(self, value: Any, wanted: Any, at: str) -> str:
        return self._enum(value, [wanted], at)

    def _required(self, value: Any, names: list[str], at: str) -> str:
        missing = [name for name in names if isinstance(value, dict) and name not in value]
        return f"{_named(_at(at, missing[0]))} is missing" if missing else ""

    def _items(self, value: Any, schema: Schema, at: str) -> str:
        found = (self.of(item, schema, f"{at}[{index}]") for index, item in enumerate(value if isinstance(value, list) else ()))
        return next(filter(None, found), "")

    def _minimum(self, value: Any, least: float, at: str) -> str:
        return _wrong(at, f"at least {least}", value) if _TYPES["number"](value) and value < least else ""

    def _any(self, value: Any, schemas: list[Schema], at: str) -> str:
        found = [self.of(value, schema, at) for schema in schemas]
        return "" if "" in found else max(found, key=_depth)

    def _one(self, value: Any, schemas: list[Schema], at: str) -> str:
        found = [self.of(value, schema, at) for schema in schemas]
        if found.count("") > 1:
            return _wrong(at, "of one kind", value)
        return "" if "" in found else max(found, key=_depth)

    _KEYWORDS: dict[str, Callable[[_Walk, Any, Any, str], str]] = {
        "$ref": _reference, "type": _type, "enum": _enum, "const": _const, "required": _required, "items": _items, "minimum": _minimum,
        "anyOf": _any, "oneOf": _one,
    }


def _depth(departed: str) -> int:
    """How far below a departure lies: of several readings of a value, the one that went furthest was meant."""
    return departed.split(" ")[1].count(".") if departed.startswith("field") else -1


def _at(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _named(at: str) -> str:
    return f"field '{at}'" if at else "the whole"


def _wrong(at: str, wanted: str, value: Any) -> str:
    shown = repr(value)
    return f"{_named(at)} must be {wanted}, got {shown if len(shown) <= 60 else shown[:57] + '...'}"
