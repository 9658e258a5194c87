"""Real engines through the whole path: a hybrid target, a DSpark drafter, tokens, the acceptance they report."""

from __future__ import annotations

import asyncio

import pytest
import yaml
from apiserver import Object
from commands import Command
from enginepod import attestation, counters
from gateway import complete
from localpods import LocalPods
from objects import COMPLETIONS_URL, merged
from rolls import roll_under_load
from waiting import await_that
from workspace import Workspace

from specdecode_local import images, paths
from specdecode_local.load import Target
from specdecode_operator.api import names

EXAMPLE = paths.REPOSITORY / "examples" / "local-cpu.yaml"
OLDER, NEWER = "0.30.0", "0.33.0"
READY_SECONDS = 420
ROLL_SECONDS = 1200
TOKENS = 12


def engine(line: str) -> Object:
    """`spec.engine` of a release line."""
    return {"version": line, "image": images.build(f"engine-cpu-{line}")}


def example(hostname: str, spec: Object) -> Object:
    """The example with a hostname of the test's own; `spec` is merged over it."""
    written: Object = yaml.safe_load(EXAMPLE.read_text())
    change = {"minAvailable": None, "traffic": {"hostnames": [hostname]}}
    return merged(written, {"spec": merged(change, spec)})


def serving(workspace: Workspace, spec: Object) -> tuple[str, Target]:
    """Make the object and wait until completions come through the gateway; its name, and where those go."""
    hostname = f"{workspace.name}.test"
    manifest = example(hostname, spec)
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
    return name, Target(url=COMPLETIONS_URL, model=served, host=hostname, max_tokens=TOKENS)


def test_the_engines_image_is_pulled_by_its_digest(kubectl: Command, namespace: str) -> None:
    """It takes half a minute, here beside other tests: the one below, which goes alone, then has it."""
    image = images.build(f"engine-cpu-{NEWER}")
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
    name, _ = serving(workspace, {"replicas": 1, "engine": engine(NEWER)})
    metrics = counters(workspace.pods(name)[0])
    drafts = metrics["vllm:spec_decode_num_drafts_total"]
    accepted = metrics["vllm:spec_decode_num_accepted_tokens_total"]
    drafted = workspace.sdd(name)["spec"]["speculative"]["numSpeculativeTokens"]
    assert drafts > 0
    assert 1 <= 1 + accepted / drafts <= 1 + drafted
    print(f"{TOKENS} tokens in {drafts:.0f} drafts: acceptance length {1 + accepted / drafts:.2f}")


@pytest.mark.engine
@pytest.mark.alone
def test_a_serving_object_changes_its_engine_line_and_loses_no_request(workspace: Workspace, long_form: bool) -> None:
    if not long_form:
        pytest.skip("starts the real engines of both lines, minutes of two cores: long form only")
    name, target = serving(workspace, {"replicas": 2, "minAvailable": 1, "engine": engine(OLDER)})
    workspace.await_condition(name, names.CONDITION_ATTESTED, status="True", contains=f"v{OLDER}")
    assert {attestation(pod)["release"] for pod in workspace.ready_pods(name)} == {OLDER}

    with workspace.history(name) as history:
        report = asyncio.run(
            roll_under_load(workspace, name, {"engine": engine(NEWER)}, target=target, streams=1, seconds=ROLL_SECONDS)
        )
    print(f"while the line changed: {report.sentence()}; fewest Ready {history.fewest_ready()} of 2")
    assert report.completed > 0
    assert report.failed == 0, f"{report.sentence()}\n{workspace.state()}\n{history.story()}"
    assert history.fewest_ready() >= 1, history.story()
    workspace.await_condition(name, names.CONDITION_ATTESTED, status="True", contains=f"v{NEWER}")
    pods = workspace.ready_pods(name)
    assert [attestation(pod)["release"] for pod in pods] == [NEWER, NEWER]
    assert all(counters(pod)["specdecode_engine_info"] == 1 for pod in pods)
