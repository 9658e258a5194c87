"""The real engine through the whole path: a hybrid target, a DSpark drafter, tokens, the acceptance it reports."""

from __future__ import annotations

import httpx
import pytest
import yaml
from apiserver import Object
from commands import Command
from gateway import complete
from localpods import LocalPods
from objects import merged
from prometheus_client.parser import text_string_to_metric_families
from waiting import await_that
from workspace import Workspace

from specdecode_local import images, paths
from specdecode_operator.api import names

EXAMPLE = paths.REPOSITORY / "examples" / "local-cpu.yaml"
IMAGE = "engine-cpu-0.33.0"
READY_SECONDS = 420
TOKENS = 12


def example(hostname: str) -> Object:
    """The example as its comment says to use it, with one replica and a hostname of the test's own."""
    written: Object = yaml.safe_load(EXAMPLE.read_text().replace("ENGINE_IMAGE", images.build(IMAGE)))
    return merged(written, {"spec": {"replicas": 1, "minAvailable": None, "traffic": {"hostnames": [hostname]}}})


def sums(text: str) -> dict[str, float]:
    """Each counter of the engine, summed over its labels."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


def test_the_engines_image_is_pulled_by_its_digest(kubectl: Command, namespace: str) -> None:
    """It takes half a minute, here beside other tests: the one below, which goes alone, then has it."""
    image = images.build(IMAGE)
    pods = LocalPods(kubectl=kubectl, namespace=namespace, image=image)
    pods.apply(pods.pod("here", command=["true"], restartPolicy="Never"))
    ended = await_that(
        "a container of it has ended",
        lambda: pods.status("here").get("state", {}).get("terminated"),
        seconds=READY_SECONDS,
        state=lambda: pods.describe("here"),
    )
    assert ended["exitCode"] == 0
    assert pods.status("here")["imageID"].endswith(image.partition("@")[2])


@pytest.mark.engine
@pytest.mark.alone
def test_the_example_drafts_verifies_and_answers_through_the_gateway(workspace: Workspace) -> None:
    hostname = f"{workspace.name}.test"
    manifest = example(hostname)
    name = manifest["metadata"]["name"]
    workspace.create(manifest)
    sdd = workspace.await_settled(name, seconds=READY_SECONDS)
    workspace.await_condition(name, names.CONDITION_ROUTABLE, status="True")

    model = sdd["spec"]["model"]
    served = model.get("servedName") or model["name"]
    answer = workspace.await_that(
        "a completion comes through the gateway",
        lambda: complete(hostname, model=served, tokens=TOKENS, seconds=120),
        seconds=150,
    )
    assert answer["usage"]["completion_tokens"] == TOKENS

    address = workspace.pods(name)[0]["status"]["podIP"]
    metrics = sums(httpx.get(f"http://{address}:{names.PORT}{names.METRICS_PATH}", timeout=30, trust_env=False).text)
    drafts = metrics["vllm:spec_decode_num_drafts_total"]
    accepted = metrics["vllm:spec_decode_num_accepted_tokens_total"]
    assert drafts > 0
    assert 1 <= 1 + accepted / drafts <= 1 + sdd["spec"]["speculative"]["numSpeculativeTokens"]
    print(f"{TOKENS} tokens in {drafts:.0f} drafts: acceptance length {1 + accepted / drafts:.2f}")
