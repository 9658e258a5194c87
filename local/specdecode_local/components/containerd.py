"""containerd and its CNI networks: state, sockets and plugins' data in our own folders, beside any other containerd."""

from __future__ import annotations

import json
from pathlib import Path

from specdecode_local import addresses, paths, probe
from specdecode_local.process import Component

SOCKET = paths.RUN / "containerd.sock"
ROOT = paths.STATE / "containerd"
RUNTIME_STATE = paths.RUN / "containerd"
CNI_CONFIGURATION = paths.CONFIGURATION / "cni"
CNI_DATA = paths.RUN / "cni"
CNI_PLUGINS = Path("/usr/lib/cni")

NETWORK = {
    "cniVersion": "0.4.0",
    "name": "specdecode-local",
    "plugins": [
        {
            "type": "ptp",
            "ipMasq": False,
            "ipam": {
                "type": "host-local",
                "dataDir": str(CNI_DATA),
                "ranges": [[{"subnet": addresses.POD_GATEWAY_SUBNET}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}
"""No masquerading: pods reach each other, services and this machine, and nothing beyond."""


def configuration(pause_image: str) -> str:
    """containerd's own file. AppArmor off and scores restricted, since this may itself run in a small machine."""
    return f"""version = 2
root = "{ROOT}"
state = "{RUNTIME_STATE}"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]

[grpc]
  address = "{SOCKET}"

[ttrpc]
  address = "{SOCKET}.ttrpc"

[debug]
  level = "warn"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause_image}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  max_concurrent_downloads = 4

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = "{CNI_CONFIGURATION}"

  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    discard_unpacked_layers = true

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""


def component(pause_image: str) -> Component:
    file = paths.CONFIGURATION / "containerd.toml"
    return Component(
        name="containerd",
        argv=("/usr/bin/containerd", "--config", str(file)),
        configuration={
            file: configuration(pause_image),
            CNI_CONFIGURATION / "10-specdecode.conflist": json.dumps(NETWORK, indent=2),
        },
        ready=lambda: probe.unix(SOCKET),
    )
