"""The API server, read and written directly: the cluster tests look at what is really there, not through the operator.

Plain HTTP with the kubeconfig's certificate. The official client would hide the watch stream's order, which the tests
of "never below minAvailable" depend on.
"""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

Object = dict[str, Any]
Operations = list[Object]
"""A JSON patch."""

FIELD_MANAGER = "cluster-tests"


@dataclass(frozen=True)
class Kind:
    """Where a kind lives in the API."""

    prefix: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        inside = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.prefix}{inside}/{self.plural}" + "".join(f"/{part}" for part in (name, subresource) if part)


NAMESPACE = Kind("/api/v1", "namespaces", namespaced=False)
NODE = Kind("/api/v1", "nodes", namespaced=False)
POD = Kind("/api/v1", "pods")
SERVICE = Kind("/api/v1", "services")
SECRET = Kind("/api/v1", "secrets")
CONFIG_MAP = Kind("/api/v1", "configmaps")
QUOTA = Kind("/api/v1", "resourcequotas")
EVENT = Kind("/api/v1", "events")
REPLICA_SET = Kind("/apis/apps/v1", "replicasets")
DEPLOYMENT = Kind("/apis/apps/v1", "deployments")
CONTROLLER_REVISION = Kind("/apis/apps/v1", "controllerrevisions")
ENDPOINT_SLICE = Kind("/apis/discovery.k8s.io/v1", "endpointslices")
BUDGET = Kind("/apis/policy/v1", "poddisruptionbudgets")
PRIORITY_CLASS = Kind("/apis/scheduling.k8s.io/v1", "priorityclasses", namespaced=False)
ROUTE = Kind("/apis/gateway.networking.k8s.io/v1", "httproutes")
POD_MONITOR = Kind("/apis/monitoring.coreos.com/v1", "podmonitors")
CRD = Kind("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
SDD = Kind("/apis/specdecode.io/v1alpha1", "specdecodedeployments")


class Refused(AssertionError):
    """The API server answered with an error; `status` is its HTTP status, the text its own message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"the API server answered {status}: {message}")
        self.status = status
        self.message = message


def tls(cluster: Mapping[str, str], user: Mapping[str, str]) -> ssl.SSLContext:
    """The TLS context of a kubeconfig entry, whose certificates are files or inline."""
    with tempfile.TemporaryDirectory() as folder:

        def file_of(entry: Mapping[str, str], key: str) -> str | None:
            if f"{key}-data" in entry:
                target = Path(folder) / key
                target.write_bytes(base64.b64decode(entry[f"{key}-data"]))
                return str(target)
            return entry.get(key)

        context = ssl.create_default_context(cafile=file_of(cluster, "certificate-authority"))
        certificate, key = file_of(user, "client-certificate"), file_of(user, "client-key")
        if certificate:
            context.load_cert_chain(certificate, key)
        return context


class ApiServer:
    """Get, list, apply, patch, delete and watch, by kind."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        context = next(c["context"] for c in config["contexts"] if c["name"] == config["current-context"])
        cluster = next(c["cluster"] for c in config["clusters"] if c["name"] == context["cluster"])
        user = next(u["user"] for u in config["users"] if u["name"] == context["user"])
        self.url: str = cluster["server"]
        self.authority = cluster
        self.client = httpx.Client(base_url=self.url, verify=tls(cluster, user), timeout=30, trust_env=False)

    def request(self, method: str, path: str, **options: Any) -> Object:
        """Send a request; raise Refused with the server's own message for any error, 503 while it does not answer."""
        try:
            answer = self.client.request(method, path, **options)
        except httpx.TransportError as error:
            raise Refused(503, f"{method} {path}: {type(error).__name__} {error}") from error
        if answer.is_error:
            raise Refused(answer.status_code, message_of(answer.text))
        return dict(answer.json())

    def get(self, kind: Kind, name: str, namespace: str | None = None, subresource: str | None = None) -> Object | None:
        """The object, None if there is none."""
        try:
            return self.request("GET", kind.path(namespace, name, subresource))
        except Refused as refusal:
            if refusal.status == 404:
                return None
            raise

    def list(self, kind: Kind, namespace: str | None = None, *, selector: str = "") -> list[Object]:
        """All objects of a kind; an absent API is an empty list."""
        try:
            return list(self.listing(kind, namespace, selector=selector)["items"])
        except Refused as refusal:
            if refusal.status == 404:
                return []
            raise

    def listing(self, kind: Kind, namespace: str | None, *, selector: str = "") -> Object:
        return self.request("GET", kind.path(namespace), params={"labelSelector": selector} if selector else {})

    def discovers(self, group: str) -> bool:
        """Whether discovery, which kubectl goes by, lists a group: it lags behind a new CRD."""
        form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        groups = self.request("GET", "/apis", headers={"accept": form})["items"]
        return any(found["metadata"]["name"] == group for found in groups)

    def create(self, kind: Kind, obj: Object, namespace: str | None = None) -> Object:
        return self.request("POST", kind.path(namespace), json=obj)

    def apply(self, kind: Kind, obj: Object, namespace: str | None = None) -> Object:
        """Server-side apply, as `kubectl apply --server-side --force-conflicts` does."""
        return self.request(
            "PATCH",
            kind.path(namespace, obj["metadata"]["name"]),
            params={"fieldManager": FIELD_MANAGER, "force": "true"},
            content=json.dumps(obj),
            headers={"content-type": "application/apply-patch+yaml"},
        )

    def patch(
        self,
        kind: Kind,
        name: str,
        change: Object | Operations,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Object:
        """Merge patch for a mapping, JSON patch for a list of operations."""
        form = "json-patch" if isinstance(change, list) else "merge-patch"
        return self.request(
            "PATCH",
            kind.path(namespace, name, subresource),
            params={"fieldManager": FIELD_MANAGER},
            content=json.dumps(change),
            headers={"content-type": f"application/{form}+json"},
        )

    def delete(self, kind: Kind, name: str, namespace: str | None = None, *, seconds: int | None = None) -> None:
        """Delete in the background; what is gone already is fine."""
        options: Object = {"propagationPolicy": "Background"}
        if seconds is not None:
            options["gracePeriodSeconds"] = seconds
        try:
            self.request("DELETE", kind.path(namespace, name), json=options)
        except Refused as refusal:
            if refusal.status != 404:
                raise

    def events_from(
        self, kind: Kind, namespace: str | None, *, selector: str, resource_version: str
    ) -> Iterator[tuple[str, Object]]:
        """The watch stream from a listing on: (ADDED | MODIFIED | DELETED, object), in the API server's order."""
        params = {"watch": "1", "resourceVersion": resource_version, "timeoutSeconds": "3600"}
        if selector:
            params["labelSelector"] = selector
        timeout = httpx.Timeout(30, read=None)
        with self.client.stream("GET", kind.path(namespace), params=params, timeout=timeout) as stream:
            for line in stream.iter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise Refused(event["object"].get("code", 500), event["object"].get("message", ""))
                yield event["type"], event["object"]


def message_of(body: str) -> str:
    try:
        return str(json.loads(body).get("message", body))
    except ValueError:
        return body[:500]
