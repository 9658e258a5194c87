"""CoreDNS on the node's address, as a process: pods' names for services and for each other."""

from __future__ import annotations

from specdecode_local import addresses, certs, paths, probe
from specdecode_local.process import Component


def configuration() -> str:
    """Cluster names from the API; every other name is answered at once with "no such name", as pods cannot go out."""
    return f"""{addresses.CLUSTER_DOMAIN} in-addr.arpa {{
    bind {addresses.NODE}
    errors
    health {addresses.LOOPBACK}:{addresses.DNS_HEALTH_PORT}
    ready {addresses.LOOPBACK}:{addresses.DNS_READY_PORT}
    kubernetes {addresses.CLUSTER_DOMAIN} in-addr.arpa {{
        kubeconfig {certs.kubeconfig("coredns")}
        pods insecure
        ttl 5
    }}
    cache 5
}}
. {{
    bind {addresses.NODE}
    errors
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


def component() -> Component:
    file = paths.CONFIGURATION / "Corefile"
    return Component(
        name="coredns",
        argv=(str(paths.binary("coredns")), "-conf", str(file), "-dns.port", str(addresses.DNS_PORT)),
        configuration={file: configuration()},
        files=(certs.kubeconfig("coredns"),),
        ready=lambda: probe.http(f"http://{addresses.LOOPBACK}:{addresses.DNS_READY_PORT}/ready"),
    )
