"""The documents say what is there: links lead somewhere, named targets and commands exist, no field is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from specdecode_dashboards.alerts import ALERTS
from specdecode_dashboards.records import records
from specdecode_local import disk
from specdecode_local.__main__ import COMMANDS
from specdecode_operator.api import names, types
from specdecode_operator.api.profiles import PROFILES
from specdecode_operator.apply.meters import Meters

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md")])
OPERATOR = REPOSITORY / "docs" / "operator.md"

LINK = re.compile(r"\]\((?!https?://)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)]+))?\)")
CODE = re.compile(r"```.*?```|`[^`]+`", re.DOTALL)

by_name = pytest.mark.parametrize("document", DOCUMENTS, ids=[path.name for path in DOCUMENTS])


def anchors(document: Path) -> set[str]:
    """Headings as code hosts link to them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@by_name
def test_relative_links_lead_to_a_file_and_a_heading_of_it(document: Path) -> None:
    broken = []
    for link in LINK.finditer(document.read_text()):
        target = (document.parent / link["path"]) if link["path"] else document
        if not target.exists() or (link["anchor"] and link["anchor"] not in anchors(target)):
            broken.append(link[0])
    assert broken == []


def make_targets() -> dict[str, str]:
    """Targets of the Makefile that `make help` lists, and the two that need no description."""
    text = (REPOSITORY / "Makefile").read_text()
    described = dict(re.findall(r"^([a-z-]+):[^#\n]*## (.+)$", text, re.MULTILINE))
    return described | {"venv": ""}


@by_name
def test_make_targets_that_are_named_exist(document: Path) -> None:
    named = {
        word
        for code in CODE.findall(document.read_text())
        for words in re.findall(r"\bmake ((?:[a-z][a-z-]*)(?: [a-z][a-z-]*)*)", code)
        for word in words.split()
    }
    assert named - set(make_targets()) == set()


def test_the_readme_lists_every_make_target() -> None:
    listed = set(re.findall(r"^\| `make ([a-z-]+)` \|", (REPOSITORY / "README.md").read_text(), re.MULTILINE))
    assert listed == set(make_targets())


@by_name
def test_commands_of_the_local_program_that_are_named_exist(document: Path) -> None:
    named = set(re.findall(r"python3? -m specdecode_local ([a-z][a-z-]*)", document.read_text()))
    assert named <= {command.name for command in COMMANDS}


@by_name
def test_paths_of_the_repository_that_are_named_exist(document: Path) -> None:
    roots = "operator|charts|images|engine_patches|local|examples|tests|docs|requirements"
    named = {
        code.strip("`") for code in CODE.findall(document.read_text()) if re.fullmatch(rf"`(?:{roots})/[\w./-]+`", code)
    }
    assert [path for path in sorted(named) if not (REPOSITORY / path).exists()] == []


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Paths of a model's fields as they are written in an object, leaves only; lists and maps are leaves."""
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        inner = next((part for part in parts(field.annotation) if is_model(part)), None)
        if inner is not None and not any(part in (tuple, list) for part in parts(field.annotation)):
            yield from fields(inner, f"{path}.")
        else:
            yield path


def is_model(part: object) -> bool:
    return isinstance(part, type) and issubclass(part, BaseModel)


def parts(annotation: object) -> list[object]:
    """Every type that an annotation is put together from."""
    origin = getattr(annotation, "__origin__", None)
    arguments = getattr(annotation, "__args__", ())
    return [annotation, origin, *(deep for argument in arguments for deep in parts(argument))]


def documented_fields() -> set[str]:
    text = OPERATOR.read_text()
    spec = text[text.index("### spec.model") : text.index("## What the operator makes of it")]
    return set(re.findall(r"^\| `([a-zA-Z.]+)` \|", spec, re.MULTILINE)) - set(PROFILES)


SUMMED_UP = {
    "accelerator.probes": r"accelerator\.probes\..+",
    "template.resources": r"template\.resources\..+",
}
"""One row for several fields whose names the row gives."""


