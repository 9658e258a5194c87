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


def ended(pods: LocalPods, name: str) -> bool:
    return "terminated" in pods.status(name).get("state", {})


@pytest.mark.engine
@pytest.mark.minutes
@pytest.mark.parametrize("line", LINES)
def test_stock_the_series_and_one_switched_off_answer_alike(
    line: str, kubectl: Command, namespace: str, long_form: bool
) -> None:
    if line != LINES[0] and not long_form:
        pytest.skip("an older line's image is built for this alone, minutes of two cores: long form only")
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
    await_that(
        f"the engines of {line} have answered",
        lambda: ended(pods, "engines"),
        seconds=SECONDS,
        state=lambda: pods.describe("engines"),
    )
    said = pods.run("logs", "engines")
    found = dict(quick.results(said.splitlines()))
    assert list(found) == [variant.name for variant in compared], said[-5000:]
    runs = [Run(line, TARGET, DRAFTER, variant, found[variant.name]) for variant in compared]
    print(report.table(runs))
    assert report.failures(runs, {line: carried}) == []
