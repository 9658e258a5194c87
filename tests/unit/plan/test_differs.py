"""When a live child counts as other than it should be, and how it is set right."""

import copy
from typing import Any

import pytest
from builders import deployment

from specdecode_operator.api.catalogue import CATALOGUE
from specdecode_operator.api.profiles import resolve
from specdecode_operator.build import controllerrevision, httproute, pdb, replicaset, service
from specdecode_operator.build.owner import owner_of
from specdecode_operator.plan.differs import differs, first_difference, has_beyond, merge_patch, quantity, repaired

Json = dict[str, Any]


@pytest.fixture
def desired() -> Json:
    sdd = deployment().replicas(2).env(A="1", B="2").parsed()
    profile, series = resolve(sdd.spec.accelerator), CATALOGUE.carried_by(sdd.spec.engine)
    made = controllerrevision.build(owner_of(sdd), sdd.spec, profile, "0123456789", 1, series=series)
    return replicaset.build(owner_of(sdd), controllerrevision.frozen(made), 2)


@pytest.fixture
def live(desired: Json) -> Json:
    """As the API server gives it back: defaults filled in, quantities in its own spelling."""
    item = copy.deepcopy(desired)
    item["metadata"] |= {"uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"}
    item["metadata"]["managedFields"] = [{"manager": "specdecode-operator"}]
    item["status"] = {"replicas": 2}
    pod = item["spec"]["template"]["spec"]
    pod |= {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"}
    container(item)["terminationMessagePath"] = "/dev/termination-log"
    container(item)["readinessProbe"]["successThreshold"] = 1
    return item


def container(item: Json) -> Json:
    found: Json = item["spec"]["template"]["spec"]["containers"][0]
    return found


def test_what_the_api_server_fills_in_is_no_difference(desired: Json, live: Json) -> None:
    assert first_difference(desired, live) is None


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("1000m", "1"),
        ("1", 1),
        ("1Gi", "1024Mi"),
        ("0.5", "500m"),
        ("1k", "1000"),
        ("1e3", "1000"),
        ("2Gi", 2147483648),
    ],
)
def test_one_quantity_in_two_spellings_is_no_difference(desired: Json, live: Json, left: Any, right: Any) -> None:
    container(desired)["resources"] = {"requests": {"memory": left}}
    container(live)["resources"] = {"requests": {"memory": right}}
    assert not differs(desired, live)


def test_two_quantities_differ(desired: Json, live: Json) -> None:
    container(live)["resources"]["requests"]["cpu"] = "501m"
    assert first_difference(desired, live) == "spec.template.spec.containers.engine.resources.requests.cpu"


def test_text_that_is_no_quantity_is_compared_as_text() -> None:
    assert quantity("soon") is None
    assert quantity(True) is None


def test_the_order_of_a_list_that_is_a_map_does_not_matter(desired: Json, live: Json) -> None:
    container(live)["env"].reverse()
    live["spec"]["template"]["spec"]["volumes"].reverse()
    assert not differs(desired, live)


def test_the_order_of_arguments_matters(desired: Json, live: Json) -> None:
    container(live)["args"].reverse()
    assert differs(desired, live)


def add_env(item: Json) -> None:
    container(item)["env"].append({"name": "FOREIGN", "value": "x"})


def add_argument(item: Json) -> None:
    container(item)["args"].append("--foreign")


def add_container(item: Json) -> None:
    item["spec"]["template"]["spec"]["containers"].append({"name": "sidecar", "image": "x"})


def add_init_container(item: Json) -> None:
    item["spec"]["template"]["spec"]["initContainers"] = [{"name": "first", "image": "x"}]


def add_volume(item: Json) -> None:
    item["spec"]["template"]["spec"]["volumes"].append({"name": "foreign", "hostPath": {"path": "/"}})


def add_mount(item: Json) -> None:
    container(item)["volumeMounts"].append({"name": "tmp", "mountPath": "/foreign"})


def add_command(item: Json) -> None:
    container(item)["command"] = ["sleep"]


def add_env_from(item: Json) -> None:
    container(item)["envFrom"] = [{"secretRef": {"name": "foreign"}}]


def add_host_network(item: Json) -> None:
    item["spec"]["template"]["spec"]["hostNetwork"] = True


def add_privilege(item: Json) -> None:
    container(item)["securityContext"]["privileged"] = True


