"""One manifest per child kind, each from what a revision froze."""

from typing import Any

import pytest
from builders import IMAGE, DeploymentBuilder, deployment

from specdecode_operator.api import names
from specdecode_operator.api.catalogue import CATALOGUE
from specdecode_operator.api.profiles import resolve
from specdecode_operator.build import (
    computedomain,
    controllerrevision,
    httproute,
    leaderworkerset,
    pdb,
    podmonitor,
    replicaset,
    service,
)
from specdecode_operator.build.frozen import Frozen
from specdecode_operator.build.owner import owner_of
from specdecode_operator.build.revision import revision_of

ONE_TRAY = deployment().on("gb200")
TWO_TRAYS = deployment().on("gb200", nodesPerReplica=2).set("spec.parallelism.tensor", 8)
OWNER = owner_of(deployment().parsed())


def stored(builder: DeploymentBuilder, number: int = 1) -> dict[str, Any]:
    seen = builder.parsed()
    profile = resolve(seen.spec.accelerator)
    series = CATALOGUE.carried_by(seen.spec.engine)
    return controllerrevision.build(owner_of(seen), seen.spec, profile, revision_of(seen.spec), number, series=series)


def frozen(builder: DeploymentBuilder) -> Frozen:
    return controllerrevision.frozen(stored(builder))


# --- ControllerRevision -----------------------------------------------------------------------------------------------


def test_a_revision_reads_back_as_it_was_frozen() -> None:
    obj = stored(ONE_TRAY, number=3)
    kept = controllerrevision.frozen(obj)
    assert obj["revision"] == 3
    assert obj["metadata"]["name"] == f"demo-{kept.revision}"
    assert kept.revision == revision_of(ONE_TRAY.spec())
    assert (kept.engine_version, kept.image, kept.profile, kept.nodes_per_replica) == ("0.33.0", IMAGE, "gb200", 1)
    assert kept.template == obj["data"]["template"]
    assert kept.worker_template is None


def test_what_a_pod_must_attest_is_frozen_with_its_revision() -> None:
    """A newer catalogue expects other files of new revisions; those that serve were made with the ones of before."""
    series = CATALOGUE.of_line("0.30.0")
    assert series is not None
    kept = frozen(ONE_TRAY.set("spec.engine.version", "0.30.0").switched_off("splitkv-decode"))
    assert kept.expected is not None
    assert (kept.expected.series, kept.expected.manifest_digest) == (series.name, series.manifest_digest)
    assert kept.expected.states["splitkv-decode"] == "disabled"
    assert set(kept.expected.states.values()) == {"active", "disabled"}


def test_a_stock_engine_is_frozen_as_one_and_attests_nothing() -> None:
    assert frozen(ONE_TRAY.stock()).stock
    assert frozen(ONE_TRAY.stock()).expected is None


def test_a_revision_from_before_attestation_still_reads() -> None:
    obj = stored(ONE_TRAY)
    del obj["data"]["expected"], obj["data"]["stock"]
    kept = controllerrevision.frozen(obj)
    assert (kept.expected, kept.stock) == (None, False)


def test_pods_come_from_what_was_frozen_whatever_would_be_rendered_now() -> None:
    """An operator whose builders add a variable must restart nothing."""
    obj = stored(ONE_TRAY)
    obj["data"]["template"]["spec"]["containers"][0]["env"] = [{"name": "OLD", "value": "1"}]
    child = replicaset.build(OWNER, controllerrevision.frozen(obj), 2)
    assert child["spec"]["template"] == obj["data"]["template"]


# --- ReplicaSet, LeaderWorkerSet, ComputeDomain -----------------------------------------------------------------------


