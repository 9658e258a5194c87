"""An API server of the oldest supported line, beside the running cluster, its etcd in a folder that goes with it.

It is the cluster's own program, emulating that line as Kubernetes has it: with the API versions, the feature gates and
the CEL library of then, so that a rule in words of a later line is refused. Schemas and costs are checked by today's
code. Building the program of that line itself takes a quarter of an hour of one core.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml
from apiserver import CRD, ApiServer
from hostoperator import free_port
from hostprocess import running
from waiting import await_that

from specdecode_local import addresses, certs, paths, probe

LINE = "1.32"
"""The oldest line that the operator supports."""


@contextmanager
def oldest_api_server(folder: Path) -> Iterator[ApiServer]:
    """Start it and give a client once it serves."""
    etcd, port = f"http://{addresses.LOOPBACK}:{free_port()}", free_port()
    with running(_etcd(folder, etcd), folder / "etcd.log") as storage, ExitStack() as later:
        await_that("its etcd answers", lambda: probe.http(f"{etcd}/health") is None, state=storage.last_words)
        process = later.enter_context(running(_api_server(etcd, port), folder / "api-server.log"))
        server = ApiServer(_kubeconfig(folder, port))
        await_that(
            "the API server of the oldest line serves CRDs",
            lambda: process.ended() or server.listing(CRD, None),
            seconds=120,
            state=process.last_words,
        )
        assert not process.ended(), process.last_words()
        yield server


def _etcd(folder: Path, url: str) -> list[str]:
    peer = f"http://{addresses.LOOPBACK}:{free_port()}"
    return [
        str(paths.binary("etcd")),
        "--name=oldest",
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=oldest={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _api_server(etcd: str, port: int) -> list[str]:
    return [
        str(paths.binary("kube-apiserver")),
        f"--emulated-version={LINE}",
        f"--etcd-servers={etcd}",
        f"--bind-address={addresses.LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={certs.certificate('apiserver')}",
        f"--tls-private-key-file={certs.key('apiserver')}",
        f"--client-ca-file={certs.authority()}",
        "--anonymous-auth=false",
        "--endpoint-reconciler-type=none",
        f"--advertise-address={addresses.NODE}",
        f"--service-cluster-ip-range={addresses.SERVICES}",
        "--service-account-issuer=https://oldest.test",
        f"--service-account-key-file={certs.service_account_public_key()}",
        f"--service-account-signing-key-file={certs.service_account_key()}",
        # What it needs for nothing but itself would only make its start slow, or end it on a busy machine.
        "--authorization-mode=AlwaysAllow",
        "--enable-priority-and-fairness=false",
        "--runtime-config=rbac.authorization.k8s.io/v1=false,flowcontrol.apiserver.k8s.io/v1=false",
    ]


def _kubeconfig(folder: Path, port: int) -> Path:
    """The administrator's, with this server in the cluster's place."""
    config = yaml.safe_load(paths.KUBECONFIG.read_text())
    for cluster in config["clusters"]:
        cluster["cluster"]["server"] = f"https://{addresses.LOOPBACK}:{port}"
    target = folder / "kubeconfig"
    target.write_text(yaml.safe_dump(config))
    target.chmod(0o600)
    return target
