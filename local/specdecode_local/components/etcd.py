"""etcd, on loopback ports of our own; what the cluster is, is in here."""

from __future__ import annotations

from specdecode_local import addresses, certs, paths, probe
from specdecode_local.process import Component

CLIENT_URL = f"https://{addresses.LOOPBACK}:{addresses.ETCD_PORT}"
PEER_URL = f"http://{addresses.LOOPBACK}:{addresses.ETCD_PEER_PORT}"


def component() -> Component:
    # No fsync: survives kill -9 of every process, which is what we promise; a machine that loses power may lose the
    # last second, and its other promise, a fast start, matters more here.
    return Component(
        name="etcd",
        argv=(
            str(paths.binary("etcd")),
            "--name=local",
            f"--data-dir={paths.STATE / 'etcd'}",
            f"--listen-client-urls={CLIENT_URL}",
            f"--advertise-client-urls={CLIENT_URL}",
            f"--listen-peer-urls={PEER_URL}",
            f"--initial-advertise-peer-urls={PEER_URL}",
            f"--initial-cluster=local={PEER_URL}",
            f"--cert-file={certs.certificate('etcd')}",
            f"--key-file={certs.key('etcd')}",
            f"--trusted-ca-file={certs.authority()}",
            "--client-cert-auth",
            "--unsafe-no-fsync",
            "--auto-compaction-retention=10m",
            "--quota-backend-bytes=2147483648",
            "--log-level=warn",
        ),
        files=(certs.certificate("etcd"),),
        ready=_ready,
    )


def _ready() -> str | None:
    client = probe.tls_context(certs.authority(), certs.certificate("etcd-client"), certs.key("etcd-client"))
    return probe.http(f"{CLIENT_URL}/health", client)
