"""Checks made of the schema of a CustomResourceDefinition, as far as it says types, enums and bounds."""

from __future__ import annotations

from typing import Any

from kailab.model.validation import shapes
from kailab.model.validation.shapes import Check


def shape_of(schema: dict[str, Any]) -> Check:
    """The check of what a schema describes. Fields that it does not name are not judged."""
    if schema.get("x-kubernetes-int-or-string"):
        return shapes.int_or_text
    match schema.get("type"):
        case "object":
            if "additionalProperties" in schema:
                return shapes.table(shape_of(schema["additionalProperties"]))
            fields = {name: shape_of(inner) for name, inner in (schema.get("properties") or {}).items()}
            return shapes.record(fields, tuple(schema.get("required") or ()))
        case "array":
            return shapes.items(shape_of(schema.get("items") or {}))
        case "string":
            if "enum" in schema:
                return shapes.one_of(*schema["enum"])
            return shapes.time if schema.get("format") == "date-time" else shapes.TEXT
        case "integer":
            bits = 31 if schema.get("format") == "int32" else 63
            return shapes.whole(int(schema.get("minimum", -(2**bits))), int(schema.get("maximum", 2**bits - 1)))
        case "number":
            return shapes.number
        case "boolean":
            return shapes.FLAG
    return shapes.anything
