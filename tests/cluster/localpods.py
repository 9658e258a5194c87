"""Pods of the base image for tests of the cluster itself: a web server, or any Python program."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from subprocess import DEVNULL, PIPE, Popen
from typing import Any

from commands import Command, CommandFailed
from waiting import await_that

from specdecode_local import paths

WEB = """
import http.server
server = http.server.ThreadingHTTPServer(('', 8000), http.server.SimpleHTTPRequestHandler)
print('serving', flush=True)
server.serve_forever()
"""
PORT = 8000
LISTENS = {"tcpSocket": {"port": PORT}, "periodSeconds": 1}


@dataclass(frozen=True)
class LocalPods:
    """Makes pods in one namespace and asks about them, through kubectl as a person would."""

    kubectl: Command
    namespace: str
    image: str

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        return self.kubectl("-n", self.namespace, *arguments, stdin=stdin)

    def apply(self, *objects: dict[str, Any]) -> None:
        self.run("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def pod(self, name: str, program: str = WEB, **container: Any) -> dict[str, Any]:
        """A pod that runs the Python program; `container` adds to its container, `restartPolicy` to the pod.

        The default program is a web server, ready once it listens.
        """
        if program == WEB:
            container.setdefault("readinessProbe", LISTENS)
        policy = container.pop("restartPolicy", "Always")
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "restartPolicy": policy,
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {"name": "main", "image": self.image, "command": ["python3", "-uc", program], **container}
                ],
            },
        }

    def service(self, name: str) -> dict[str, Any]:
        spec = {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": PORT}]}
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}

    def get(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("get", kind, name, "-o", "json"))
        return found

    def status(self, name: str) -> dict[str, Any]:
        """The only container's status."""
        statuses = self.get("pod", name)["status"].get("containerStatuses") or [{}]
        return dict(statuses[0])

    def is_ready(self, name: str) -> bool:
        return bool(self.status(name).get("ready"))

    def await_ready(self, *names: str) -> None:
        for name in names:
            await_that(
                f"pod {name} is ready",
                lambda name=name: self.is_ready(name),
                state=lambda name=name: self.describe(name),
            )

    def describe(self, name: str) -> str:
        return self.run("describe", "pod", name)

    def python(self, name: str, program: str) -> str:
        """Output of a Python program run inside the pod."""
        return self.run("exec", name, "--", "python3", "-c", program).strip()

    def answers(self, name: str, url: str) -> bool:
        """Whether the pod gets a 200 from the URL."""
        ask = f"import urllib.request as r; print(r.urlopen({url!r}, timeout=3).status)"
        try:
            return self.python(name, ask) == "200"
        except CommandFailed:
            return False

    @contextmanager
    def port_forward(self, name: str, port: int) -> Iterator[int]:
        """A free loopback port that leads to the pod's."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            local = int(free.getsockname()[1])
        command = [str(self.kubectl.program), "--kubeconfig", str(paths.KUBECONFIG), "-n", self.namespace]
        process = Popen([*command, "port-forward", f"pod/{name}", f"{local}:{port}"], stdout=PIPE, stderr=DEVNULL)
        try:
            assert process.stdout is not None
            assert b"Forwarding from" in process.stdout.readline(), "kubectl port-forward said nothing"
            yield local
        finally:
            process.terminate()
            process.wait(timeout=10)
