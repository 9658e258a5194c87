"""Addresses and ports, in one table. Only loopback and a veth pair of our own: nothing is reachable from outside."""

from __future__ import annotations

NODE_NAME = "specdecode-node"
NODE = "10.99.7.1"
"""On a veth pair: pods reach it, the kubelet accepts it, and no other machine does."""

LOOPBACK = "127.0.0.1"
PODS = "10.244.0.0/16"
POD_GATEWAY_SUBNET = "10.244.0.0/22"
"""Of it, what the node's own pods get; the rest is for simulated nodes."""

POD_GATEWAY = "10.244.0.1"
"""What CNI puts on the host's end of each pod's pair: the first of the range."""

TRAY_PODS = "10.244.128.0/17"
SERVICES = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
GATEWAY_SERVICE = "10.96.0.80"
"""Chosen by us, so that the forwarder from loopback needs no look-up."""

CLUSTER_DOMAIN = "cluster.local"

API_PORT = 6443
ETCD_PORT = 12379
ETCD_PEER_PORT = 12380
CONTROLLER_PORT = 10257
SCHEDULER_PORT = 10259
KUBELET_PORT = 10250
KUBELET_HEALTH_PORT = 10248
PROXY_HEALTH_PORT = 10256
PROXY_METRICS_PORT = 10249
DNS_PORT = 53
DNS_HEALTH_PORT = 10253
DNS_READY_PORT = 10254
KWOK_PORT = 10247
REGISTRY_PORT = 5000
GATEWAY_PORT = 8080
PROMETHEUS_PORT = 9090

REGISTRY = f"{LOOPBACK}:{REGISTRY_PORT}"

USED = (
    (NODE, API_PORT, "API server"),
    (LOOPBACK, ETCD_PORT, "etcd"),
    (LOOPBACK, ETCD_PEER_PORT, "etcd"),
    (LOOPBACK, CONTROLLER_PORT, "controller manager"),
    (LOOPBACK, SCHEDULER_PORT, "scheduler"),
    (NODE, KUBELET_PORT, "kubelet"),
    (LOOPBACK, KUBELET_HEALTH_PORT, "kubelet"),
    (LOOPBACK, PROXY_HEALTH_PORT, "kube-proxy"),
    (LOOPBACK, PROXY_METRICS_PORT, "kube-proxy"),
    (NODE, DNS_PORT, "CoreDNS"),
    (LOOPBACK, DNS_HEALTH_PORT, "CoreDNS"),
    (LOOPBACK, DNS_READY_PORT, "CoreDNS"),
    (LOOPBACK, KWOK_PORT, "kwok"),
    (LOOPBACK, REGISTRY_PORT, "image registry"),
    (LOOPBACK, GATEWAY_PORT, "gateway"),
    (LOOPBACK, PROMETHEUS_PORT, "Prometheus"),
    (NODE, PROMETHEUS_PORT, "Prometheus"),
)
