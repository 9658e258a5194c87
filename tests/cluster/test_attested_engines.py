"""Pods that aren't what their revision says: no requests, a plain message, and the others serve on.

The stand-in runs the engine's own check and attestation code; what it is told to be wrong about is in its environment,
as an image of another series, an edited file or a stock release would be.
"""

from __future__ import annotations

from apiserver import ENDPOINT_SLICE, POD, ROUTE, Object
from enginepod import attestation
from gateway import complete
from objects import environment, merged, standin, unknown_digest
from podhistory import restarts
from workspace import Workspace, uids

from specdecode_operator.api import names
from specdecode_operator.api.catalogue import CATALOGUE

NAME = "attested"
ATTESTS = "STANDIN_ATTESTS"
ATTESTATION = "STANDIN_ATTESTATION"
EDITED_FILE = "STANDIN_EDITED_FILE"
RELEASE = "STANDIN_RELEASE"
EXIT_AFTER = "STANDIN_EXIT_AFTER_SECONDS"


def engine(settings: dict[str, str] | None = None, **fields: object) -> Object:
    """A change of `spec.engine`: the stand-in's settings, and fields beside them."""
    return {"engine": {"env": environment(settings or {}), **fields}}


def serving(workspace: Workspace, image: str, spec: Object | None = None) -> str:
    """Two replicas that serve and are attested, one of which may be spared; the hostname of their route."""
    hostname = f"{workspace.name}.test"
    change = merged({"minAvailable": 1}, spec or {})
    workspace.create(standin(NAME, image, replicas=2, hostname=hostname, spec=change))
    workspace.await_settled(NAME)
    workspace.await_condition(NAME, names.CONDITION_ATTESTED, status="True", reason=names.REASON_ATTESTED)
    workspace.await_condition(NAME, names.CONDITION_ROUTABLE, status="True")
    return hostname


def routed(workspace: Workspace) -> set[str]:
    """Revisions that the route names."""
    route = workspace.api.get(ROUTE, NAME, workspace.name)
    assert route is not None
    refs = [ref["name"] for rule in route["spec"]["rules"] for ref in rule.get("backendRefs") or ()]
    return {ref.removeprefix(f"{NAME}-") for ref in refs}


def endpoints(workspace: Workspace) -> set[str]:
    """Names of pods that any Service of the object sends requests to."""
    slices = workspace.api.list(ENDPOINT_SLICE, workspace.name, selector=names.selector(NAME))
    return {
        endpoint["targetRef"]["name"]
        for item in slices
        for endpoint in item.get("endpoints") or ()
        if endpoint["conditions"].get("ready", True)
    }


def pods_of(workspace: Workspace, revision: str) -> list[Object]:
    return [pod for pod in workspace.pods(NAME) if pod["metadata"]["labels"][names.LABEL_REVISION] == revision]


def test_a_pod_that_attests_another_manifest_gets_no_requests_and_stops_the_replacement(
    workspace: Workspace, standin_image: str
) -> None:
    hostname = serving(workspace, standin_image)
    first = workspace.sdd(NAME)["status"]["stable"]["revision"]

    workspace.change(NAME, engine({ATTESTS: "f" * 64}))
    workspace.await_condition(
        NAME,
        names.CONDITION_ATTESTED,
        status="False",
        reason=names.REASON_DIFFERS,
        contains="attests manifest ffffffff",
    )
    stopped = workspace.await_condition(
        NAME, names.CONDITION_PROGRESSING, status="False", reason=names.REASON_NOT_ATTESTED
    )
    wrong = workspace.sdd(NAME)["status"]["candidate"]["revision"]
    (pod,) = pods_of(workspace, wrong)
    assert pod["metadata"]["name"] in stopped["message"]
    assert "upgrade the operator" in stopped["message"]
    workspace.await_that("no Service has it", lambda: pod["metadata"]["name"] not in endpoints(workspace))

    def held() -> bool:
        complete(hostname)
        return routed(workspace) == {first} and len(pods_of(workspace, wrong)) == 1

    workspace.holds_for("requests are answered by the first revision alone", held, seconds=8)
    told = [event for event in workspace.events(NAME) if event["reason"] == "PodTakenOut"]
    assert len(told) == 1, told

    workspace.change(NAME, engine())
    sdd = workspace.await_settled(NAME)
    assert sdd["status"]["stable"]["revision"] == first
    workspace.await_condition(NAME, names.CONDITION_ATTESTED, status="True")


def test_an_edited_file_stops_the_engines_start_with_a_plain_message(workspace: Workspace, standin_image: str) -> None:
    hostname = serving(workspace, standin_image)
    workspace.change(NAME, engine({EDITED_FILE: "vllm/v1/outputs.py"}))
    said = workspace.await_condition(
        NAME,
        names.CONDITION_PROGRESSING,
        status="False",
        reason=names.REASON_ENGINE_CRASHED,
        contains="this engine does not start",
    )
    assert "exit code 78" in said["message"]
    assert "vllm/v1/outputs.py" in said["message"]
    complete(hostname)
    print(said["message"])


