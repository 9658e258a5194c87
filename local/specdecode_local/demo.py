"""The main job from nothing, as a user does it: plain `helm` and `kubectl`, each command printed before it runs.

Cluster and images; the operator; a SpecDecodeDeployment of real engines (hybrid target, DSpark drafter); a completion
through the gateway; acceptance length, host time and drafter's span from Prometheus; then a change of the spec, rolled
out slot by slot under load. A second run starts from what is there. Nothing here is needed by the product: another
cluster takes the same manifests with its own image references.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from specdecode_local import cluster, helm, images, paths
from specdecode_local.load import Report, Target, run_load

NAMESPACE = "demo"
NAME = "demo"
SYSTEM_NAMESPACE = "specdecode-system"
OPERATOR = "specdecode-operator"
EXAMPLE = "examples/local-cpu.yaml"
PLACEHOLDER = "ENGINE_IMAGE"
ENGINE_IMAGE = "engine-cpu-0.33.0"
GATEWAY_URL = "http://127.0.0.1:8080"
PROMETHEUS_URL = "http://127.0.0.1:9090"
READY_SECONDS = 900.0
ROLL_SECONDS = 1800.0
STEPS = 8
DRAFTS_QUERY = 'sum(specdecode_drafts_total{{specdecode_name="{name}"}})'
MEAN_QUERY = 'sum({metric}_sum{{specdecode_name="{name}"}}) / sum({metric}_count{{specdecode_name="{name}"}})'
HEADLINES = (
    ("acceptance length", "specdecode_acceptance_length", 1.0, "tokens a draft"),
    ("host time of a proposal", "specdecode_propose_host_seconds", 1e3, "ms"),
    ("drafter's span on the device", "specdecode_drafter_gpu_seconds", 1e3, "ms"),
)
"""What a change of the decode path is judged by: for people, metric, factor, unit. Means since each engine started."""


class DemoError(Exception):
    """A step did not show what it promises."""


class Story:
    """Prints what is done and what was seen, with the time since the start."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.number = 0

    def say(self, text: str) -> None:
        print(text, flush=True)

    def saw(self, text: str) -> None:
        self.say(f"    {text}")

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        self.number += 1
        began = time.monotonic()
        self.say(f"\n[{self.number}/{STEPS}] {title}")
        yield
        self.say(f"    done in {time.monotonic() - began:.0f} s, {time.monotonic() - self.began:.0f} s since the start")


class Shell:
    """Runs helm and kubectl as a user would, printing each command line first."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.environment = paths.environment()

    def __call__(self, *command: str, show: bool = True, stdin: str | None = None) -> str:
        """Run a command; return what it printed. Raises DemoError with its own words when it fails."""
        if show:
            self.story.saw(f"$ {shlex.join(command)}{' < (the manifest)' if stdin else ''}")
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, env=self.environment, check=False)
        if done.returncode != 0:
            raise DemoError(f"{shlex.join(command)} failed with status {done.returncode}: {done.stderr.strip()}")
        if show:
            for line in done.stdout.rstrip().splitlines():
                self.story.saw(f"  {line}")
        return done.stdout

    def json(self, *command: str) -> Any:
        return json.loads(self(*command, "-o", "json", show=False))


def sdd(shell: Shell) -> dict[str, Any] | None:
    """The demo's object as it is now, None before it exists."""
    listed = shell.json("kubectl", "get", "specdecodedeployments", "-n", NAMESPACE)["items"]
    return next((one for one in listed if one["metadata"]["name"] == NAME), None)


def condition(found: dict[str, Any], kind: str) -> dict[str, Any]:
    for one in found.get("status", {}).get("conditions", []):
        if one["type"] == kind:
            return dict(one)
    return {"status": "Unknown", "message": "no condition yet"}


def progress_line(found: dict[str, Any]) -> str:
    status = found.get("status", {})
    ready = f"{status.get('readyReplicas', 0)}/{found['spec'].get('replicas', 1)} ready"
    return f"{ready}; {status.get('message') or condition(found, 'Progressing').get('message', '')}"


def settled(found: dict[str, Any]) -> bool:
    """Ready at this generation, with no revision on its way in."""
    status = found.get("status", {})
    return (
        status.get("observedGeneration") == found["metadata"]["generation"]
        and condition(found, "Ready")["status"] == "True"
        and status.get("readyReplicas", 0) == found["spec"].get("replicas", 1)
        and not status.get("candidate")
    )


