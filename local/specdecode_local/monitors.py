"""The two kinds of the Prometheus Operator that stand for a scrape, without that operator.

The local Prometheus scrapes by its own rules, which mean the same. The kinds are here so that what runs here makes and
keeps its PodMonitors as it does on a cluster where somebody reads them.
"""

from __future__ import annotations

import yaml

from specdecode_local import gobuild
from specdecode_local.manifests import Manifest

FILES = ("monitoring.coreos.com_podmonitors.yaml", "monitoring.coreos.com_servicemonitors.yaml")


def definitions() -> list[Manifest]:
    """The CustomResourceDefinitions, as their module carries them."""
    folder = gobuild.folder("monitors", "crds")
    return [yaml.safe_load((folder / name).read_text()) for name in FILES]
