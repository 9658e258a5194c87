"""kwok, which keeps simulated nodes and their pods alive; it leaves every node without its annotation alone."""

from __future__ import annotations

from specdecode_local import addresses, certs, paths, probe
from specdecode_local.process import Component

NODE_ANNOTATION = "kwok.x-k8s.io/node"


def component() -> Component:
    return Component(
        name="kwok",
        argv=(
            str(paths.binary("kwok")),
            f"--kubeconfig={certs.kubeconfig('kwok')}",
            "--manage-all-nodes=false",
            f"--manage-nodes-with-annotation-selector={NODE_ANNOTATION}=fake",
            f"--cidr={addresses.TRAY_PODS}",
            "--node-lease-duration-seconds=40",
            "--v=warn",
            f"--server-address={addresses.LOOPBACK}:{addresses.KWOK_PORT}",
        ),
        files=(certs.kubeconfig("kwok"),),
        ready=lambda: probe.http(f"http://{addresses.LOOPBACK}:{addresses.KWOK_PORT}/healthz"),
    )
