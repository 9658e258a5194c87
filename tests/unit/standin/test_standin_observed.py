"""Ours of the stand-in: it attests, refuses and counts as the real engine does, with the same code."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from engine_standin import settings
from specdecode_engine import manifests
from specdecode_engine.telemetry import recording

PACKAGE = Path(settings.__file__).parents[1]
PATHS = f"{PACKAGE}:{PACKAGE.parents[1] / 'engine_patches'}"
SPECULATIVE = json.dumps({"method": "dspark", "num_speculative_tokens": 3})

Start = Callable[..., Awaitable[tuple[Process, str]]]


async def spawn(*words: str, **environment: str) -> Process:
    command = ["-m", "engine_standin", "/models/plain", "--host", "127.0.0.1", "--port", "0", *words]
    merged = {**os.environ, "PYTHONPATH": PATHS, "STANDIN_TOKENS_PER_SECOND": "2000", **environment}
    return await asyncio.create_subprocess_exec(sys.executable, *command, env=merged, stdout=PIPE, stderr=PIPE)


@pytest.fixture
async def serving() -> AsyncIterator[Start]:
    """Starts stand-ins; gives the process and the address of each, and ends them."""
    started: list[Process] = []

    async def start(*words: str, **environment: str) -> tuple[Process, str]:
        process = await spawn("--served-model-name", "m", "--speculative-config", SPECULATIVE, *words, **environment)
        started.append(process)
        assert process.stdout is not None
        async with asyncio.timeout(60):
            while line := (await process.stdout.readline()).decode():
                if "on port " in line:
                    return process, f"http://127.0.0.1:{line.split('on port ')[1].split(',')[0]}"
        raise AssertionError((await process.communicate())[1].decode())

    yield start
    for process in started:
        process.kill()
        await process.wait()


async def answer(url: str) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as client, client.get(url) as response:
        text = await response.text()
        return response.status, json.loads(text) if text.startswith("{") else text


async def complete(url: str, tokens: int) -> None:
    body = {"model": "m", "prompt": "hello", "max_tokens": tokens}
    async with aiohttp.ClientSession() as client, client.post(f"{url}/v1/completions", json=body) as response:
        assert response.status == 200, await response.text()
        await response.read()


async def counted(url: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    _, text = await answer(f"{url}/metrics")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def total(values: dict[tuple[str, tuple[tuple[str, str], ...]], float], name: str, **labels: str) -> float:
    matching = [v for (found, of), v in values.items() if found == name and labels.items() <= dict(of).items()]
    assert matching, name
    return sum(matching)


@pytest.mark.parametrize("line", ["0.30.0", "0.33.0"])
async def test_it_attests_the_whole_series_of_its_line_and_is_ready(serving: Start, line: str) -> None:
    manifest = manifests.load(line)
    _, url = await serving(STANDIN_RELEASE=line, SPECDECODE_EXPECT_MANIFEST=manifest.digest)
    status, said = await answer(f"{url}/specdecode/attestation")
    assert (status, said["ok"], said["manifest_digest"]) == (200, True, manifest.digest)
    assert {row["state"] for row in said["optimizations"]} <= {"active", "upstream"}
    assert await answer(f"{url}/specdecode/ready") == (200, {"ready": True, "attested": True})
    assert (await answer(f"{url}/version"))[1]["version"] == f"{line}+standin"


async def test_it_is_ready_only_while_it_is_healthy(serving: Start) -> None:
    _, url = await serving(STANDIN_HEALTH_FAILS_AFTER_SECONDS="0")
    assert await answer(f"{url}/specdecode/ready") == (503, {"ready": False, "attested": True})


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"SPECDECODE_EXPECT_MANIFEST": "f" * 64}, "another manifest than the pod's revision names"),
        ({"SPECDECODE_DISABLE": "prefix-cache-tail"}, "not switchable: found prefix-cache-tail"),
        ({"SPECDECODE_DISABLE": "nonsense"}, "unknown optimization: found nonsense"),
        ({"STANDIN_EDITED_FILE": "vllm/v1/outputs.py"}, "vllm/v1/outputs.py: edited file"),
    ],
)
async def test_it_does_not_start_where_the_engine_would_not(environment: dict[str, str], message: str) -> None:
    process = await spawn(**environment)
    _, errors = await process.communicate()
    assert process.returncode == 78
    assert "this engine does not start" in errors.decode()
    assert message in errors.decode()
    assert "Traceback" not in errors.decode()


async def test_a_switch_shows_in_what_it_attests_and_exports(serving: Start) -> None:
    _, url = await serving(SPECDECODE_DISABLE="telemetry")
    _, said = await answer(f"{url}/specdecode/attestation")
    assert said["disabled"] == ["telemetry"]
    assert {row["name"]: row["state"] for row in said["optimizations"]}["telemetry"] == "disabled"
    await complete(url, 40)
    values = await counted(url)
    assert total(values, "specdecode_optimization_info", optimization="telemetry", state="disabled") == 1
    assert total(values, "specdecode_propose_host_seconds_count") == 0
    assert total(values, "specdecode_drafts_total") == total(values, "vllm:spec_decode_num_drafts_total") > 0


async def test_it_can_attest_another_series_than_it_is_expected_to(serving: Start) -> None:
    expected = manifests.load("0.33.0").digest
    _, url = await serving(STANDIN_ATTESTS="a" * 64, SPECDECODE_EXPECT_MANIFEST=expected)
    _, said = await answer(f"{url}/specdecode/attestation")
    assert (said["manifest_digest"], said["expected_manifest"]) == ("a" * 64, expected)


async def test_it_can_be_an_image_without_our_package(serving: Start) -> None:
    _, url = await serving(STANDIN_ATTESTATION="absent")
    for path in ("attestation", "ready"):
        assert (await answer(f"{url}/specdecode/{path}"))[0] == 404


async def test_its_counters_equal_the_engines_own_to_the_last_count(serving: Start) -> None:
    _, url = await serving()
    await asyncio.gather(*(complete(url, 30 + n) for n in range(7)))
    values = await counted(url)
    for ours, theirs in {
        "specdecode_drafts_total": "vllm:spec_decode_num_drafts_total",
        "specdecode_draft_tokens_total": "vllm:spec_decode_num_draft_tokens_total",
        "specdecode_accepted_tokens_total": "vllm:spec_decode_num_accepted_tokens_total",
    }.items():
        assert total(values, ours) == total(values, theirs) > 0
    for position in "012":
        ours_at = total(values, "specdecode_accepted_tokens_total", position=position)
        assert ours_at == total(values, "vllm:spec_decode_num_accepted_tokens_per_pos_total", position=position)
    drafts = total(values, "specdecode_drafts_total")
    assert total(values, "specdecode_acceptance_length_count") == drafts
    assert total(values, "specdecode_acceptance_length_sum") == drafts + total(
        values, "specdecode_accepted_tokens_total"
    )
    assert total(values, "specdecode_requests_finished_total") == 7


async def test_its_spans_are_recorded_ones_of_the_real_engine(serving: Start) -> None:
    _, url = await serving()
    await complete(url, 400)
    values = await counted(url)
    head, windows = recording.parse((PACKAGE / "engine_standin" / "steps.jsonl").read_text())
    assert total(values, "specdecode_engine_info", device=head["device"]) == 1
    for span in ("propose_host", "drafter_gpu", "input_prep_host", "target_forward_gpu"):
        samples = [spans[span] for line in windows for spans in line["spans"].values() if span in spans]
        seconds = [pair[1] / pair[0] for pair in samples]
        count = total(values, f"specdecode_{span}_seconds_count")
        assert count > 10
        assert min(seconds) <= total(values, f"specdecode_{span}_seconds_sum") / count <= max(seconds)


async def test_starting_loads_neither_torch_nor_the_engine() -> None:
    program = "import sys, engine_standin.run; print(sorted({'torch', 'vllm', 'triton', 'numpy'} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": PATHS}
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, env=environment, stdout=PIPE)
    assert (await process.communicate())[0] == b"[]\n"
