"""kube-proxy in nftables mode: service addresses, for pods and for this machine."""

from __future__ import annotations

from specdecode_local import addresses, certs, firewall, paths, probe
from specdecode_local.process import Component


def component() -> Component:
    return Component(
        name="kube-proxy",
        argv=(
            str(paths.binary("kube-proxy")),
            f"--kubeconfig={certs.kubeconfig('kube-proxy')}",
            f"--hostname-override={addresses.NODE_NAME}",
            "--proxy-mode=nftables",
            f"--cluster-cidr={addresses.PODS}",
            f"--nodeport-addresses={addresses.NODE}/32",
            f"--healthz-bind-address={addresses.LOOPBACK}:{addresses.PROXY_HEALTH_PORT}",
            f"--metrics-bind-address={addresses.LOOPBACK}:{addresses.PROXY_METRICS_PORT}",
            # Zero leaves the machine's connection tracking limits as they are.
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0s",
            "--conntrack-tcp-timeout-close-wait=0s",
        ),
        files=(certs.kubeconfig("kube-proxy"),),
        # It empties the chain of an endpoint that has gone, and takes one that it finds at its start for whole: after a
        # restart of the API server too, the service `kubernetes` would lead nowhere for good.
        before=firewall.remove_proxy_tables,
        ready=lambda: probe.http(f"http://{addresses.LOOPBACK}:{addresses.PROXY_HEALTH_PORT}/healthz"),
    )