def await_settled(shell: Shell, story: Story, *, seconds: float) -> dict[str, Any]:
    """Wait until the object is settled, printing each change of its progress. Raises DemoError when time is over."""
    deadline = time.monotonic() + seconds
    last = ""
    while True:
        found = sdd(shell)
        if found is None:
            raise DemoError(f"SpecDecodeDeployment {NAMESPACE}/{NAME} is gone")
        line = progress_line(found)
        if line != last:
            story.saw(line)
            last = line
        if settled(found):
            return found
        if time.monotonic() > deadline:
            raise DemoError(f"{NAMESPACE}/{NAME} was not settled within {seconds:.0f} s; last seen: {line}")
        time.sleep(1)


def install_operator(shell: Shell) -> None:
    repository, digest = images.ref("operator").split("@")
    marks = helm.interrupted(OPERATOR, SYSTEM_NAMESPACE)
    if shell("kubectl", "get", *marks, "-o", "name", show=False):
        shell("kubectl", "delete", *marks)
    shell(
        "helm", "upgrade", "--install", OPERATOR, str(paths.REPOSITORY / "charts/specdecode-operator"),
        "--namespace", SYSTEM_NAMESPACE, "--create-namespace",
        "--set", f"image.repository={repository}", "--set", f"image.digest={digest}",
        "--wait", "--timeout", "3m",
    )  # fmt: skip


def apply_example(shell: Shell, story: Story) -> None:
    engine = images.ref(ENGINE_IMAGE)
    found = sdd(shell)
    if found is not None:
        story.saw(f"SpecDecodeDeployment {NAMESPACE}/{NAME} is there already: going on from it")
        if found["spec"]["engine"]["image"] != engine:
            patch = {"spec": {"engine": {"image": engine}}}
            shell("kubectl", "patch", "sdd", NAME, "-n", NAMESPACE, "--type", "merge", "--patch", json.dumps(patch))
        return
    story.saw(f"$ sed 's|{PLACEHOLDER}|{engine}|' {EXAMPLE} | kubectl apply -n {NAMESPACE} -f -")
    manifest = (paths.REPOSITORY / EXAMPLE).read_text().replace(PLACEHOLDER, engine)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    shell("kubectl", "apply", "-f", "-", stdin=json.dumps(namespace), show=False)
    story.saw(shell("kubectl", "apply", "-n", NAMESPACE, "-f", "-", stdin=manifest, show=False).strip())


def target_of(found: dict[str, Any], *, max_tokens: int) -> Target:
    spec = found["spec"]
    hostnames = spec.get("traffic", {}).get("hostnames") or [None]
    return Target(
        url=f"{GATEWAY_URL}/v1/completions",
        model=spec["model"].get("servedName") or spec["model"]["name"],
        host=hostnames[0],
        max_tokens=max_tokens,
    )


def post_until_served(target: Target, *, seconds: float) -> httpx.Response:
    """The first 200 comes within moments of the route being programmed; until then the gateway answers 404 or 503."""
    body = {"model": target.model, "prompt": target.prompt, "max_tokens": target.max_tokens, "ignore_eos": True}
    deadline = time.monotonic() + seconds
    while True:
        try:
            answer = httpx.post(target.url, json=body, headers=target.headers(), timeout=seconds, trust_env=False)
            if answer.status_code == 200:
                return answer
            seen = f"status {answer.status_code}: {answer.text[:300]}"
        except httpx.HTTPError as error:
            seen = f"{type(error).__name__}: {error}"
        if time.monotonic() > deadline:
            raise DemoError(f"no completion through the gateway within {seconds:.0f} s; last: {seen}")
        time.sleep(0.2)


def complete(target: Target, story: Story) -> None:
    story.saw(f"$ curl {target.url} -H 'host: {target.host}' -H 'content-type: application/json' \\")
    story.saw(
        f"""    -d '{{"model": "{target.model}", "prompt": "{target.prompt}", "max_tokens": {target.max_tokens}}}'"""
    )
    answer = post_until_served(target, seconds=120).json()
    story.saw(f"{answer['usage']['completion_tokens']} tokens from {answer['model']}")


def ask_prometheus(query: str) -> float | None:
    """The one value of an instant query; None while there is no such series."""
    answer = httpx.get(f"{PROMETHEUS_URL}/api/v1/query", params={"query": query}, timeout=10, trust_env=False).json()
    values = [float(series["value"][1]) for series in answer["data"]["result"]]
    return values[0] if values else None


