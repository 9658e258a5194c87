"""Step samples go from an engine's /metrics to a file and from there into another engine's metrics, none lost."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from specdecode_engine import __main__ as cli
from specdecode_engine import attestation, overlay
from specdecode_engine.errors import Refused
from specdecode_engine.manifests import Manifest
from specdecode_engine.telemetry import layout, recording
from specdecode_engine.telemetry.exposition import Metrics
from specdecode_engine.telemetry.frontend import Frontend
from specdecode_engine.telemetry.increments import SHIP_EVERY, Increments
from specdecode_engine.telemetry.layout import SPAN_INDEX
from specdecode_engine.telemetry.playback import Playback


class Engine:
    """Metrics of an engine that counts what the test says."""

    def __init__(self, root: Path, manifest: Manifest) -> None:
        overlay.apply(root, manifest)
        self.registry = CollectorRegistry()
        self.frontend = Frontend(
            Metrics(self.registry),
            model_name="m",
            engines=[0],
            attested=attestation.attest(root, manifest, {}),
            device="cpu",
            method="dspark",
            sample_every=1,
            worker_rank=0,
        )
        self.increments = Increments()
        self.now = 0.0

    def scrape(self) -> str:
        return generate_latest(self.registry).decode()

    def step(self, span: str, seconds: float, *, running: int = 1, mixed: bool = False, accepted: int = 0) -> None:
        self.increments.observe(SPAN_INDEX[span], layout.cell(running, mixed=mixed), seconds)
        self.ship(drafts=[1, 3, [int(at < accepted) for at in range(3)]])

    def ship(self, drafts: list[object] | None = None) -> None:
        self.now += SHIP_EVERY * 1.01
        named = ("num_drafts", "num_draft_tokens", "num_accepted_tokens_per_pos")
        counted = type("Drafts", (), dict(zip(named, drafts, strict=True))) if drafts else None
        stats = type("Stats", (), {"specdecode": self.increments.drain(self.now), "spec_decoding_stats": counted})
        self.frontend.record(stats, None, 0)

    def value(self, name: str, **labels: str) -> float:
        found = self.registry.get_sample_value(name, {"model_name": "m", "engine": "0", **labels})
        assert found is not None, (name, labels)
        return found


@pytest.fixture
def engine(root: Path, manifest: Manifest) -> Engine:
    return Engine(root, manifest)


def windows(engine: Engine, *steps: Callable[[], None]) -> list[dict[str, object]]:
    """One window a step."""
    lines = []
    before = recording.read(engine.scrape())
    for step in steps:
        step()
        after = recording.read(engine.scrape())
        if line := recording.window(before, after, 1.0):
            lines.append(line)
        before = after
    return lines


def test_a_window_with_one_step_holds_its_exact_sample(engine: Engine) -> None:
    (line,) = windows(engine, lambda: engine.step("propose_host", 0.0123, running=3, accepted=2))
    assert line["spans"] == {"decode/4": {"propose_host": [1, 0.0123]}}
    assert (line["drafts"], line["draft_tokens"], line["accepted"]) == (1, 3, [1, 1])


def test_a_window_without_steps_is_no_line(engine: Engine) -> None:
    assert windows(engine, lambda: None, lambda: engine.step("propose_host", 0.1), lambda: None) != []
    assert windows(engine, lambda: None) == []


def test_windows_add_up_to_the_engines_counters(engine: Engine) -> None:
    steps = [(lambda n=n: engine.step("input_prep_host", n / 100, running=n, accepted=n % 4)) for n in range(1, 9)]
    lines = windows(engine, *steps)
    counted = sum(pair[0] for line in lines for spans in line["spans"].values() for pair in spans.values())  # type: ignore[attr-defined]
    seconds = sum(pair[1] for line in lines for spans in line["spans"].values() for pair in spans.values())  # type: ignore[attr-defined]
    assert (counted, seconds) == (8, pytest.approx(0.36))
    assert sum(line["drafts"] for line in lines) == engine.value("specdecode_drafts_total")  # type: ignore[misc]


def test_the_first_line_says_which_engine_it_was(engine: Engine, manifest: Manifest) -> None:
    head = recording.header(recording.read(engine.scrape()), 0.05)
    assert head["manifest_digest"] == manifest.digest
    assert (head["device"], head["method"], head["sample_every"]) == ("cpu", "dspark", 1)


def test_an_engine_without_our_telemetry_is_refused() -> None:
    with pytest.raises(Refused, match="no telemetry"):
        recording.header(recording.read("# nothing\n"), 0.05)


def test_an_engine_started_anew_ends_the_recording(engine: Engine) -> None:
    engine.step("propose_host", 0.1)
    with pytest.raises(Refused, match="engine restarted"):
        recording.window(
            recording.read(engine.scrape()), recording.Reading(spans={("decode/1", "propose_host"): [0, 0]}), 1
        )


def test_an_engine_that_does_not_answer_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = cli.main(["record", "--url", "http://127.0.0.1:1", "--out", str(tmp_path / "steps.jsonl")])
    assert said == 1
    assert "http://127.0.0.1:1/metrics: no answer" in capsys.readouterr().err


def recorded(engine: Engine, *steps: Callable[[], None]) -> str:
    head = recording.header(recording.read(engine.scrape()), 0.05)
    return "\n".join(json.dumps(line) for line in [head, *windows(engine, *steps)])


@pytest.fixture
def played(root: Path, engine: Engine, tmp_path_factory: pytest.TempPathFactory, manifest: Manifest) -> Engine:
    """Another engine, to play into."""
    import releases

    other = tmp_path_factory.mktemp("other") / "site-packages"
    releases.install(other)
    return Engine(other, manifest)


def test_played_steps_have_the_recorded_samples_in_turn(engine: Engine, played: Engine) -> None:
    text = recorded(engine, *((lambda s=s: engine.step("propose_host", s)) for s in (0.01, 0.03)))
    playback = Playback(text)
    for _ in range(4):
        playback.step(played.increments, 1, mixed=False, drafting=True)
    played.ship()
    labels = {"step": "decode", "batch": "1"}
    assert played.value("specdecode_propose_host_seconds_count", **labels) == 4
    assert played.value("specdecode_propose_host_seconds_sum", **labels) == pytest.approx(0.08)
    assert played.value("specdecode_propose_host_seconds_bucket", le=str(layout.BOUNDS[9]), **labels) == 2


def test_a_batch_that_was_not_recorded_counts_as_its_own_with_the_nearest_ones_samples(
    engine: Engine, played: Engine
) -> None:
    text = recorded(
        engine,
        lambda: engine.step("propose_host", 0.1, running=1),
        lambda: engine.step("propose_host", 0.4, running=4),
        lambda: engine.step("propose_host", 9.0, running=8, mixed=True),
    )
    Playback(text).step(played.increments, 30, mixed=False, drafting=True)
    played.ship()
    labels = {"step": "decode", "batch": "32"}
    assert played.value("specdecode_propose_host_seconds_sum", **labels) == pytest.approx(0.4)


def test_a_factor_moves_its_span_alone(engine: Engine, played: Engine) -> None:
    text = recorded(engine, lambda: engine.step("propose_host", 0.1), lambda: engine.step("input_prep_host", 0.1))
    Playback(text, {"propose_host": 1.5}).step(played.increments, 1, mixed=False, drafting=True)
    played.ship()
    labels = {"step": "decode", "batch": "1"}
    assert played.value("specdecode_propose_host_seconds_sum", **labels) == pytest.approx(0.15)
    assert played.value("specdecode_input_prep_host_seconds_sum", **labels) == pytest.approx(0.1)


def test_an_engine_without_drafts_has_no_draft_spans(engine: Engine, played: Engine) -> None:
    text = recorded(engine, lambda: engine.step("propose_host", 0.1), lambda: engine.step("target_forward_gpu", 0.1))
    Playback(text).step(played.increments, 1, mixed=False, drafting=False)
    played.ship()
    labels = {"step": "decode", "batch": "1"}
    assert played.value("specdecode_propose_host_seconds_count", **labels) == 0
    assert played.value("specdecode_target_forward_gpu_seconds_count", **labels) == 1


def test_another_file_is_no_recording() -> None:
    with pytest.raises(ValueError, match="not a recording of format 1"):
        Playback('{"format": 2}\n')
