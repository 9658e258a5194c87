"""What the operator may do: as little as it needs, each verb with its reason, in the template and in the docs alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from chart import CHART, REPOSITORY, VALUE_SETS, Chart, Json

RULES = CHART / "templates" / "_rules.tpl"
SECURITY = REPOSITORY / "docs" / "security.md"

VERB = re.compile(r"^ +- (?P<verb>[a-z]+)(?: # (?P<reason>.+))?$")


@dataclass(frozen=True)
class Right:
    """One verb on one resource."""

    group: str
    resource: str
    verb: str
    reason: str

    @property
    def qualified(self) -> str:
        """The resource as kubectl spells it: `deployments.apps/scale`."""
        name, slash, subresource = self.resource.partition("/")
        return f"{name}.{self.group}{slash}{subresource}" if self.group else self.resource


def written_rights() -> Iterator[Right]:
    """The rights as the template's text has them, comments included."""
    group, resources = "", [""]
    for line in RULES.read_text().splitlines():
        if found := re.search(r"apiGroups: \[(.*)\]", line):
            group = found[1].strip('"')
        elif found := re.search(r"resources: \[(.*)\]", line):
            resources = found[1].split(", ")
        elif found := VERB.match(line):
            yield from (Right(group, resource, found["verb"], found["reason"] or "") for resource in resources)


def rules(chart: Chart, values: str) -> list[Json]:
    """The operator's own rules: of its ClusterRole, or of each of its Roles."""
    rendered = chart.render(values)
    own = [role for role in rendered.of_kind("ClusterRole") if role["metadata"]["name"] == "specdecode-operator"]
    return [rule for role in own + rendered.of_kind("Role") for rule in role["rules"]]


@pytest.mark.parametrize("values", VALUE_SETS)
def test_no_right_is_a_wildcard(chart: Chart, values: str) -> None:
    for rule in rules(chart, values):
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]], rule


@pytest.mark.parametrize("values", VALUE_SETS)
def test_no_secret_is_read_and_no_right_can_be_raised(chart: Chart, values: str) -> None:
    untouchable = {
        "secrets", "serviceaccounts", "serviceaccounts/token", "nodes", "namespaces", "pods/exec",
        "roles", "rolebindings", "clusterroles", "clusterrolebindings",
    }  # fmt: skip
    for rule in rules(chart, values):
        assert not untouchable & set(rule["resources"]), rule
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"]), rule


@pytest.mark.parametrize("values", VALUE_SETS)
def test_the_object_itself_is_read_only_and_its_status_the_only_thing_written(chart: Chart, values: str) -> None:
    own = [rule for rule in rules(chart, values) if rule["apiGroups"] == ["specdecode.io"]]
    verbs = {resource: set(rule["verbs"]) for rule in own for resource in rule["resources"]}
    assert verbs.pop("specdecodedeployments") == {"get", "list", "watch"}
    assert verbs == {"specdecodedeployments/status": {"update"}, "specdecodedeployments/finalizers": {"update"}}


def test_every_verb_says_why_it_is_there() -> None:
    silent = [right for right in written_rights() if len(right.reason.split()) < 3]
    assert silent == []


def test_the_template_is_read_whole(chart: Chart) -> None:
    """The two tests of the text stand on this: no rule escapes their reading."""
    rendered = {
        (group, resource, verb)
        for rule in rules(chart, "digest")
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {(right.group, right.resource, right.verb) for right in written_rights()} == rendered


def test_watching_some_namespaces_takes_no_cluster_wide_right(chart: Chart) -> None:
    rendered = chart.render("namespaced")
    assert {role["metadata"]["namespace"] for role in rendered.of_kind("Role")} == {"team-a", "team-b"}
    assert rendered.of_kind("ClusterRoleBinding") == []
    for role in rendered.of_kind("ClusterRole"):
        assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-edit"] == "true"


def test_both_modes_grant_the_same_rights(chart: Chart) -> None:
    per_role = len(rules(chart, "namespaced")) // 2
    assert rules(chart, "namespaced")[:per_role] == rules(chart, "digest")


def test_users_get_the_objects_through_the_roles_that_they_have(chart: Chart) -> None:
    roles = {role["metadata"]["name"]: role for role in chart.render().of_kind("ClusterRole")}
    view, edit = roles["specdecode-operator-view"], roles["specdecode-operator-edit"]
    aggregate = "rbac.authorization.k8s.io/aggregate-to-"
    assert {to for to in ("view", "edit", "admin") if view["metadata"]["labels"].get(aggregate + to)} == {
        "view", "edit", "admin",
    }  # fmt: skip
    assert {to for to in ("view", "edit", "admin") if edit["metadata"]["labels"].get(aggregate + to)} == {
        "edit", "admin",
    }  # fmt: skip
    assert {verb for rule in view["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert "specdecodedeployments/status" not in [name for rule in edit["rules"] for name in rule["resources"]]


def test_the_docs_show_the_same_rights_and_reasons() -> None:
    row = re.compile(r"^\| `(?P<resource>[^`]+)` \| (?P<verb>[a-z]+) \| (?P<reason>[^|]+) \|$", re.MULTILINE)
    shown = {
        (found["resource"], found["verb"], found["reason"].strip()) for found in row.finditer(SECURITY.read_text())
    }
    assert shown == {(right.qualified, right.verb, right.reason) for right in written_rights()}
