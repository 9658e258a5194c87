"""The API server, on the node's address so that pods reach it, with an audit log of every write."""

from __future__ import annotations

import yaml

from specdecode_local import addresses, certs, paths, probe
from specdecode_local.components import etcd
from specdecode_local.process import Component

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {"level": "Metadata"},
    ],
}
"""Who wrote what and when, without bodies: enough to show that something at rest writes nothing."""


def component() -> Component:
    policy = paths.CONFIGURATION / "audit-policy.yaml"
    flags = {
        "bind-address": addresses.NODE,
        "advertise-address": addresses.NODE,
        "secure-port": str(addresses.API_PORT),
        "etcd-servers": etcd.CLIENT_URL,
        "etcd-cafile": str(certs.authority()),
        "etcd-certfile": str(certs.certificate("etcd-client")),
        "etcd-keyfile": str(certs.key("etcd-client")),
        "tls-cert-file": str(certs.certificate("apiserver")),
        "tls-private-key-file": str(certs.key("apiserver")),
        "client-ca-file": str(certs.authority()),
        "kubelet-certificate-authority": str(certs.authority()),
        "kubelet-client-certificate": str(certs.certificate("apiserver-kubelet")),
        "kubelet-client-key": str(certs.key("apiserver-kubelet")),
        "kubelet-preferred-address-types": "InternalIP",
        "service-account-issuer": f"https://kubernetes.default.svc.{addresses.CLUSTER_DOMAIN}",
        "service-account-key-file": str(certs.service_account_public_key()),
        "service-account-signing-key-file": str(certs.service_account_key()),
        "service-cluster-ip-range": addresses.SERVICES,
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "allow-privileged": "true",
        "audit-policy-file": str(policy),
        "audit-log-path": str(paths.AUDIT_LOG),
        "audit-log-maxsize": "200",
        "audit-log-maxbackup": "2",
        "profiling": "false",
    }
    return Component(
        name="kube-apiserver",
        argv=(str(paths.binary("kube-apiserver")), *(f"--{name}={value}" for name, value in flags.items())),
        configuration={policy: yaml.safe_dump(AUDIT_POLICY, sort_keys=False)},
        files=(certs.certificate("apiserver"), certs.service_account_public_key()),
        ready=_ready,
        stop_seconds=12,
    )


def _ready() -> str | None:
    admin = probe.tls_context(certs.authority(), certs.certificate("admin"), certs.key("admin"))
    return probe.http(f"{certs.API_SERVER}/readyz", admin)