def add_toleration(item: Json) -> None:
    item["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]


def add_node_selector(item: Json) -> None:
    item["spec"]["template"]["spec"]["nodeSelector"] = {"foreign": "x"}


def add_limit(item: Json) -> None:
    container(item)["resources"].setdefault("limits", {})["cpu"] = "1"


def add_pod_label(item: Json) -> None:
    item["spec"]["template"]["metadata"]["labels"]["foreign"] = "x"


def add_pod_annotation(item: Json) -> None:
    item["spec"]["template"]["metadata"]["annotations"]["foreign"] = "x"


def change_env(item: Json) -> None:
    container(item)["env"][0]["value"] = "changed"


def change_env_to_reference(item: Json) -> None:
    variable = container(item)["env"][0]
    variable.pop("value")
    variable["valueFrom"] = {"fieldRef": {"fieldPath": "status.podIP"}}


def remove_env(item: Json) -> None:
    container(item)["env"].pop()


def remove_probe(item: Json) -> None:
    del container(item)["readinessProbe"]


def remove_label(item: Json) -> None:
    item["metadata"]["labels"].popitem()


def remove_owner(item: Json) -> None:
    item["metadata"]["ownerReferences"] = []


EDITS = [
    add_env,
    add_argument,
    add_container,
    add_init_container,
    add_volume,
    add_mount,
    add_command,
    add_env_from,
    add_host_network,
    add_privilege,
    add_toleration,
    add_node_selector,
    add_limit,
    add_pod_label,
    add_pod_annotation,
    change_env,
    change_env_to_reference,
    remove_env,
    remove_probe,
    remove_label,
    remove_owner,
]


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_an_edit_by_hand_is_seen_and_can_be_undone(desired: Json, live: Json, edit: Any) -> None:
    untouched = copy.deepcopy(live)
    edit(live)
    assert differs(desired, live)
    again = repaired(desired, live)
    assert not differs(desired, again)
    assert not has_beyond(desired, again)
    for part in ("uid", "creationTimestamp"):
        assert again["metadata"][part] == untouched["metadata"][part]


@pytest.mark.parametrize("edit", EDITS[:16], ids=lambda edit: edit.__name__)
def test_an_addition_needs_more_than_server_side_apply(desired: Json, live: Json, edit: Any) -> None:
    edit(live)
    added = edit.__name__.startswith("add_") and edit is not add_argument
    assert has_beyond(desired, live) == added


def test_labels_of_others_on_the_child_itself_are_theirs(desired: Json, live: Json) -> None:
    live["metadata"]["labels"]["team"] = "a"
    live["metadata"]["annotations"] = {"note": "x"}
    live["metadata"]["ownerReferences"].append({"uid": "other", "name": "x"})
    assert not differs(desired, live)


def test_a_merge_patch_makes_one_of_the_other() -> None:
    old = {"a": 1, "b": {"c": [1], "d": 2}, "e": 3}
    new = {"a": 1, "b": {"c": [1, 2], "f": 4}}
    assert merge_patch(old, new) == {"b": {"c": [1, 2], "d": None, "f": 4}, "e": None}


def test_a_service_keeps_its_selector_to_the_letter() -> None:
    sdd = deployment().parsed()
    wanted = service.for_revision(owner_of(sdd), "0123456789")
    live = copy.deepcopy(wanted)
    live["spec"] |= {"clusterIP": "10.0.0.1", "sessionAffinity": "None", "ipFamilies": ["IPv4"]}
    assert not differs(wanted, live)
    live["spec"]["selector"]["foreign"] = "x"
    assert differs(wanted, live)
    assert not differs(wanted, repaired(wanted, live))


def test_a_port_that_was_changed_by_hand_is_taken_away_not_added_to() -> None:
    sdd = deployment().parsed()
    wanted = service.for_all(owner_of(sdd))
    live = copy.deepcopy(wanted)
    live["spec"]["ports"][0] |= {"port": 8001, "nodePort": 0}
    assert has_beyond(wanted, live)
    assert merge_patch(live, repaired(wanted, live)) == {"spec": {"ports": wanted["spec"]["ports"]}}


def test_a_backend_that_somebody_added_to_the_route_is_seen() -> None:
    sdd = deployment().behind("edge").parsed()
    assert sdd.spec.traffic
    wanted = httproute.build(owner_of(sdd), sdd.spec.traffic, {"a": 3})
    live = copy.deepcopy(wanted)
    assert not differs(wanted, live)
    live["spec"]["rules"][0]["backendRefs"].append({"name": "foreign", "port": 80, "weight": 1})
    assert differs(wanted, live)
    live = copy.deepcopy(wanted)
    live["spec"]["rules"][0]["backendRefs"][0]["weight"] = 1
    assert differs(wanted, live)


def test_a_budget_of_zero_is_not_the_same_as_one() -> None:
    sdd = deployment().parsed()
    wanted, live = pdb.build(owner_of(sdd), 0), pdb.build(owner_of(sdd), 1)
    assert differs(wanted, live)
