"""JSON schemas for kubeconform, made from what an API server publishes, so that nothing is downloaded.

The API server's OpenAPI v2 document holds the built-in kinds and the installed CRDs alike. kubeconform wants one JSON
schema a kind; with `-strict` semantics a field that the kind does not have must be an error, which OpenAPI leaves open.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LOCATION = "{{ .ResourceKind }}{{ .KindSuffix }}.json"
"""kubeconform's template for a file's name: kind and group version in lower case."""

DEFINITIONS = "_definitions.json"

QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"

Json = dict[str, Any]


def from_openapi(document: Mapping[str, Any]) -> dict[str, Json]:
    """File name -> schema, for every kind of an OpenAPI v2 document; the definitions are shared in one file."""
    definitions = {name: strict(schema) for name, schema in document["definitions"].items()}
    definitions[QUANTITY] = {"type": ["string", "number"]}
    files: dict[str, Json] = {DEFINITIONS: {"definitions": definitions}}
    for name, schema in document["definitions"].items():
        for kind in schema.get("x-kubernetes-group-version-kind", ()):
            files[file_name(kind["group"], kind["version"], kind["kind"])] = {
                "$ref": f"{DEFINITIONS}#/definitions/{name}"
            }
    return files


def file_name(group: str, version: str, kind: str) -> str:
    """The name that `LOCATION` gives; kubeconform keeps only the group's first label.

    >>> file_name("networking.k8s.io", "v1", "NetworkPolicy")
    'networkpolicy-networking-v1.json'
    """
    return "-".join(part.lower() for part in (kind, group.split(".")[0], version) if part) + ".json"


def strict(schema: Any) -> Any:
    """The same schema in plain JSON Schema, with every unknown field refused and references made to one file."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return {"$ref": schema["$ref"].replace("#/definitions/", f"{DEFINITIONS}#/definitions/")}
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return {"type": ["string", "integer"]}
    plain = {key: value for key, value in schema.items() if not key.startswith("x-kubernetes-") and key != "format"}
    result: Json = {key: _children(key, value) for key, value in plain.items()}
    if closed(schema):
        result["additionalProperties"] = False
    return result


def _children(key: str, value: Any) -> Any:
    """`properties` maps names to schemas: a field called `format` or `$ref` there is a field, not a keyword."""
    if key in ("properties", "definitions"):
        return {name: strict(child) for name, child in value.items()}
    if key in ("items", "additionalProperties", "allOf", "anyOf", "oneOf", "not"):
        return strict(value)
    return value


def closed(schema: Mapping[str, Any]) -> bool:
    """Whether the schema lists all of its fields."""
    opened = "additionalProperties" in schema or schema.get("x-kubernetes-preserve-unknown-fields", False)
    return bool(schema.get("properties")) and not opened


def write(files: Mapping[str, Json], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in files.items():
        (folder / name).write_text(json.dumps(schema))
