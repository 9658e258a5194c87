"""From the typed view to a structural OpenAPI v3 schema, as a CustomResourceDefinition must have it.

Pydantic writes JSON schema with references, unions with null and key patterns; the API server takes none of these.
References are put in place, an optional field is one that may be absent, `int | str` becomes int-or-string, and the
parent of a default gets `default: {}`, since the API server fills defaults only into objects that are there.
"""

from collections.abc import Mapping
from typing import Any, Final

from specdecode_operator.api.types import Model

Schema = dict[str, Any]

_KEPT: Final = (
    "description",
    "type",
    "format",
    "enum",
    "default",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
)
"""Keywords that mean the same in both; all others are translated or left out."""


def structural(model: type[Model]) -> Schema:
    """The schema of `model`."""
    document = model.model_json_schema(by_alias=True, mode="validation")
    return _translate(document, document.get("$defs", {}))


def _translate(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    node = _resolved(node, definitions)
    schema: Schema = {key: node[key] for key in _KEPT if node.get(key) is not None}
    schema |= {key: value for key, value in node.items() if key.startswith("x-kubernetes-")}
    if "const" in node:
        schema["enum"] = [node["const"]]
    if schema.get("default") == []:
        del schema["default"]
    if {"integer", "string"} == {option.get("type") for option in node.get("anyOf", ())}:
        return schema | _int_or_string(node["anyOf"])
    if "properties" in node:
        schema["properties"] = {name: _translate(field, definitions) for name, field in node["properties"].items()}
        _fill_from_above(schema["properties"], schema.get("required", ()))
    if isinstance(node.get("additionalProperties"), Mapping):
        schema["additionalProperties"] = _translate(node["additionalProperties"], definitions)
    if "items" in node:
        schema["items"] = _translate(node["items"], definitions)
    return schema


def _resolved(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """`node` with its reference in place, and the null of an optional field gone. What the field says wins."""
    while True:
        options = [option for option in node.get("anyOf", ()) if option.get("type") != "null"]
        if "$ref" in node:
            target = definitions[node["$ref"].rsplit("/", 1)[-1]]
            node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
        elif len(options) == 1:
            node = {**options[0], **{key: value for key, value in node.items() if key != "anyOf"}}
        elif len(options) != len(node.get("anyOf", ())):
            node = {**node, "anyOf": options}
        else:
            return node


def _int_or_string(options: list[Mapping[str, Any]]) -> Schema:
    """int-or-string. The bounds of the text apply to both: the API server reads the number as text."""
    text = next(option for option in options if option["type"] == "string")
    bounds = {key: text[key] for key in ("pattern", "maxLength") if key in text}
    return {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], **bounds}


def _fill_from_above(properties: Mapping[str, Schema], required: tuple[str, ...] | list[str]) -> None:
    """Give `default: {}` to each optional object with a default inside: defaulting does not make objects."""
    for name, field in properties.items():
        inside = field.get("properties", {}).values()
        if name not in required and not field.get("required") and any("default" in inner for inner in inside):
            field["default"] = {}