def test_every_field_of_the_spec_has_its_row_and_no_other_has() -> None:
    wanted = {
        next((row for row, pattern in SUMMED_UP.items() if re.fullmatch(pattern, path)), path)
        for path in fields(types.Spec)
    }
    assert documented_fields() == wanted


def test_defaults_in_the_document_are_the_schemas() -> None:
    rows = dict(re.findall(r"^\| `([a-zA-Z.]+)` \| `([^`]+)` \|", OPERATOR.read_text(), re.MULTILINE))
    wrong = {}
    for path, shown in rows.items():
        if path.split(".")[0] not in {field.alias or name for name, field in types.Spec.model_fields.items()}:
            continue
        default = default_of(path)
        if default is not None and shown != default:
            wrong[path] = (shown, default)
    assert wrong == {}


def default_of(path: str) -> str | None:
    """A field's default as YAML writes it; None where the object has none."""
    model: type[BaseModel] = types.Spec
    *parents, last = path.split(".")
    for part in parents:
        annotation = field_of(model, part).annotation
        model = next(found for found in parts(annotation) if isinstance(found, type) and issubclass(found, BaseModel))
    default = field_of(model, last).get_default(call_default_factory=True)
    if default is None or isinstance(default, BaseModel) or repr(default) == "PydanticUndefined":
        return None
    return str(default).lower() if isinstance(default, bool) else "[]" if default == () else str(default)


def field_of(model: type[BaseModel], alias: str) -> object:
    return next(field for name, field in model.model_fields.items() if (field.alias or name) == alias)


def test_every_condition_and_reason_is_described() -> None:
    text = OPERATOR.read_text()
    table = text[text.index("### Conditions") : text.index("## What happens on bad input")]
    described = {(row[0], row[1]) for row in re.findall(r"^\| ([A-Z]\w+) \| `(\w+)` \|", table, re.MULTILINE)}
    reasons = {value for name, value in vars(names).items() if name.startswith("REASON_")}
    assert {reason for _, reason in described} == reasons
    assert {condition for condition, _ in described} == set(names.CONDITIONS)


def test_every_field_of_the_status_is_described() -> None:
    text = OPERATOR.read_text()
    table = text[text.index("## Status") : text.index("### Conditions")]
    described = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.+?) \|", table, re.MULTILINE))))
    assert described == {field.alias or name for name, field in types.Status.model_fields.items()}


def test_profiles_are_described_as_they_are() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (\d+) \| (\w+) \| (.+?) \| .+? \| (\w+) \| (\d+) min \|$", OPERATOR.read_text(), re.M
    )
    shown = {row[0]: (int(row[1]), row[2], row[4], int(row[5])) for row in rows}
    assert shown == {
        name: (
            profile.gpus_per_node,
            profile.arch or "any",
            profile.shm_size,
            profile.startup.period_seconds * profile.startup.failure_threshold // 60,
        )
        for name, profile in PROFILES.items()
    }


def test_the_disk_that_the_readme_speaks_of_is_what_the_program_asks_for() -> None:
    (stated,) = re.findall(r"asks for (\d+) GB of free disk", (REPOSITORY / "README.md").read_text())
    first = disk.needs(programs=False, images=False, cluster=False)
    assert int(stated) == round(sum(need.gigabytes for need in first))


def test_every_metric_of_the_operator_is_described() -> None:
    described = set(re.findall(r"^\| `(specdecode_\w+)` \|", OPERATOR.read_text(), re.MULTILINE))
    exported = {metric.name + ("_total" if metric.type == "counter" else "") for metric in Meters().registry.collect()}
    assert described == exported


def test_every_alert_and_rule_is_described() -> None:
    text = (REPOSITORY / "docs" / "dashboards.md").read_text()
    described = dict(re.findall(r"^\| `(Specdecode\w+)` \| (\w+) \|", text, re.MULTILINE))
    assert described == {alert.name: alert.severity for alert in ALERTS}
    assert [record.name for record in records() if record.name.partition("_count:")[0] not in text] == []
