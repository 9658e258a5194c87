"""The local cluster is a Kubernetes like any other: what a person does with kubectl works on it."""

from __future__ import annotations

import json
import subprocess
import urllib.request

import pytest
from commands import Command, CommandFailed
from localpods import PORT, LocalPods
from waiting import await_that

from specdecode_local import addresses, images, network

CRASHES = "print('first words', flush=True); raise SystemExit(3)"
EATS_MEMORY = "held = bytearray(200_000_000); held[::4096] = b'x' * len(held[::4096]); import time; time.sleep(60)"
BECOMES_UNREADY = "import pathlib; pathlib.Path('/tmp/sick').touch()"
WEB_WITH_HEALTH = """
import http.server, pathlib
class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        self.send_response(503 if self.path == '/health' and pathlib.Path('/tmp/sick').exists() else 200)
        self.end_headers()
http.server.HTTPServer(('', 8000), Handler).serve_forever()
"""


@pytest.fixture
def pods(kubectl: Command, namespace: str) -> LocalPods:
    return LocalPods(kubectl=kubectl, namespace=namespace, image=images.build("base"))


def test_logs_show_what_a_container_prints(pods: LocalPods) -> None:
    pods.apply(pods.pod("web"))
    await_that("the log has the server's first line", lambda: "serving" in pods.run("logs", "web"), seconds=60)


def test_exec_runs_a_command_and_passes_its_input(pods: LocalPods) -> None:
    pods.apply(pods.pod("web"))
    pods.await_ready("web")
    assert pods.python("web", "import socket; print(socket.gethostname())") == "web"
    assert pods.run("exec", "-i", "web", "--", "cat", stdin="through the pipe") == "through the pipe"
    with pytest.raises(CommandFailed) as raised:
        pods.run("exec", "web", "--", "sh", "-c", "exit 7")
    assert raised.value.status == 7


def test_port_forward_reaches_the_pod(pods: LocalPods) -> None:
    pods.apply(pods.pod("web"))
    pods.await_ready("web")
    with pods.port_forward("web", PORT) as port, urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
        assert answer.status == 200


def test_a_crashed_container_is_restarted_and_its_last_words_are_kept(pods: LocalPods) -> None:
    pods.apply(pods.pod("crash", CRASHES))
    await_that("it was restarted", lambda: pods.status("crash").get("restartCount", 0) >= 1, seconds=60)
    # The kubelet may be taking the one before last away at this very moment, so one refusal says nothing.
    await_that("its last words are kept", lambda: "first words" in pods.run("logs", "crash", "--previous"), seconds=30)
    assert pods.status("crash")["lastState"]["terminated"]["exitCode"] == 3


def test_a_container_over_its_memory_limit_is_killed_for_it(pods: LocalPods) -> None:
    limited = {"resources": {"limits": {"memory": "64Mi"}}, "restartPolicy": "Never"}
    pods.apply(pods.pod("hungry", EATS_MEMORY, **limited))
    await_that("it ended", lambda: "terminated" in pods.status("hungry").get("state", {}), seconds=60)
    ended = pods.status("hungry")["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)


def test_a_failing_readiness_probe_takes_the_pod_out_of_its_service(pods: LocalPods) -> None:
    probe = {"httpGet": {"path": "/health", "port": PORT}, "periodSeconds": 1, "failureThreshold": 1}
    pods.apply(pods.pod("web", WEB_WITH_HEALTH, readinessProbe=probe), pods.service("web"))
    pods.await_ready("web")
    pods.python("web", BECOMES_UNREADY)
    await_that("it is not ready any more", lambda: not pods.is_ready("web"), seconds=30)
    assert pods.status("web")["restartCount"] == 0, "readiness must not restart it"


def test_a_failing_liveness_probe_restarts_the_container(pods: LocalPods) -> None:
    probe = {"httpGet": {"path": "/health", "port": PORT}, "periodSeconds": 1, "failureThreshold": 2}
    pods.apply(pods.pod("web", WEB_WITH_HEALTH, livenessProbe=probe))
    pods.await_ready("web")
    pods.python("web", BECOMES_UNREADY)
    await_that("it was restarted", lambda: pods.status("web")["restartCount"] >= 1, seconds=60)


def test_a_service_is_reached_by_name_and_by_address_from_a_pod_and_from_this_machine(
    pods: LocalPods, namespace: str
) -> None:
    pods.apply(pods.pod("web"), pods.service("web"), pods.pod("client"))
    pods.await_ready("web", "client")
    address = pods.get("service", "web")["spec"]["clusterIP"]
    for name in ("web", f"web.{namespace}", f"web.{namespace}.svc.{addresses.CLUSTER_DOMAIN}", address):
        url = f"http://{name}/"
        await_that(f"the client gets an answer from {url}", lambda url=url: pods.answers("client", url), seconds=30)
    assert pods.answers("web", f"http://{address}/"), "a pod reaches itself through its own service"
    with urllib.request.urlopen(f"http://{address}/", timeout=5) as answer:
        assert answer.status == 200


def test_a_name_outside_the_cluster_is_refused_at_once(pods: LocalPods) -> None:
    pods.apply(pods.pod("client"))
    pods.await_ready("client")
    program = """
import socket, time
began = time.monotonic()
try:
    socket.getaddrinfo('example.org', 80)
except socket.gaierror:
    print('refused' if time.monotonic() - began < 2 else 'slow')
"""
    assert pods.python("client", program) == "refused"


def test_a_pod_reaches_the_api_server_with_its_own_token(pods: LocalPods) -> None:
    pods.apply(pods.pod("client"))
    pods.await_ready("client")
    program = """
import ssl, urllib.request
base = '/var/run/secrets/kubernetes.io/serviceaccount/'
ask = urllib.request.Request('https://kubernetes.default.svc/version')
ask.add_header('Authorization', 'Bearer ' + open(base + 'token').read())
print(urllib.request.urlopen(ask, context=ssl.create_default_context(cafile=base + 'ca.crt'), timeout=5).status)
"""
    assert pods.python("client", program) == "200"


def test_a_pod_reaches_prometheus_at_the_nodes_address(pods: LocalPods) -> None:
    pods.apply(pods.pod("client"))
    pods.await_ready("client")
    assert pods.answers("client", f"http://{addresses.NODE}:{addresses.PROMETHEUS_PORT}/-/ready")


@pytest.mark.parametrize("address", ["10.96.255.1", "10.244.3.200", "10.244.200.1"])
def test_what_is_sent_to_a_service_a_gone_pod_or_a_simulated_pod_stays_on_this_machine(address: str) -> None:
    found = json.loads(subprocess.run(["ip", "-json", "route", "get", address], capture_output=True, text=True).stdout)
    assert [hop["dev"] for hop in found] == [network.LINK]
