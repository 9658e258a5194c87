"""Objects for tests, written as a user would: `deployment().on("gb200").replicas(3).parsed()`.

Every step returns a new builder, so tests can branch off a common start.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from specdecode_operator.api import names
from specdecode_operator.api.types import Spec, SpecDecodeDeployment

DIGEST = "sha256:" + "0123456789abcdef" * 4
IMAGE = f"registry.example.com/specdecode/engine@{DIGEST}"
OTHER_IMAGE = f"registry.example.com/specdecode/engine@sha256:{'f' * 64}"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass(frozen=True)
class DeploymentBuilder:
    """A SpecDecodeDeployment in the making."""

    obj: Mapping[str, Any]

    def set(self, path: str, value: Any) -> Self:
        """With `value` at a dotted path of the object, such as `spec.drain.preStopSeconds`."""
        changed = copy.deepcopy(dict(self.obj))
        *parents, last = path.split(".")
        place = changed
        for part in parents:
            place = place.setdefault(part, {})
        place[last] = value
        return type(self)(changed)

    def without(self, path: str) -> Self:
        """Without what is at a dotted path."""
        changed = copy.deepcopy(dict(self.obj))
        *parents, last = path.split(".")
        place = changed
        for part in parents:
            place = place[part]
        del place[last]
        return type(self)(changed)

    def named(self, name: str, namespace: str = "serving") -> Self:
        return self.set("metadata.name", name).set("metadata.namespace", namespace)

    def on(self, profile: str, **overrides: Any) -> Self:
        """On an accelerator profile; `overrides` are fields of `spec.accelerator`."""
        return self.set("spec.accelerator", {"profile": profile, **overrides})

    def drafting(self, method: str, draft: str | None = None, tokens: int = 3) -> Self:
        speculative: dict[str, Any] = {"method": method, "numSpeculativeTokens": tokens}
        if draft is not None:
            speculative["draftModel"] = {"source": draft}
        return self.set("spec.speculative", speculative)

    def serving(self, source: str, revision: str | None = None) -> Self:
        model = {"name": "demo-model", "source": source}
        return self.set("spec.model", model if revision is None else {**model, "revision": revision})

    def replicas(self, count: int) -> Self:
        return self.set("spec.replicas", count)

    def image(self, image: str) -> Self:
        return self.set("spec.engine.image", image)

    def args(self, *args: str) -> Self:
        return self.set("spec.engine.args", list(args))

    def env(self, **variables: str) -> Self:
        return self.set("spec.engine.env", [{"name": name, "value": value} for name, value in variables.items()])

    def switched_off(self, *optimizations: str) -> Self:
        return self.set("spec.engine.optimizations", {"disable": list(optimizations)})

    def stock(self) -> Self:
        return self.set("spec.engine.build", "stock")

    def behind(self, gateway: str, *hostnames: str) -> Self:
        traffic: dict[str, Any] = {"gateway": {"name": gateway}}
        return self.set("spec.traffic", {**traffic, "hostnames": list(hostnames)} if hostnames else traffic)

    def built(self) -> dict[str, Any]:
        """The object, as kubectl would send it."""
        return copy.deepcopy(dict(self.obj))

    def stored(self, uid: str = "00000000-0000-0000-0000-000000000001", generation: int = 1) -> dict[str, Any]:
        """The object, as the API server would return it."""
        return self.set("metadata.uid", uid).set("metadata.generation", generation).built()

    def parsed(self) -> SpecDecodeDeployment:
        """The object as the operator sees it."""
        return SpecDecodeDeployment.parse(self.stored())

    def spec(self) -> Spec:
        return self.parsed().spec


def deployment(name: str = "demo") -> DeploymentBuilder:
    """The least that is valid: one replica on a CPU, drafting by n-gram."""
    return DeploymentBuilder(
        {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {"name": name, "namespace": "serving"},
            "spec": {
                "model": {"name": "demo-model", "source": "/models/plain"},
                "speculative": {"method": "ngram", "numSpeculativeTokens": 3},
                "engine": {"version": "0.33.0", "image": IMAGE},
                "accelerator": {"profile": "cpu"},
            },
        }
    )