def test_a_stock_image_is_told_apart_and_serves_once_the_spec_says_so(workspace: Workspace, standin_image: str) -> None:
    spec = engine({ATTESTATION: "absent"})
    hostname = f"{workspace.name}.test"
    workspace.create(standin(NAME, standin_image, replicas=1, hostname=hostname, spec=spec))
    workspace.await_condition(
        NAME, names.CONDITION_ATTESTED, status="False", contains="answers 404", reason=names.REASON_DIFFERS
    )
    assert routed(workspace) == set()

    workspace.change(NAME, {"engine": {"build": "stock"}})
    workspace.await_settled(NAME)
    workspace.await_condition(NAME, names.CONDITION_ATTESTED, status="Unknown", reason=names.REASON_STOCK)
    workspace.await_condition(NAME, names.CONDITION_ROUTABLE, status="True")
    workspace.await_that("requests are answered", lambda: complete(hostname), seconds=30)


def test_the_engine_line_of_a_serving_object_changes_and_each_line_attests_its_series(
    workspace: Workspace, standin_image: str
) -> None:
    serving(workspace, standin_image, engine({RELEASE: "0.30.0"}, version="0.30.0"))
    with workspace.history(NAME) as history:
        workspace.change(NAME, engine(version="0.33.0"))
        sdd = workspace.await_settled(NAME)
    assert sdd["status"]["stable"]["engineVersion"] == "0.33.0"
    workspace.await_condition(NAME, names.CONDITION_ATTESTED, status="True", contains="v0.33.0")
    assert history.fewest_ready() >= 1, history.story()
    assert {attestation(pod)["release"] for pod in workspace.ready_pods(NAME)} == {"0.33.0"}


def test_a_switch_reaches_the_process_and_one_that_would_do_nothing_is_refused(
    workspace: Workspace, standin_image: str
) -> None:
    serving(workspace, standin_image, {"engine": {"optimizations": {"disable": ["splitkv-decode"]}}})
    for pod in workspace.ready_pods(NAME):
        states = {row["name"]: row["state"] for row in attestation(pod)["optimizations"]}
        series = CATALOGUE.of_line("0.33.0")
        assert series is not None
        assert states == series.states(["splitkv-decode"])
    workspace.await_condition(NAME, names.CONDITION_ATTESTED, status="True", contains="splitkv-decode switched off")

    before = uids(workspace.pods(NAME))
    workspace.change(NAME, {"engine": {"optimizations": {"disable": ["skip-draft-rebuild"]}}})
    said = workspace.await_condition(
        NAME, names.CONDITION_PROGRESSING, status="False", reason=names.REASON_INVALID_SPEC
    )
    assert "spec.engine.optimizations.disable[0]: found skip-draft-rebuild" in said["message"]
    assert uids(workspace.pods(NAME)) == before


def test_a_pod_whose_image_somebody_edits_is_taken_out_and_made_anew_once_deleted(
    workspace: Workspace, standin_image: str
) -> None:
    hostname = serving(workspace, standin_image)
    pod = workspace.ready_pods(NAME)[0]["metadata"]["name"]
    edited = {"spec": {"containers": [{"name": names.CONTAINER, "image": unknown_digest(standin_image)}]}}
    path = POD.path(workspace.name, pod)
    workspace.api.request(
        "PATCH", path, json=edited, headers={"Content-Type": "application/strategic-merge-patch+json"}
    )
    workspace.await_condition(
        NAME, names.CONDITION_ATTESTED, status="False", contains="somebody edited the pod", reason=names.REASON_DIFFERS
    )
    workspace.await_that("no Service has it", lambda: pod not in endpoints(workspace))
    complete(hostname)
    workspace.api.delete(POD, pod, workspace.name)
    workspace.await_settled(NAME)
    workspace.await_condition(NAME, names.CONDITION_ATTESTED, status="True")


def test_another_process_in_the_same_pod_attests_anew(workspace: Workspace, standin_image: str) -> None:
    spec = engine({EXIT_AFTER: "20"})
    workspace.create(standin(NAME, standin_image, replicas=1, spec=spec))
    workspace.await_settled(NAME)

    def attested_again() -> bool:
        return any(restarts(pod) and noted(pod) for pod in workspace.ready_pods(NAME))

    workspace.await_that("its engine was restarted and has attested again", attested_again, seconds=120)
    workspace.await_condition(NAME, names.CONDITION_ATTESTED, status="True", reason=names.REASON_ATTESTED)


def noted(pod: Object) -> bool:
    """Whether the process that runs is the one that the operator has noted as attested."""
    (container,) = pod["status"]["containerStatuses"]
    annotations: dict[str, str] = pod["metadata"].get("annotations", {})
    return annotations.get(names.ANNOTATION_ATTESTED) == container["containerID"]