def read_headlines(story: Story) -> None:
    """The three headline metrics over every engine of the object, once a scrape has seen a draft."""
    deadline = time.monotonic() + 60
    while not (drafts := ask_prometheus(DRAFTS_QUERY.format(name=NAME))):
        if time.monotonic() > deadline:
            raise DemoError(
                f"Prometheus has no draft of {NAMESPACE}/{NAME} after 60 s: {DRAFTS_QUERY.format(name=NAME)}"
            )
        time.sleep(1)
    for words, metric, factor, unit in HEADLINES:
        query = MEAN_QUERY.format(metric=metric, name=NAME)
        story.saw(f"$ curl {PROMETHEUS_URL}/api/v1/query --data-urlencode 'query={query}'")
        mean = ask_prometheus(query)
        if mean is None or math.isnan(mean):
            raise DemoError(f"Prometheus has {drafts:.0f} drafts of {NAMESPACE}/{NAME} but no {words}: {query}")
        story.saw(f"{words}: {mean * factor:.2f} {unit}, over {drafts:.0f} drafts")


def change_spec(shell: Shell, found: dict[str, Any]) -> None:
    """Draft one token fewer, or again one more on a second run: a change that every engine pod has to take up."""
    drafts = 2 if found["spec"]["speculative"]["numSpeculativeTokens"] == 3 else 3
    patch = {"spec": {"speculative": {"numSpeculativeTokens": drafts}}}
    shell("kubectl", "patch", "sdd", NAME, "-n", NAMESPACE, "--type", "merge", "--patch", json.dumps(patch))


async def roll_under_load(shell: Shell, story: Story, target: Target, *, streams: int) -> Report:
    """Change the spec while streams are in flight and keep them coming until every slot holds the new revision."""
    report, stop, all_in_flight = Report(), asyncio.Event(), asyncio.Event()

    async def roll() -> None:
        try:
            await all_in_flight.wait()
            found = sdd(shell)
            assert found is not None
            await asyncio.to_thread(change_spec, shell, found)
            await asyncio.to_thread(await_settled, shell, story, seconds=ROLL_SECONDS)
        finally:
            stop.set()

    await asyncio.gather(
        roll(),
        run_load(target, streams=streams, seconds=ROLL_SECONDS, stop=stop, all_in_flight=all_in_flight, report=report),
    )
    return report


def where_next(story: Story) -> None:
    story.say(
        f"""
Where to look next
    export KUBECONFIG={paths.KUBECONFIG} PATH={paths.binaries()}:$PATH
    kubectl get sdd -A -o wide
    kubectl describe sdd {NAME} -n {NAMESPACE}
    kubectl explain sdd.spec
    Prometheus   {PROMETHEUS_URL}
    Gateway      {GATEWAY_URL}
    make dev     run the operator from this folder, restarted at every change
    make down    stop the cluster"""
    )


def tell(story: Story, *, streams: int, max_tokens: int) -> None:
    shell = Shell(story)
    with story.step("A Kubernetes on this machine (make up)"):
        cluster.up()
    with story.step("Images, pushed to the registry on this machine (make images)"):
        for name in ("operator", ENGINE_IMAGE):
            story.saw(images.build(name))
    with story.step("The operator, by helm"):
        install_operator(shell)
    with story.step("One SpecDecodeDeployment: real engines, hybrid target, DSpark drafter"):
        apply_example(shell, story)
        found = await_settled(shell, story, seconds=READY_SECONDS)
    with story.step("A completion through the gateway"):
        complete(target_of(found, max_tokens=64), story)
    with story.step("Acceptance length, host time and drafter's span, from Prometheus"):
        read_headlines(story)
    with story.step(f"A change of the spec, slot by slot, with {streams} streams in flight"):
        report = asyncio.run(roll_under_load(shell, story, target_of(found, max_tokens=max_tokens), streams=streams))
        story.saw(report.sentence())
        if report.failed or not report.completed:
            raise DemoError(f"{report.failed} requests failed while the change was rolled out, 0 are allowed")
    with story.step("What is there now"):
        shell("kubectl", "get", "sdd", "-n", NAMESPACE, "-o", "wide")
        shell("kubectl", "get", "pods", "-n", NAMESPACE, "-o", "wide")
        read_headlines(story)
    where_next(story)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--streams", type=int, default=4, help="streams in flight during the change (default 4)")
    parser.add_argument("--max-tokens", type=int, default=48, help="tokens of each stream (default 48)")


def run(args: argparse.Namespace) -> int:
    """Exit status 0 if every step was seen, 1 with the reason otherwise."""
    try:
        tell(Story(), streams=args.streams, max_tokens=args.max_tokens)
    except DemoError as error:
        print(
            f"\ndemo: {error}\nmake status shows the cluster; kubectl describe sdd {NAME} -n {NAMESPACE} the object.",
            file=sys.stderr,
        )
        return 1
    return 0
