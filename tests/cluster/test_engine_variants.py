"""Real engines of both lines in pods: stock, the whole series, and the series with one optimization switched off.

The quick form of `make engine-matrix`: the same models, questions and expectations, fewer engines.
"""

from __future__ import annotations

import pytest
from commands import Command
from engine_matrix import forked, quick, report, variants
from engine_matrix.report import Run
from localpods import LocalPods
from waiting import await_that

from specdecode_engine import manifests
from specdecode_local import images

LINES = ("0.33.0", "0.30.0")
TARGET, DRAFTER = variants.QUICK_PAIRS[0]
TOKENS = 8
SECONDS = 900
"""Three engines of twenty seconds' work on a processor of their own, far more beside others."""


def last_words(pods: LocalPods, name: str) -> str:
    """What the pod printed, once it has ended; nothing before."""
    return pods.run("logs", name) if "terminated" in pods.status(name).get("state", {}) else ""


@pytest.mark.engine
@pytest.mark.apart
@pytest.mark.minutes
@pytest.mark.xdist_group("engines")  # one line at a time: both would take the processors from whoever is alone
@pytest.mark.parametrize("line", LINES)
def test_stock_the_series_and_one_switched_off_answer_alike(line: str, kubectl: Command, namespace: str) -> None:
    carried = manifests.load(line).patched
    compared = list(variants.of(carried, quick=True))
    pods = LocalPods(kubectl=kubectl, namespace=namespace, image=images.build(f"engine-cpu-{line}"))
    with open(forked.__file__) as source:
        program = source.read()
    # root: stock is made by taking the patches out of the installed files
    root = {"runAsUser": 0, "runAsGroup": 0}
    pods.apply(
        pods.pod(
            "engines",
            program,
            args=[quick.asked(compared, TARGET, DRAFTER, tokens=TOKENS)],
            restartPolicy="Never",
            securityContext=root,
        )
    )
    said = await_that(
        f"the engines of {line} have answered",
        lambda: last_words(pods, "engines"),
        seconds=SECONDS,
        state=lambda: pods.describe("engines"),
    )
    found = dict(quick.results(said.splitlines()))
    assert list(found) == [variant.name for variant in compared], said[-5000:]
    runs = [Run(line, TARGET, DRAFTER, variant, found[variant.name]) for variant in compared]
    print(report.table(runs))
    assert report.failures(runs, {line: carried}) == []
