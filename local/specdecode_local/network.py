"""The node's own network: a veth pair with the node's address, and routes that keep the cluster's traffic inside.

The kubelet refuses a loopback address and the kernel may have no dummy device, hence the pair. Pods hang on pairs of
their own (CNI's ptp), so every packet is routed by this machine and service addresses need no bridge filtering.
"""

from __future__ import annotations

import ipaddress
import json
import subprocess
from typing import Any

from specdecode_local import addresses
from specdecode_local.errors import LocalError

LINK = "specdecode0"
PEER = "specdecode1"


def up() -> None:
    """Makes the pair, the address and the routes; each only if it is not there."""
    if LINK not in link_names():
        _ip("link", "add", LINK, "type", "veth", "peer", "name", PEER)
    for name in (LINK, PEER):
        _ip("link", "set", name, "up")
    if addresses.NODE not in addresses_of(LINK):
        _ip("address", "add", f"{addresses.NODE}/32", "dev", LINK)
    # What is for a service that kube-proxy has not programmed yet, a pod that is gone or a simulated one must not
    # leave by the machine's own interface. A pod that is there has a route of its own.
    for inside in (addresses.SERVICES, addresses.PODS):
        _ip("route", "replace", inside, "dev", LINK)


def down() -> None:
    """Removing one end removes the other, the address and the routes."""
    if LINK in link_names():
        _ip("link", "delete", LINK)


def require_no_clash() -> None:
    """Raises LocalError when another interface already uses one of our ranges."""
    ours = [ipaddress.ip_network(text) for text in (addresses.PODS, addresses.SERVICES, f"{addresses.NODE}/32")]
    clashes = []
    for link in json.loads(_ip("-json", "address", "show")):
        if link["ifname"] == LINK or addresses.POD_GATEWAY in [a.get("local") for a in link["addr_info"]]:
            continue
        for info in link["addr_info"]:
            if info["family"] == "inet" and any(ipaddress.ip_address(info["local"]) in network for network in ours):
                clashes.append(f"{link['ifname']} has {info['local']}/{info['prefixlen']}")
    if clashes:
        raise LocalError(
            f"addresses of the cluster ({', '.join(map(str, ours))}) are in use on this machine",
            detail="\n".join(clashes),
            remedy="another cluster of this kind is up (stop it), or run this one in a machine of its own",
        )


def link_names() -> set[str]:
    return {link["ifname"] for link in _links()}


def addresses_of(name: str) -> set[str]:
    shown: list[dict[str, Any]] = json.loads(_ip("-json", "address", "show", "dev", name))
    return {info["local"] for link in shown for info in link.get("addr_info", [])}


def pod_links() -> list[str]:
    """Host ends of pods' pairs: those that carry the pods' gateway address."""
    shown: list[dict[str, Any]] = json.loads(_ip("-json", "address", "show"))
    return [
        link["ifname"]
        for link in shown
        if any(info.get("local") == addresses.POD_GATEWAY for info in link.get("addr_info", []))
    ]


def delete_link(name: str) -> None:
    subprocess.run(["ip", "link", "delete", name], capture_output=True, check=False)


def _links() -> list[dict[str, Any]]:
    links: list[dict[str, Any]] = json.loads(_ip("-json", "link", "show"))
    return [link for link in links if "ifname" in link]


def _ip(*arguments: str) -> str:
    result = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if result.returncode:
        raise LocalError(
            f"`ip {' '.join(arguments)}` failed",
            detail=result.stderr,
            remedy="network devices need root and a kernel with veth",
        )
    return result.stdout
