"""The local gateway: routes of any namespace, weights honoured, long streams not cut, and Prometheus sees it."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from typing import Any

import pytest
from commands import Command
from localpods import LocalPods
from waiting import await_that

from specdecode_local import addresses, gateway, images

GATEWAY = f"http://{addresses.LOOPBACK}:{addresses.GATEWAY_PORT}"
PROMETHEUS = f"http://{addresses.LOOPBACK}:{addresses.PROMETHEUS_PORT}"
REQUESTS = 200
STREAM_SECONDS = 20

SAYS_ITS_NAME = """
import http.server, socket
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(socket.gethostname().encode())
http.server.ThreadingHTTPServer(('', 8000), Handler).serve_forever()
"""

STREAMS = f"""
import http.server, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        for second in range({STREAM_SECONDS}):
            self.wfile.write(b'.')
            self.wfile.flush()
            time.sleep(1)
http.server.ThreadingHTTPServer(('', 8000), Handler).serve_forever()
"""


@pytest.fixture
def pods(kubectl: Command, namespace: str) -> LocalPods:
    return LocalPods(kubectl=kubectl, namespace=namespace, image=images.build("base"))


def route(host: str, backends: dict[str, int]) -> dict[str, Any]:
    """Every path of the host, spread by weight, without a time limit."""
    listed = [{"name": name, "port": 80, "weight": weight} for name, weight in backends.items()]
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "web"},
        "spec": {
            "parentRefs": [{"name": gateway.NAME, "namespace": gateway.NAMESPACE, "sectionName": gateway.LISTENER}],
            "hostnames": [host],
            "rules": [{"backendRefs": listed, "timeouts": {"request": "0s"}}],
        },
    }


def ask(host: str, seconds: float = 5) -> tuple[int, str]:
    request = urllib.request.Request(GATEWAY, headers={"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
    except OSError as error:
        return 0, str(error)


def test_a_route_spreads_requests_by_weight(pods: LocalPods, namespace: str) -> None:
    host = f"{namespace}.example"
    for name in ("a", "b"):
        pods.apply(pods.pod(name, SAYS_ITS_NAME), pods.service(name))
    pods.await_ready("a", "b")
    pods.apply(route(host, {"a": 3, "b": 1}))
    await_that("both backends answer", lambda: {ask(host)[1] for _ in range(8)} == {"a", "b"}, seconds=60)
    seen = Counter(ask(host) for _ in range(REQUESTS))
    assert set(seen) == {(200, "a"), (200, "b")}
    assert seen[(200, "a")] == pytest.approx(REQUESTS * 3 / 4, abs=REQUESTS * 0.08)


def test_a_stream_longer_than_the_proxys_default_limit_is_not_cut(pods: LocalPods, namespace: str) -> None:
    host = f"{namespace}.example"
    pods.apply(pods.pod("web", STREAMS), pods.service("web"), route(host, {"web": 1}))
    pods.await_ready("web")

    def whole() -> bool:
        began = time.monotonic()
        status, body = ask(host, seconds=STREAM_SECONDS + 10)
        return status == 200 and len(body) == STREAM_SECONDS and time.monotonic() - began > STREAM_SECONDS - 2

    await_that("the whole stream arrives", whole, seconds=60)


def test_prometheus_scrapes_the_gateway() -> None:
    def is_up() -> bool:
        query = urllib.parse.urlencode({"query": 'up{job="envoy"}'})
        with urllib.request.urlopen(f"{PROMETHEUS}/api/v1/query?{query}", timeout=5) as answer:
            result = json.load(answer)["data"]["result"]
        return bool(result) and all(series["value"][1] == "1" for series in result)

    await_that("the proxy is a target that answers", is_up, seconds=60)
