"""The cluster as a whole: up, down, and what it is made of.

`up` is level-triggered: it compares each part with what it shall be and acts on the difference, so the same code starts
a cluster, repairs one, and leaves a healthy one alone.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable
from pathlib import Path

from specdecode_local import (
    addresses,
    apt,
    certs,
    cgroups,
    disk,
    firewall,
    footprint,
    gateway,
    gobuild,
    images,
    kubectl,
    manifests,
    monitors,
    network,
    ownership,
    paths,
    ports,
    privilege,
    process,
    reach,
    sysctls,
    teardown,
)
from specdecode_local.components import (
    apiserver,
    containerd,
    controllers,
    coredns,
    etcd,
    forward,
    kubelet,
    kubeproxy,
    kwok,
    prometheus,
    registry,
)
from specdecode_local.errors import LocalError
from specdecode_local.exclusive import exclusive
from specdecode_local.process import Component, Outcome
from specdecode_local.progress import Progress, elapsed

IMAGES = ("pause", "envoy", "envoy-gateway")
"""What the cluster itself runs as pods."""


def components(pause_image: str) -> dict[str, Component]:
    """Every program, in the order of starting."""
    found = (
        registry.component(),
        etcd.component(),
        containerd.component(pause_image),
        apiserver.component(),
        controllers.controller_manager(),
        controllers.scheduler(),
        kubelet.component(),
        kubeproxy.component(),
        coredns.component(),
        kwok.component(),
        prometheus.component(),
        forward.component(),
    )
    return {component.name: component for component in found}


NAMES = (
    "registry",
    "etcd",
    "containerd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "coredns",
    "prometheus",
    "forward",
)
"""What every cluster of ours runs."""

CLIENTS = ("kube-controller-manager", "kube-scheduler")
"""Started once the API server serves; awaited with the node's programs, which start meanwhile."""


def names() -> tuple[str, ...]:
    """What runs on this machine: kwok too, once it was built for simulated trays."""
    return (*NAMES, "kwok") if gobuild.built("kwok") else NAMES


def require_kwok(progress: Progress) -> None:
    """Makes kwok run, which only simulated trays need: it is built when first asked for."""
    gobuild.build_all(progress, ["kwok"])
    start_and_await([kwok.component()])


def up(progress: Progress | None = None) -> None:
    """Makes the cluster run as this checkout says; returns when everything is Ready.

    Raises LocalError with what to do. What was done until then stays, and the next call goes on from there.
    """
    progress = progress or Progress()
    privilege.require_root("the cluster makes namespaces, mounts, cgroups and network devices")
    with exclusive(progress):
        _up(progress)


def _up(progress: Progress) -> None:
    began = time.monotonic()
    ownership.require_ours()
    needed = disk.require(disk.current())
    if needed and not ownership.alive():
        progress.say(f"Needed at most: {needed}; cache {paths.cache()}, state {paths.STATE}")
    _prepare(progress)
    pause, proxy, controller = _images(progress)
    everything = components(pause)
    outcomes = _start_control_plane(progress, everything)
    outcomes |= _start_node(progress, everything, outcomes)
    changed = _gateway(progress, gateway.Images(controller=controller, proxy=proxy))
    _say_end(progress, outcomes, changed, time.monotonic() - began)


def down(progress: Progress | None = None) -> None:
    """Stops everything and removes every trace but the cache. Raises LocalError naming what would not go."""
    progress = progress or Progress()
    privilege.require_root("the cluster's processes and mounts are root's")
    with exclusive(progress):
        _down(progress)


def _down(progress: Progress) -> None:
    with progress.step("stop processes and pods"):
        teardown.stop_everything()
    with progress.step("remove mounts, links, rules, cgroups and state"):
        fixed = teardown.remove_everything()
    with progress.step("check that nothing is left") as step:
        _await_nothing_left(fixed)
        step.detail = "no process, mount, link, namespace, rule, cgroup or file"


def require_up() -> None:
    """Raises LocalError unless every program runs."""
    wanted = names()
    dead = [name for name in wanted if process.alive_pid(name) is None]
    if dead:
        state = "is not up" if len(dead) == len(wanted) else f"is broken: {', '.join(dead)} not running"
        raise LocalError(f"the cluster {state}", remedy="run `make up`")


def _await_nothing_left(fixed: list[Path]) -> None:
    def left() -> str | None:
        found = teardown.leftovers(fixed)
        return f"left behind: {'; '.join(found)}" if found else None

    # A process that was killed may take a moment to leave its cgroup.
    kubectl.wait(left, what="after the way down", seconds=5)


