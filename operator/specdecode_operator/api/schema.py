"""From the typed view to a structural OpenAPI v3 schema, as a CustomResourceDefinition must have it.

Pydantic writes JSON schema with references, unions with null and key patterns; the API server takes none of these.
References are put in place, an optional field is one that may be absent, `int | str` becomes int-or-string, and the
parent of a default gets a default too, since the API server fills defaults only into objects that are there.
"""

from collections.abc import Mapping
from typing import Any, Final

from specdecode_operator.api.fields import Model

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
    """int-or-string. Each bound applies to the kind it is about: a pattern to text, a minimum to numbers."""
    bounds = {key: option[key] for option in options for key in ("minimum", "pattern", "maxLength") if key in option}
    return {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], **bounds}


def _fill_from_above(properties: Mapping[str, Schema], required: tuple[str, ...] | list[str]) -> None:
    """Give each optional object with defaults inside a default of its own: defaulting does not make objects.

    `{}` would do for defaulting, but the API server asks the object's CEL rules about it as it is written here.
    """
    for name, field in properties.items():
        inside = {key: inner["default"] for key, inner in field.get("properties", {}).items() if "default" in inner}
        if name not in required and not field.get("required") and inside:
            field["default"] = inside
