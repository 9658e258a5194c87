"""Controller manager and scheduler: each with an identity of its own, neither waits to be elected."""

from __future__ import annotations

from specdecode_local import addresses, certs, paths, probe
from specdecode_local.process import Component


def controller_manager() -> Component:
    kubeconfig = certs.kubeconfig("controller-manager")
    return Component(
        name="kube-controller-manager",
        argv=(
            str(paths.binary("kube-controller-manager")),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--bind-address={addresses.LOOPBACK}",
            f"--secure-port={addresses.CONTROLLER_PORT}",
            f"--root-ca-file={certs.authority()}",
            f"--service-account-private-key-file={certs.service_account_key()}",
            f"--cluster-signing-cert-file={certs.authority()}",
            f"--cluster-signing-key-file={certs.key('ca')}",
            "--use-service-account-credentials",
            "--allocate-node-cidrs=false",
            "--leader-elect=false",
        ),
        files=(kubeconfig, certs.service_account_key()),
        ready=lambda: _ready(addresses.CONTROLLER_PORT),
    )


def scheduler() -> Component:
    kubeconfig = certs.kubeconfig("scheduler")
    return Component(
        name="kube-scheduler",
        argv=(
            str(paths.binary("kube-scheduler")),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--bind-address={addresses.LOOPBACK}",
            f"--secure-port={addresses.SCHEDULER_PORT}",
            "--leader-elect=false",
        ),
        files=(kubeconfig,),
        ready=lambda: _ready(addresses.SCHEDULER_PORT),
    )


def _ready(port: int) -> str | None:
    # They sign their own serving certificate in memory; who answers on a loopback port of ours is not in doubt.
    return probe.http(f"https://{addresses.LOOPBACK}:{port}/healthz", probe.unverified_context())