def _prepare(progress: Progress) -> None:
    """Everything before the first process."""
    if apt.missing(apt.PACKAGES):
        with progress.step("install Debian packages") as step:
            step.detail = ", ".join(apt.missing(apt.PACKAGES))
            apt.require()
    gobuild.build_all(progress)
    ports.require_free(list(addresses.USED), cgroups.processes())
    network.require_no_clash()
    sysctls.remember()
    firewall.require_forwarding()
    firewall.remember()
    footprint.remember()
    ownership.forget_previous_boot()
    ownership.claim()
    cgroups.make()
    network.up()
    certs.ensure(datetime.datetime.now(datetime.UTC))


def _images(progress: Progress) -> tuple[str, str, str]:
    """References of the images that the cluster itself runs."""
    paths.registry_data().mkdir(parents=True, exist_ok=True)
    start_and_await([registry.component()])
    pause, proxy, controller = (images.build(name, progress) for name in IMAGES)
    return pause, proxy, controller


def _start_control_plane(progress: Progress, everything: dict[str, Component]) -> dict[str, Outcome]:
    with progress.step("control plane") as step:
        # All at once: the API server waits for etcd by itself, and the other two need neither.
        first = ("etcd", "containerd", "kube-apiserver", "forward")
        outcomes = {name: process.ensure(everything[name]) for name in first}
        for name in first:
            step.detail = f"await {name}"
            outcomes[name] = process.await_ready(everything[name], outcomes[name])
        step.detail = "rights of our own programs, kinds of monitors"
        wanted = [*manifests.base(), *monitors.definitions()]
        if kubectl.unapplied(wanted):
            kubectl.apply(wanted)
        outcomes |= {name: process.ensure(everything[name]) for name in CLIENTS}
        step.detail = _told(outcomes)
    return outcomes


def _start_node(progress: Progress, everything: dict[str, Component], before: dict[str, Outcome]) -> dict[str, Outcome]:
    """The rest of the programs; with those of `before` that nobody has awaited yet."""
    with progress.step("node") as step:
        started = [name for name in names() if name in ("kubelet", "kube-proxy", "coredns", "kwok", "prometheus")]
        outcomes = {name: before[name] for name in CLIENTS}
        outcomes |= {name: process.ensure(everything[name]) for name in started}
        for name in outcomes:
            step.detail = f"await {name}"
            outcomes[name] = process.await_ready(everything[name], outcomes[name])
        step.detail = f"await {addresses.NODE_NAME} Ready"
        kubectl.wait(node_unready, what=f"node {addresses.NODE_NAME}", seconds=60)
        step.detail = _told({name: outcomes[name] for name in started})
    return outcomes


def _gateway(progress: Progress, wanted: gateway.Images) -> bool:
    with progress.step("gateway") as step:
        step.detail = "Envoy Gateway by helm"
        changed = gateway.ensure(wanted)
        step.detail = "await the first answer"
        kubectl.wait(gateway.missing, what="gateway", seconds=120)
        step.detail = "installed" if changed else "as it was"
    return changed


def node_unready() -> str | None:
    """None once the node is Ready."""
    found = kubectl.get("nodes", "--field-selector", f"metadata.name={addresses.NODE_NAME}")["items"]
    if not found:
        return "the kubelet has not registered it"
    conditions = {entry["type"]: entry for entry in found[0]["status"].get("conditions", [])}
    ready = conditions.get("Ready", {"status": "Unknown", "message": "no condition yet"})
    return None if ready["status"] == "True" else str(ready["message"])


def start_and_await(wanted: Iterable[Component]) -> dict[str, Outcome]:
    """Starts them together, then waits for each."""
    listed = list(wanted)
    outcomes = {component.name: process.ensure(component) for component in listed}
    return {component.name: process.await_ready(component, outcomes[component.name]) for component in listed}


def _told(outcomes: dict[str, Outcome]) -> str:
    changed = [f"{name} {outcome.value}" for name, outcome in outcomes.items() if outcome is not Outcome.KEPT]
    return ", ".join(changed) if changed else "as it was"


def _say_end(progress: Progress, outcomes: dict[str, Outcome], changed: bool, seconds: float) -> None:
    if changed or any(outcome is not Outcome.KEPT for outcome in outcomes.values()):
        progress.say(f"The cluster is up, after {elapsed(seconds)}.")
    else:
        progress.say(f"The cluster was up already; nothing was changed ({elapsed(seconds)}).")
    progress.say(reach.told())
