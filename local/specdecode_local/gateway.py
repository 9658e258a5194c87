"""The gateway: Envoy Gateway by its own chart, with images of ours, and one Gateway that every namespace may use."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from specdecode_local import addresses, gobuild, helm, kubectl, manifests, paths

RELEASE = "envoy-gateway"
CONTROLLER_NAMESPACE = "envoy-gateway-system"
NAMESPACE = "gateway"
NAME = "specdecode"
CLASS = "specdecode"
CONTROLLER = "gateway.envoyproxy.io/gatewayclass-controller"
LISTENER = "http"
PORT = 80
DIGEST_LABEL = "specdecode-digest"


@dataclass(frozen=True)
class Images:
    """References by digest."""

    controller: str
    proxy: str


def chart_values(images: Images) -> dict[str, Any]:
    """What we set in the chart: our image, and requests that fit a small machine."""
    return {
        "global": {"images": {"envoyGateway": {"image": images.controller, "pullPolicy": "IfNotPresent"}}},
        "deployment": {"envoyGateway": {"resources": {"requests": {"cpu": "10m", "memory": "64Mi"}}}},
        "topologyInjector": {"enabled": False},
    }


def objects(images: Images) -> list[manifests.Manifest]:
    """The class, how its proxies look here, and the Gateway."""
    proxy = {
        "apiVersion": "gateway.envoyproxy.io/v1alpha1",
        "kind": "EnvoyProxy",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "provider": {
                "type": "Kubernetes",
                "kubernetes": {
                    "envoyDeployment": {
                        "container": {
                            "image": images.proxy,
                            "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
                        }
                    },
                    "envoyService": {
                        "type": "ClusterIP",
                        "patch": {
                            "type": "StrategicMerge",
                            "value": {"spec": {"clusterIP": addresses.GATEWAY_SERVICE}},
                        },
                    },
                },
            },
        },
    }
    gateway_class = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "GatewayClass",
        "metadata": {"name": CLASS},
        "spec": {
            "controllerName": CONTROLLER,
            "parametersRef": {
                "group": "gateway.envoyproxy.io",
                "kind": "EnvoyProxy",
                "name": NAME,
                "namespace": NAMESPACE,
            },
        },
    }
    gateway = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "gatewayClassName": CLASS,
            "listeners": [
                {
                    "name": LISTENER,
                    "port": PORT,
                    "protocol": "HTTP",
                    "allowedRoutes": {"namespaces": {"from": "All"}},
                }
            ],
        },
    }
    return [manifests.namespace(NAMESPACE), proxy, gateway_class, gateway]


def ensure(images: Images) -> bool:
    """Installs or upgrades what differs from what is wanted. Returns whether anything had to be done."""
    changed = False
    digest = _digest(images)
    if not _released(digest):
        _release(images, digest)
        changed = True
    wanted = objects(images)
    if kubectl.unapplied(wanted):
        kubectl.apply(wanted)
        changed = True
    return changed


def missing() -> str | None:
    """None once the Gateway is programmed and its Envoy answers on loopback."""
    found = kubectl.get("gateway", "-n", NAMESPACE, NAME)
    conditions = {item["type"]: item for item in found.get("status", {}).get("conditions", [])}
    programmed = conditions.get("Programmed", {"status": "Unknown", "message": "no condition yet"})
    if programmed["status"] != "True":
        return f"Gateway is not programmed: {programmed['message']}"
    return answers()


def answers() -> str | None:
    """Whether Envoy speaks HTTP behind the forwarder; 404 is what it says while nothing is routed."""
    try:
        with socket.create_connection((addresses.LOOPBACK, addresses.GATEWAY_PORT), timeout=2) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: local\r\nConnection: close\r\n\r\n")
            reply = connection.recv(16)
    except OSError as error:
        return f"no answer at {addresses.LOOPBACK}:{addresses.GATEWAY_PORT}: {error}"
    return None if reply.startswith(b"HTTP/1.1") else "no proxy answers behind the forwarder yet"


def _digest(images: Images) -> str:
    chart = gobuild.folder("envoy-gateway", "gateway-helm")
    text = json.dumps([str(chart), chart_values(images)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _released(digest: str) -> bool:
    arguments = ["list", "-n", CONTROLLER_NAMESPACE, "--deployed", "-l", f"{DIGEST_LABEL}={digest}", "-o", "json"]
    return bool(json.loads(kubectl.run(*arguments, program="helm")))


def _release(images: Images, digest: str) -> None:
    chart = _prepared_chart(images)
    values = paths.CONFIGURATION / "envoy-gateway-values.yaml"
    values.write_text(yaml.safe_dump(chart_values(images)))
    helm.forget_interrupted(RELEASE, CONTROLLER_NAMESPACE)
    kubectl.run(
        "upgrade", "--install", RELEASE, str(chart), "-n", CONTROLLER_NAMESPACE, "--create-namespace",
        "--values", str(values), "--labels", f"{DIGEST_LABEL}={digest}", "--wait", "--timeout", "120s",
        "--history-max", "2", program="helm",
    )  # fmt: skip


def _prepared_chart(images: Images) -> Path:
    """The chart as its module carries it has a template for values.yaml with two variables; we fill them in."""
    target = paths.CONFIGURATION / "gateway-helm"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(gobuild.folder("envoy-gateway", "gateway-helm"), target)
    template = (target / "values.tmpl.yaml").read_text()
    filled = template.replace("${GatewayImage}", images.controller).replace("${GatewayImagePullPolicy}", "IfNotPresent")
    (target / "values.yaml").write_text(filled)
    return target
