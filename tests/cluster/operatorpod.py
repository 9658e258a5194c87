"""The operator as it is installed in production: by helm, one pod, its own service account."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from apiserver import DEPLOYMENT, POD, SDD, ApiServer, Object
from podhistory import is_ready
from quickprometheus import BACKENDS
from waiting import await_that

from specdecode_local import helm, paths
from specdecode_operator.api import names

RELEASE = "specdecode-operator"
SYSTEM = "specdecode-system"
CHART = paths.REPOSITORY / "charts" / "specdecode-operator"
ACCOUNT = f"system:serviceaccount:{SYSTEM}:{RELEASE}"
"""The operator's name in the API server's audit log."""

SELECTOR = f"app.kubernetes.io/name={RELEASE}"


@dataclass
class InstalledOperator:
    api: ApiServer
    helm: Callable[..., str]
    image: str = ""
    """The image that was installed last."""

    def install(self, image: str) -> None:
        """Install or upgrade to this image, with the CRD of this tree; return once it is Ready."""
        self.image = image
        repository, digest = image.split("@")
        helm.forget_interrupted(RELEASE, SYSTEM)
        self.helm(
            "upgrade", "--install", RELEASE, str(CHART),
            "--namespace", SYSTEM, "--create-namespace",
            "--set", f"image.repository={repository}", "--set", f"image.digest={digest}",
            "--set", "logLevel=debug", "--set-json", f"metricsBackends={json.dumps(BACKENDS)}",
            "--wait", "--timeout", "3m",
        )  # fmt: skip
        self.start()

    def reinstall(self) -> None:
        """Bring back whatever of the release is missing, with the image that is installed."""
        self.install(self.image)

    def pods(self) -> list[Object]:
        return self.api.list(POD, SYSTEM, selector=SELECTOR)

    def scale(self, replicas: int) -> None:
        self.api.patch(DEPLOYMENT, RELEASE, {"spec": {"replicas": replicas}}, SYSTEM)

    def stop(self) -> None:
        """Take the operator away; engines serve on."""
        self.scale(0)
        await_that("the operator's pod is gone", lambda: not self.pods(), seconds=60, state=self.last_lines)

    def start(self) -> None:
        self.scale(1)
        await_that(
            "the operator's pod is Ready",
            lambda: [pod for pod in self.pods() if is_ready(pod)],
            seconds=90,
            state=self.state,
        )
        await_that("the API serves SpecDecodeDeployments", lambda: self.api.listing(SDD, None), seconds=30)
        await_that("discovery lists them", lambda: self.api.discovers(names.GROUP), seconds=30)

    def kill(self) -> None:
        """Delete the pod without any grace, as a lost node would."""
        for pod in self.pods():
            self.api.delete(POD, pod["metadata"]["name"], SYSTEM, seconds=0)

    def last_lines(self, count: int = 40) -> str:
        lines: list[str] = []
        for pod in self.pods():
            name = pod["metadata"]["name"]
            path = POD.path(SYSTEM, name, "log")
            answer = self.api.client.get(path, params={"tailLines": str(count)})
            lines += [f"{name}:", answer.text]
        return "\n".join(lines) or "the operator has no pod"

    def state(self) -> str:
        return json.dumps([pod.get("status") for pod in self.pods()], indent=1) + "\n" + self.last_lines()
