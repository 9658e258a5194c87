"""The kubelet, with folders, cgroups and sockets of its own."""

from __future__ import annotations

import yaml

from specdecode_local import addresses, certs, cgroups, paths, probe
from specdecode_local.components import containerd
from specdecode_local.process import Component

ROOT = paths.STATE / "kubelet"
POD_LOGS = paths.STATE / "pod-logs"
RESOLVER = paths.CONFIGURATION / "resolv.conf"


def configuration() -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": addresses.NODE,
        "port": addresses.KUBELET_PORT,
        "readOnlyPort": 0,
        "healthzBindAddress": addresses.LOOPBACK,
        "healthzPort": addresses.KUBELET_HEALTH_PORT,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(certs.authority())},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(certs.certificate("kubelet-serving")),
        "tlsPrivateKeyFile": str(certs.key("kubelet-serving")),
        "containerRuntimeEndpoint": f"unix://{containerd.SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroups.PODS,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        # kube-proxy speaks nftables; without this the kubelet would leave marker chains in iptables.
        "makeIPTablesUtilChains": False,
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        # Images come from our own registry and go away with the cluster; a nearly full disk must not evict them.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
        "clusterDomain": addresses.CLUSTER_DOMAIN,
        "clusterDNS": [addresses.NODE],
        "resolvConf": str(RESOLVER),
        "podLogsDir": str(POD_LOGS),
        "volumePluginDir": str(ROOT / "volume-plugins"),
        "serializeImagePulls": False,
        "registryPullQPS": 0,
        "maxPods": 250,
    }


def component() -> Component:
    file = paths.CONFIGURATION / "kubelet.yaml"
    return Component(
        name="kubelet",
        argv=(
            str(paths.binary("kubelet")),
            f"--config={file}",
            f"--root-dir={ROOT}",
            f"--kubeconfig={certs.kubeconfig('kubelet')}",
            f"--hostname-override={addresses.NODE_NAME}",
            f"--node-ip={addresses.NODE}",
            "--node-labels=specdecode.io/local=node",
        ),
        # No resolver beyond the cluster's own: names outside do not resolve in pods, at once instead of after a wait.
        configuration={file: yaml.safe_dump(configuration(), sort_keys=False), RESOLVER: ""},
        files=(certs.kubeconfig("kubelet"), certs.certificate("kubelet-serving")),
        ready=lambda: probe.http(f"http://{addresses.LOOPBACK}:{addresses.KUBELET_HEALTH_PORT}/healthz"),
    )
