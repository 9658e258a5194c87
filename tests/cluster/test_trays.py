"""A GB200 rack: 18 trays of four GPUs (kwok nodes), filled by the real scheduler. kwok's pods serve nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from apiserver import POD, PRIORITY_CLASS, REPLICA_SET, ApiServer, Kind, Object
from objects import drafts, standin
from workspace import Workspace, uids

from specdecode_local import trays

RUNTIME_CLASS = Kind("/apis/node.k8s.io/v1", "runtimeclasses", namespaced=False)
PRIORITY = "specdecode-test-engines"
COMPETITOR = "competitor"

# Both fill the one rack.
pytestmark = [pytest.mark.xdist_group("rack"), pytest.mark.minutes]


@pytest.fixture(scope="module")
def rack(api: ApiServer) -> Iterator[set[str]]:
    """One full rack, with what a GPU operator and an administrator bring to it; gives the trays' names."""
    before = len(trays.existing())
    trays.ensure(trays.TRAYS_PER_RACK)
    if api.get(RUNTIME_CLASS, "nvidia") is None:
        runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}}
        api.create(RUNTIME_CLASS, {**runtime, "handler": "nvidia"})
    if api.get(PRIORITY_CLASS, PRIORITY) is None:
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": PRIORITY}}
        api.create(PRIORITY_CLASS, {**priority, "value": 1000})
    yield {trays.name(index) for index in range(trays.TRAYS_PER_RACK)}
    api.delete(PRIORITY_CLASS, PRIORITY)
    trays.ensure(before)


def tray_object(name: str, image: str, replicas: int) -> Object:
    """One tray a replica: tensor parallel over its four GPUs."""
    spec = {
        # kwok's pods serve nothing, so there is nobody to attest.
        "engine": {"build": "stock"},
        "accelerator": {"profile": "gb200", "probes": None},
        "parallelism": {"tensor": 4},
        "template": {"resources": None, "priorityClassName": PRIORITY},
    }
    return standin(name, image, replicas=replicas, spec=spec)


def nodes_of(pods: list[Object]) -> list[str]:
    return sorted(pod["spec"]["nodeName"] for pod in pods)


def test_sixteen_one_tray_replicas_land_on_sixteen_trays_and_nowhere_else(
    workspace: Workspace, rack: set[str], standin_image: str
) -> None:
    name = "rack"
    workspace.create(tray_object(name, standin_image, 16))
    sdd = workspace.await_settled(name)
    used = nodes_of(workspace.ready_pods(name))
    assert len(used) == len(set(used)) == 16, used
    assert set(used) <= rack, used
    assert sdd["status"]["profile"]["gpusPerReplica"] == 4
    print(f"16 replicas on {len(set(used))} trays, by the scheduler: {', '.join(used)}")


def competitor(namespace: str) -> Object:
    """Somebody else's pod that waits for a whole tray, at the default priority."""
    labels = {"app": COMPETITOR}
    container = {
        "name": "main",
        "image": "127.0.0.1:5000/somebody/else:1",
        "resources": {"limits": {"nvidia.com/gpu": "4"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": COMPETITOR, "namespace": namespace},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                    "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-GB200"},
                    "terminationGracePeriodSeconds": 1,
                    "containers": [container],
                },
            },
        },
    }


def test_a_full_rack_with_a_competitor_waiting_still_swaps_one_slot_down_at_a_time(
    workspace: Workspace, rack: set[str], standin_image: str
) -> None:
    name = "full"
    workspace.await_that("the rack is empty", lambda: not gpu_pods(workspace.api), seconds=60)
    workspace.create(tray_object(name, standin_image, 18))
    first = workspace.await_settled(name)["status"]["stable"]["revision"]
    workspace.api.create(REPLICA_SET, competitor(workspace.name), workspace.name)
    workspace.await_that("the competitor waits for a tray", lambda: competitor_waits(workspace))

    with workspace.history(name) as history:
        workspace.change(name, drafts(2))
        sdd = workspace.await_settled(name, seconds=420)

    assert sdd["status"]["stable"]["revision"] != first
    assert set(nodes_of(workspace.ready_pods(name))) == rack, "every tray has its replica again"
    assert history.fewest_ready() >= 17, history.story()
    assert history.most_slots_held() <= 18, history.story()
    assert not history.first & uids(workspace.pods(name))
    assert len(history.seen) == 36, "each slot changed once"
    workspace.await_that("the competitor waits again", lambda: competitor_waits(workspace))
    print(f"18 slots swapped in {history.moments[-1].seconds:.0f} s, fewest Ready at once {history.fewest_ready()}")


def competitor_waits(workspace: Workspace) -> bool:
    pods = workspace.api.list(POD, workspace.name, selector=f"app={COMPETITOR}")
    return any(not pod["spec"].get("nodeName") for pod in pods)


def gpu_pods(api: ApiServer) -> list[str]:
    return [pod["metadata"]["name"] for pod in api.list(POD) if pod["spec"].get("nodeName", "").startswith("tray-")]