def test_a_replica_set_selects_its_own_revision_and_belongs_to_the_object() -> None:
    kept = frozen(ONE_TRAY)
    child = replicaset.build(OWNER, kept, 4)
    assert child["spec"]["replicas"] == 4
    selector = child["spec"]["selector"]["matchLabels"]
    assert selector == {names.LABEL_NAME: "demo", names.LABEL_REVISION: kept.revision}
    assert selector.items() <= child["spec"]["template"]["metadata"]["labels"].items()
    (reference,) = child["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["name"], reference["controller"]) == ("SpecDecodeDeployment", "demo", True)
    assert "finalizers" not in child["metadata"]


def test_building_a_child_leaves_what_is_frozen_alone() -> None:
    kept = frozen(TWO_TRAYS)
    before = str(kept)
    leaderworkerset.build(OWNER, kept, 1)["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["spec"].clear()
    replicaset.build(OWNER, kept, 1)["spec"]["template"]["metadata"]["labels"].clear()
    assert str(kept) == before


def test_a_replica_over_two_trays_is_a_group_of_two_pods() -> None:
    child = leaderworkerset.build(OWNER, frozen(TWO_TRAYS), 3)
    group = child["spec"]["leaderWorkerTemplate"]
    assert (child["spec"]["replicas"], group["size"]) == (3, 2)
    assert names.LABEL_SERVES in group["leaderTemplate"]["metadata"]["labels"]
    assert names.LABEL_SERVES not in group["workerTemplate"]["metadata"]["labels"]


def test_followers_find_their_leader_by_a_service_of_their_group() -> None:
    """The set's shared headless Service would have the name of the revision's Service, and so would not be made."""
    child = leaderworkerset.build(OWNER, frozen(TWO_TRAYS), 3)
    assert child["metadata"]["name"] == service.for_revision(OWNER, frozen(TWO_TRAYS).revision)["metadata"]["name"]
    assert child["spec"]["networkConfig"] == {"subdomainPolicy": "UniquePerReplica"}


def test_the_partition_keeps_running_groups_from_being_rolled() -> None:
    rolling = leaderworkerset.build(OWNER, frozen(TWO_TRAYS), 3)["spec"]["rolloutStrategy"][
        "rollingUpdateConfiguration"
    ]
    assert rolling["partition"] == 3


def test_a_one_node_revision_makes_no_group() -> None:
    with pytest.raises(ValueError, match="no worker template"):
        leaderworkerset.build(OWNER, frozen(ONE_TRAY), 1)


def test_a_group_claims_from_the_domain_of_its_revision() -> None:
    kept = frozen(TWO_TRAYS)
    domain = computedomain.build(OWNER, kept)
    claim_template = domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
    group = leaderworkerset.build(OWNER, kept, 1)["spec"]["leaderWorkerTemplate"]
    for template in (group["leaderTemplate"], group["workerTemplate"]):
        assert template["spec"]["resourceClaims"][0]["resourceClaimTemplateName"] == claim_template


# --- Services, route, budget, monitor ---------------------------------------------------------------------------------


def test_services_reach_only_pods_that_answer() -> None:
    one = service.for_revision(OWNER, "abcdef0123")
    every = service.for_all(OWNER)
    assert (one["metadata"]["name"], every["metadata"]["name"]) == ("demo-abcdef0123", "demo")
    assert one["spec"]["selector"] == {**every["spec"]["selector"], names.LABEL_REVISION: "abcdef0123"}
    assert every["spec"]["selector"] == {names.LABEL_NAME: "demo", names.LABEL_SERVES: "true"}
    labels = frozen(deployment()).template["metadata"]["labels"]
    assert every["spec"]["selector"].items() <= labels.items()


def route(builder: DeploymentBuilder, weights: dict[str, int]) -> dict[str, Any]:
    seen = builder.parsed()
    assert seen.spec.traffic is not None
    spec: dict[str, Any] = httproute.build(owner_of(seen), seen.spec.traffic, weights)["spec"]
    return spec


def test_a_route_lists_revisions_by_name_with_their_weights() -> None:
    backends = route(deployment().behind("inference"), {"bbb": 1, "aaa": 3})["rules"][0]["backendRefs"]
    assert [(backend["name"], backend["weight"], backend["port"]) for backend in backends] == [
        ("demo-aaa", 3, 8000),
        ("demo-bbb", 1, 8000),
    ]


def test_a_route_always_sets_a_time_limit_since_gateways_cut_streams_without_one() -> None:
    builder = deployment().behind("inference")
    assert route(builder, {})["rules"][0]["timeouts"] == {"request": "0s"}
    limited = builder.set("spec.traffic.requestTimeout", "10m")
    assert route(limited, {})["rules"][0]["timeouts"] == {"request": "10m"}


def test_a_route_leads_nowhere_while_nothing_may_be_routed_to() -> None:
    assert "backendRefs" not in route(deployment().behind("inference"), {})["rules"][0]


def test_a_gateway_is_in_the_objects_namespace_unless_it_says_another() -> None:
    builder = deployment().behind("inference", "chat.example.com")
    spec = route(builder, {})
    assert spec["hostnames"] == ["chat.example.com"]
    assert spec["parentRefs"][0]["namespace"] == "serving"
    assert "sectionName" not in spec["parentRefs"][0]
    named = builder.set("spec.traffic.gateway", {"name": "inference", "namespace": "gateway", "sectionName": "https"})
    parent = route(named, {})["parentRefs"][0]
    assert (parent["namespace"], parent["sectionName"]) == ("gateway", "https")


def test_a_budget_covers_all_revisions_and_lets_broken_pods_go() -> None:
    spec = pdb.build(OWNER, 3)["spec"]
    assert spec["minAvailable"] == 3
    assert spec["selector"]["matchLabels"] == {names.LABEL_NAME: "demo"}
    assert spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_a_budget_does_not_count_a_pod_that_was_taken_out_of_its_services() -> None:
    (rule,) = pdb.build(OWNER, 3)["spec"]["selector"]["matchExpressions"]
    assert rule == {"key": names.LABEL_SERVES, "operator": "NotIn", "values": ["false"]}


def test_a_budget_never_spares_a_follower() -> None:
    """4 replicas of 2 pods, 3 to keep: one of the 8 pods may go."""
    assert pdb.build(OWNER, 3, followers=4)["spec"]["minAvailable"] == 7


def test_a_monitor_names_series_as_the_queries_expect() -> None:
    spec = podmonitor.build(OWNER, deployment().spec().metrics)["spec"]
    (endpoint,) = spec["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["path"], endpoint["interval"]) == ("http", "/metrics", "10s")
    relabelings = {rule["targetLabel"]: rule["sourceLabels"][0] for rule in endpoint["relabelings"]}
    assert relabelings == names.TARGET_LABELS
