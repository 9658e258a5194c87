"""The stand-in as a container runs it: arguments, environment, signals, exit status."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import aiohttp
import pytest

from engine_standin import settings
from engine_standin.arguments import parse
from engine_standin.settings import SettingError, from_environment
from engine_standin.steps import acceptance_length, steps

PACKAGE = Path(settings.__file__).parents[1]
ENGINE_PATCHES = PACKAGE.parents[1] / "engine_patches"


async def start(*words: str, **environment: str) -> Process:
    command = ["-m", "engine_standin", "/models/plain", "--host", "127.0.0.1", "--port", "0", *words]
    merged = {**os.environ, "PYTHONPATH": f"{PACKAGE}:{ENGINE_PATCHES}", **environment}
    return await asyncio.create_subprocess_exec(sys.executable, *command, env=merged, stdout=PIPE, stderr=PIPE)


async def line_with(process: Process, text: str) -> str:
    """The first line of its output with that text."""
    assert process.stdout is not None
    async with asyncio.timeout(30):
        while line := (await process.stdout.readline()).decode():
            if text in line:
                return line
    raise AssertionError(f"ended without saying {text!r}: {(await process.communicate())[1].decode()}")


async def test_it_says_that_it_is_a_stand_in_and_what_it_ignores() -> None:
    process = await start("--enforce-eager", "--max-num-seqs", "4")
    assert "a stand-in for the engine" in await line_with(process, "version")
    assert await line_with(process, "ignored") == "engine-standin: ignored: --enforce-eager --max-num-seqs 4\n"
    process.terminate()
    assert await process.wait() == 0


async def test_sigterm_lets_a_running_stream_end_and_then_exits_with_zero() -> None:
    process = await start("--shutdown-timeout", "30", STANDIN_TOKENS_PER_SECOND="8")  # longer than a signal takes
    port = (await line_with(process, "on port")).split("on port ")[1].split(",")[0]
    request = {"prompt": "hello", "max_tokens": 40, "stream": True}
    address = f"http://127.0.0.1:{port}/v1/completions"
    async with aiohttp.ClientSession() as client, client.post(address, json=request) as response:
        await response.content.readline()
        process.send_signal(signal.SIGTERM)
        await line_with(process, "draining 1 requests for up to 30 s")
        text = (await response.read()).decode()
    assert '"finish_reason":"length"' in text
    assert text.rstrip().endswith("data: [DONE]")
    assert await process.wait() == 0


async def test_sigterm_while_starting_ends_it_at_once() -> None:
    process = await start(STANDIN_START_DELAY_SECONDS="600")
    await line_with(process, "version")
    process.terminate()
    async with asyncio.timeout(30):
        await process.wait()


async def test_a_crash_at_start_prints_its_message_and_exits_with_its_code() -> None:
    process = await start(STANDIN_CRASH_MESSAGE="CUDA error: out of memory", STANDIN_EXIT_CODE="77")
    _, errors = await process.communicate()
    assert (process.returncode, errors.decode()) == (77, "CUDA error: out of memory\n")


async def test_a_crash_while_serving_exits_with_its_code() -> None:
    process = await start(STANDIN_EXIT_AFTER_SECONDS="0.05", STANDIN_EXIT_CODE="5")
    _, errors = await process.communicate()
    assert process.returncode == 5
    assert "exiting with 5" in errors.decode()


async def test_a_missing_model_is_an_error_of_the_command_line() -> None:
    with pytest.raises(SystemExit) as error:
        parse(["--port", "8000"])
    assert error.value.code == 2


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("STANDIN_TOKENS", "1", "is no setting of the stand-in"),
        ("STANDIN_TOKENS_PER_SECOND", "0", "allowed: above 0"),
        ("STANDIN_TOKENS_PER_SECOND", "fast", "is 'fast'; allowed: float"),
        ("STANDIN_EXIT_CODE", "256", "allowed: 0 to 255"),
        ("STANDIN_RELEASE", "0.1.0", "allowed: 0.30.0, 0.33.0"),
        ("STANDIN_EDITED_FILE", "vllm/nothing.py", "allowed: vllm/config/speculative.py, "),
        ("STANDIN_ATTESTATION", "maybe", "allowed: served, absent"),
        ("STANDIN_SPAN_FACTORS", "propose=2", "names 'propose'; allowed: propose_host, "),
        ("STANDIN_SPAN_FACTORS", "propose_host", "allowed: name=factor"),
    ],
)
def test_a_wrong_setting_says_what_is_allowed(name: str, value: str, part: str) -> None:
    with pytest.raises(SettingError, match=part) as error:
        from_environment({name: value, "PATH": "/bin"})
    assert name in str(error.value)


@pytest.mark.parametrize("length", [1.0, 1.3, 2.0, 2.6, 3.999, 4.0])
@pytest.mark.parametrize("tokens", [1, 2, 7, 100, 999])
def test_steps_yield_exactly_the_asked_tokens_at_the_asked_mean(length: float, tokens: int) -> None:
    found = list(steps(tokens=tokens, drafted=3, length=length, tokens_per_second=10))
    assert sum(step.tokens for step in found) == tokens
    assert all(0 <= step.accepted <= 3 for step in found)
    # Evenly spread: at every point within one token of the mean.
    assert abs(sum(step.accepted for step in found) - len(found) * (length - 1)) < 1
    assert found[-1].due == pytest.approx(tokens / 10)


def test_acceptance_length_stays_within_what_the_draft_allows() -> None:
    assert acceptance_length(9.0, 3, None) == 4.0
    assert acceptance_length(0.0, 3, 1.7) == 1.7
    assert acceptance_length(0.0, 0, None) == 1.0
    assert acceptance_length(0.5, 3, None) == 1.0
