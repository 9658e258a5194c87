"""The kinds of the Prometheus Operator that stand for a scrape and for rules, without that operator.

The local Prometheus scrapes by its own rules, which mean the same, and reads the chart's rules as a file. The kinds are
here so that what runs here makes and keeps its PodMonitors as it does on a cluster where somebody reads them.
"""

from __future__ import annotations

import yaml

from specdecode_local import gobuild
from specdecode_local.manifests import Manifest

KINDS = ("podmonitors", "servicemonitors", "prometheusrules")


def definitions() -> list[Manifest]:
    """The CustomResourceDefinitions, as their module carries them."""
    folder = gobuild.folder("monitors", "crds")
    return [yaml.safe_load((folder / f"monitoring.coreos.com_{kind}.yaml").read_text()) for kind in KINDS]
