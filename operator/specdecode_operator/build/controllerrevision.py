"""The ControllerRevision `<name>-<revision>`: a revision frozen as it was rendered when it was first seen.

The API server lets no one change `data`. Whatever a later operator would render, pods of this revision are made from
what stands here.
"""

from collections.abc import Mapping
from typing import Any

from specdecode_operator.api import names
from specdecode_operator.api.catalogue import Series
from specdecode_operator.api.profiles import Profile
from specdecode_operator.api.types import Spec
from specdecode_operator.build import pod
from specdecode_operator.build.frozen import Expected, Frozen
from specdecode_operator.build.owner import Owner, metadata
from specdecode_operator.build.revision import LATEST_FORM


def build(
    owner: Owner, spec: Spec, profile: Profile, revision: str, number: int, *, series: Series | None
) -> dict[str, Any]:
    """Render `spec` once and for all.

    Args:
        owner: the object.
        spec: its spec now.
        profile: the accelerator, overrides applied.
        revision: hash of the spec.
        number: position in the object's history, from 1.
        series: what the image carries; None for a stock engine.
    """
    data: dict[str, Any] = {
        "formVersion": LATEST_FORM,
        "engineVersion": spec.engine.version,
        "image": spec.engine.image,
        "profile": profile.name,
        "nodesPerReplica": profile.nodes_per_replica,
        "stock": series is None,
        "template": pod.identified(pod.template(spec, profile, series), owner.name, revision, profile, serves=True),
    }
    if series is not None:
        data["expected"] = {
            "series": series.name,
            "manifestDigest": series.manifest_digest,
            "optimizations": series.states(spec.engine.optimizations.disable),
        }
    if profile.nodes_per_replica > 1:
        workers = pod.worker_template(spec, profile, series)
        data["workerTemplate"] = pod.identified(workers, owner.name, revision, profile, serves=False)
    return {**identity(owner, revision), "revision": number, "data": data}


def identity(owner: Owner, revision: str) -> dict[str, Any]:
    """What of a ControllerRevision can be edited by hand, and is set back."""
    labels = names.revision_labels(owner.name, revision)
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata(owner, names.revision_child(owner.name, revision), labels),
    }


def frozen(obj: Mapping[str, Any]) -> Frozen:
    """Read a ControllerRevision of ours back."""
    data = obj["data"]
    return Frozen(
        revision=obj["metadata"]["name"].rpartition("-")[2],
        form_version=data["formVersion"],
        engine_version=data["engineVersion"],
        image=data["image"],
        template=data["template"],
        nodes_per_replica=data["nodesPerReplica"],
        profile=data["profile"],
        worker_template=data.get("workerTemplate"),
        expected=_expected(data.get("expected")),
        stock=data.get("stock", False),
    )


def _expected(data: Mapping[str, Any] | None) -> Expected | None:
    if data is None:
        return None
    return Expected(data["series"], data["manifestDigest"], dict(data["optimizations"]))
