"""An engine of several ranks or servers on a CPU: whose counts and samples reach /metrics, and under which labels."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import wheels
from engine_matrix import image, serving, workload
from engine_matrix.image import Image
from engine_matrix.variants import Variant
from engine_matrix.workload import Result
from prometheus_client.parser import text_string_to_metric_families

pytestmark = pytest.mark.wheels

TOKENS = 6
STARTED = "Application startup complete."
"""What each server says in the log."""


@pytest.fixture(
    scope="module", params=[pytest.param(line, marks=pytest.mark.xdist_group(line)) for line in wheels.LINES]
)
def engines(request: pytest.FixtureRequest) -> Iterator[Image]:
    with image.unpacked(f"engine-cpu-{request.param}") as unpacked:
        yield unpacked


def of_engine(exposition: str, engine: int) -> Result:
    """What /metrics says of one engine."""
    result = Result()
    kept = [line for line in exposition.splitlines() if line.startswith("#") or f'engine="{engine}"' in line]
    workload.counters(result, "\n".join([*kept, ""]))
    return result


def infos(exposition: str) -> dict[str, dict[str, str]]:
    """Label `engine` -> the labels of its specdecode_engine_info."""
    samples = [sample for family in text_string_to_metric_families(exposition) for sample in family.samples]
    return {s.labels["engine"]: s.labels for s in samples if s.name == "specdecode_engine_info"}


def all_of(engines: Image) -> Variant:
    return Variant("all", frozenset(engines.carried()), whole=True)


def test_two_data_parallel_ranks_are_two_engines_with_counts_of_their_own(engines: Image, tmp_path: Path) -> None:
    ranks = {"data_parallel_size": 2, "api_server_count": 1}
    with serving.engine(engines, all_of(engines), "plain", "dspark", tmp_path / "engine.log", ranks) as url:
        workload.run(url, tokens=TOKENS)
        exposition = serving.get(f"{url}/metrics")
    assert {engine: labels["worker_rank"] for engine, labels in infos(exposition).items()} == {"0": "0", "1": "0"}
    for engine in (0, 1):
        result = of_engine(exposition, engine)
        assert result.own["drafts"] > 0, f"engine {engine} had nothing to do"
        assert result.ours == result.own
        assert result.spans["propose_host"][0] > 0
        assert result.spans["input_prep_host"][0] > 0


SETTINGS = {
    "servers": {"api_server_count": 2},
    "quiet": {"disable_log_stats": True},
    "tensor": {"tensor_parallel_size": 2},
}


@pytest.mark.parametrize("more", SETTINGS.values(), ids=SETTINGS)
def test_one_engine_of_several_servers_or_ranks_or_without_log_stats_counts_once(
    engines: Image, tmp_path: Path, more: dict[str, int]
) -> None:
    log = tmp_path / "engine.log"
    with serving.engine(engines, all_of(engines), "plain", "dspark", log, more) as url:
        result = workload.run(url, tokens=TOKENS)
        exposition = serving.get(f"{url}/metrics")
    assert {engine: labels["worker_rank"] for engine, labels in infos(exposition).items()} == {"0": "0"}
    assert result.own["drafts"] > 0
    assert result.ours == result.own
    assert result.spans["propose_host"][0] > 0
    assert result.spans["input_prep_host"][0] > 0
    assert log.read_text().count(STARTED) == more.get("api_server_count", 1)
