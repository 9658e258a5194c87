"""The generated CRD: bounded, structural, described, and the same as the file in the chart."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import deployment

from specdecode_operator.api import crd, names
from specdecode_operator.api.schema import structural
from specdecode_operator.api.status import Status
from specdecode_operator.api.types import Spec, SpecDecodeDeployment

CHART_FILE = Path(__file__).parents[3] / "charts/specdecode-operator/templates/crd.yaml"


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema within `schema`, with the path of its field."""
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from nodes(field, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def root() -> dict[str, Any]:
    return crd.root_schema()


SPEC_NODES = list(nodes(structural(Spec), "spec"))
ALL_NODES = [*SPEC_NODES, *nodes(structural(Status), "status")]


def test_the_charts_file_is_what_the_types_say() -> None:
    assert CHART_FILE.read_text() == crd.text(), "stale: run `make crd`"


def test_check_says_which_file_is_stale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stale = tmp_path / "crd.yaml"
    stale.write_text("kind: Other\n")
    assert crd.main(["--check", str(stale)]) == 1
    assert str(stale) in capsys.readouterr().err
    assert crd.main(["--check", str(CHART_FILE)]) == 0


def test_the_chart_keeps_the_crd_and_helm_reads_no_template_in_it() -> None:
    assert crd.crd()["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert "{{" not in crd.text()
    assert yaml.safe_load(crd.text()) == crd.crd()


def unbounded(schema: dict[str, Any]) -> bool:
    kind = schema.get("type")
    return (
        (kind == "string" and not {"maxLength", "enum"} & set(schema))
        or (kind == "array" and "maxItems" not in schema)
        or (kind in ("integer", "number") and not {"minimum", "maximum"} <= set(schema))
        or ("additionalProperties" in schema and "maxProperties" not in schema)
    )


def test_every_part_of_the_spec_has_an_end() -> None:
    """CEL's cost estimate takes what has no bound for as large as a request can be, and refuses the rule."""
    assert [path for path, schema in SPEC_NODES if unbounded(schema)] == []


def test_the_schema_is_structural() -> None:
    untyped = [path for path, schema in ALL_NODES if not {"type", "x-kubernetes-int-or-string"} & set(schema)]
    assert untyped == []
    foreign = {"$ref", "title", "propertyNames", "const", "$defs", "x-kubernetes-preserve-unknown-fields"}
    assert [path for path, schema in ALL_NODES if foreign & set(schema)] == []
    assert [path for path, schema in ALL_NODES if "null" in str(schema.get("anyOf", ""))] == []


def test_every_field_is_described_in_sentences() -> None:
    fields = [node for node in ALL_NODES if not node[0].endswith(("[]", "{}"))]
    assert [path for path, schema in fields if not schema.get("description", "").endswith(".")] == []


def test_lists_say_how_their_items_are_told_apart() -> None:
    lists = [(path, schema) for path, schema in ALL_NODES if schema.get("type") == "array"]
    assert [path for path, schema in lists if "x-kubernetes-list-type" not in schema] == []
    for path, schema in lists:
        for key in schema.get("x-kubernetes-list-map-keys", ()):
            assert key in schema["items"]["required"], f"{path}: list key {key} may be absent"


def defaulted(schema: dict[str, Any], value: Any) -> Any:
    """`value` with the schema's defaults, as the API server fills them in."""
    if isinstance(value, list):
        return [defaulted(schema["items"], item) for item in value]
    if not isinstance(value, dict) or "properties" not in schema:
        return value
    filled = dict(value)
    for name, field in schema["properties"].items():
        if name not in filled and "default" in field:
            filled[name] = field["default"]
        if name in filled:
            filled[name] = defaulted(field, filled[name])
    return filled


def test_what_the_api_server_fills_in_is_what_the_operator_assumes() -> None:
    """An object written before a default existed must read as one written after."""
    bare = deployment().behind("inference").stored()
    assert SpecDecodeDeployment.parse(defaulted(root(), bare)) == SpecDecodeDeployment.parse(bare)


def test_defaults_reach_an_object_that_names_no_parent_of_theirs() -> None:
    filled = defaulted(root(), deployment().built())["spec"]
    assert filled["replicas"] == 1
    assert filled["drain"] == {
        "preStopSeconds": 15,
        "shutdownTimeoutSeconds": 120,
        "terminationGracePeriodSeconds": 150,
    }
    assert filled["parallelism"] == {"tensor": 1, "pipeline": 1, "data": 1, "expert": False}
    assert filled["speculative"]["rejection"] == {"method": "standard"}
    assert filled["metrics"] == {"scrapeInterval": "10s"}
    assert "traffic" not in filled
    assert "template" not in filled


def test_every_rule_says_what_was_found_what_is_allowed_and_what_to_do() -> None:
    rules = [rule for _, schema in nodes(root()) for rule in schema.get("x-kubernetes-validations", ())]
    assert len(rules) > 20
    for rule in rules:
        assert "found " in rule["messageExpression"]
        assert "; allowed: " in rule["messageExpression"]
        assert rule["message"].startswith("allowed: ")
        assert "\n" not in rule["rule"]
        assert "self.value" not in rule["messageExpression"], "a variable's value may be a secret"


def test_no_text_is_held_against_an_expression_that_people_would_be_shown() -> None:
    assert [path for path, schema in SPEC_NODES if "pattern" in schema] == []


def test_columns_and_subresources_serve_get_and_scale() -> None:
    version = crd.crd()["spec"]["versions"][0]
    narrow = [column["name"] for column in version["additionalPrinterColumns"] if not column.get("priority")]
    wide = [column["name"] for column in version["additionalPrinterColumns"] if column.get("priority") == 1]
    assert narrow == ["Ready", "Replicas", "Revision", "Attested", "Step", "Age"]
    assert wide == ["Image", "Message"]
    assert version["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }
    assert crd.crd()["metadata"]["name"] == names.CRD_NAME


@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize(
    ("key", "taken"),
    [
        ("team", True),
        ("example.com/team_A.b", True),
        ("two words", False),
        ("/team", False),
        ("example.com/", False),
        ("a/b/c", False),
        ("", False),
        ("x" * 64, False),
    ],
)
def test_a_key_that_no_pod_can_have_is_refused_before_it_is_frozen(field: str, key: str, taken: bool) -> None:
    template = dict(SPEC_NODES)["spec.template"]
    rules = [each["rule"] for each in template["x-kubernetes-validations"] if each.get("fieldPath") == f".{field}"]
    (pattern,) = (rule.partition("key.matches('")[2].removesuffix("'))") for rule in rules if "key.matches" in rule)
    assert bool(re.search(pattern, key)) == taken
