"""A revision as it was rendered when it was first seen. All children are built from this, never from the spec."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Expected:
    """What a pod of a revision must attest."""

    series: str
    manifest_digest: str
    states: Mapping[str, str]
    """Each optimization of the series to its state, those switched off included."""


@dataclass(frozen=True)
class Frozen:
    """What a revision's ControllerRevision holds. The dicts are shared: copy before changing."""

    revision: str
    form_version: int
    engine_version: str
    image: str
    template: Mapping[str, Any]
    """Pod template, labels included, of the pod that serves."""
    nodes_per_replica: int
    profile: str = ""
    worker_template: Mapping[str, Any] | None = None
    """Pod template of the follower pods, for a replica that spans nodes."""
    expected: Expected | None = None
    """None: a stock engine, or a revision from before there was anything to expect."""
    stock: bool = False
