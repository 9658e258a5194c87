"""Simulated worlds: what pods of a fleet measure while nothing, or a known effect, separates the arms.

All effects are natural logarithms, all noise is of one window of half a minute unless said otherwise. The variances
are assumptions; recorded worlds are to confirm them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from specdecode_operator.gates.arrays import Flags, Floats
from specdecode_operator.gates.control import tray_baseline
from specdecode_operator.gates.course import Cells, Trays
from specdecode_operator.gates.distributions import chi2_quantile
from specdecode_operator.gates.plan import Plan
from specdecode_operator.gates.rules import BETA_GAIN
from specdecode_operator.gates.scores import cell_scores, window_scores

HISTORY = 120
"""Windows of every pod before the swap."""

STARTS = 40
"""Pod starts behind the registered noise."""

WINDOWS_AN_HOUR = 120
BURST_WINDOWS = 12


@dataclass(frozen=True)
class World:
    """What makes the pods of a fleet differ."""

    name: str
    tray: float = 0.006
    start: float = 0.004
    window: float = 0.007
    correlation: float = 0.6
    sampling: float = 0.0115
    heavy: bool = False
    """Sampling noise with the tails of Student's t with 2.5 degrees of freedom."""
    drift: float = 0.0
    """Of the whole fleet."""
    bursts: float = 0.0
    """An hour and pod; six minutes of +20%, the control's too."""
    slow: float = 0.0
    """Part of the trays that is 3% slower for good, in the control too."""
    buckets: tuple[float, ...] = (1.0,)
    """Share of the steps in each batch bucket; each is half as slow again as the one before."""
    uneven: float = 0.0
    """Standard deviation of ln of a pod's share of a bucket."""
    missing: float = 0.0
    """Part of the windows of each pod that is lost."""
    outages: float = 0.0
    """An hour and pod; ten windows lost in a row."""
    control_touched: float = 0.0
    """What the change does to the control."""
    shared: float = 0.9
    """Part of a tray's offset that its control has too; the rest, and half as much again, is each one's own."""
    tracking: float = 0.0
    """Part of a tray's own baseline that is subtracted."""

    def but(self, name: str, **changes: Any) -> World:
        return replace(self, name=name, **changes)


HOST = World("host")
GPU = World("gpu", tray=0.005, start=0.001, window=0.003, correlation=0.8, sampling=0.004)
ROUGH = {"drift": 0.02, "bursts": 1 / 8, "slow": 0.05}

WORLDS = (
    HOST,
    HOST.but("host, tray baseline", tracking=0.75),
    HOST.but("host, all at once", **ROUGH),
    HOST.but("host, all at once, tray baseline", **ROUGH, tracking=0.75),
    GPU,
    GPU.but("gpu, all at once", **ROUGH),
    GPU.but("common drift", drift=0.02),
    GPU.but("bursts", bursts=1 / 8),
    GPU.but("slow trays", slow=0.05),
    GPU.but("offsets 0.5%", tray=0.0035, start=0.0035),
    GPU.but("offsets 1%", tray=0.007, start=0.007),
    GPU.but("offsets 2%", tray=0.014, start=0.014),
    GPU.but("autocorrelation 0.95", window=0.006, correlation=0.95),
    GPU.but("mixed batches", buckets=(0.3, 0.4, 0.3), uneven=0.3),
    GPU.but("thin traffic", sampling=0.04, missing=0.1),
    GPU.but("missing scrapes", missing=0.05, outages=0.25),
    GPU.but("resets", missing=0.01),
    GPU.but("heavy tails", heavy=True, sampling=0.02),
    GPU.but("touched control", control_touched=0.015),
)


@dataclass(frozen=True)
class Traces:
    """Many runs of one world, without the effect: [runs, pods, windows, buckets], stable pods first."""

    stable: Flags
    cells: Cells
    trays: Trays
    past: Floats
    """Mean of the stable pods' ln time before the swap, [runs]."""

    def with_effect(self, effect: float) -> Cells:
        """The same windows with a candidate that is slower by `effect`."""
        return replace(self.cells, values=self.cells.values + effect * ~self.stable[:, None, None])


def simulate(world: World, plan: Plan, runs: int, rng: np.random.Generator) -> Traces:
    """Traces of `runs` runs. The candidate gets the trays nearest the fleet's median before the swap."""
    windows = plan.windows.planned
    pods = plan.stable.pods + plan.candidate.pods
    stable = np.arange(pods) < plan.stable.pods
    tray = rng.normal(0, world.tray, (runs, pods))
    slow = 0.03 * (rng.random((runs, pods)) < world.slow)
    own = math.sqrt(1 - world.shared**2) / 2
    control_tray = world.shared * tray + rng.normal(0, own * world.tray, (runs, pods)) + slow
    starts = rng.normal(0, world.start, (2, runs, pods))
    history, history_control = _measured(world, tray + slow + starts[0], control_tray, runs, HISTORY, rng)
    order = _nearest_last(history, plan.candidate.pods)
    tray, slow, control_tray, history, history_control = (
        np.take_along_axis(each, order.reshape(order.shape + (1,) * (each.ndim - 2)), axis=1)
        for each in (tray, slow, control_tray, history, history_control)
    )
    # Stable pods run on; the candidate's are new starts.
    offsets = tray + slow + np.where(stable, np.take_along_axis(starts[0], order, axis=1), starts[1])
    values, control = _measured(world, offsets, control_tray, runs, windows, rng)
    control = control + world.control_touched * ~stable[:, None, None]
    lost = _lost(world, (runs, pods, windows), rng)
    values[lost], control[lost] = np.nan, np.nan
    weights = np.array(list(plan.gates[0].span.strata.values()))
    counts = np.where(lost[..., None], 0.0, 1000.0 * weights)
    cells = Cells(values, counts, weights, control, np.ones(1))
    reference = plan.stable.pods
    scores = window_scores(cell_scores(history, stable, reference), weights)
    control_scores = window_scores(cell_scores(history_control, stable, reference), np.ones(1))
    middle, median, mad = tray_baseline(control_scores)
    control_of_plan = plan.gates[0].control
    subtracted = control_of_plan.beta * control_scores if control_of_plan else 0.0
    trays = Trays(
        mean=np.nanmean(scores - subtracted, axis=-1), control_mean=middle, control_median=median, control_mad=mad
    )
    past = (history * weights / weights.sum()).sum(axis=-1)[:, stable].mean(axis=(1, 2))
    return Traces(stable, cells, trays, past)


def _nearest_last(history: Floats, slots: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Order of the pods of each run, [runs, pods]: those nearest the fleet's median last."""
    means = np.nanmean(history, axis=(2, 3))
    away = np.abs(means - np.median(means, axis=1, keepdims=True))
    del slots
    return np.argsort(-away, axis=1)


def _measured(
    world: World, offsets: Floats, control_offsets: Floats, runs: int, windows: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """ln of the span's and of the control's means, [runs, pods, windows, buckets]."""
    shape = (*offsets.shape, windows)
    fleet = _autoregressive(rng, (runs, 1, windows), 0.9, world.drift)
    burst = 0.2 * _episodes(rng, shape, world.bursts, BURST_WINDOWS)
    common = (offsets[..., None] + _autoregressive(rng, shape, world.correlation, world.window) + fleet + burst)[
        ..., None
    ]
    levels = 0.4 * np.arange(len(world.buckets))
    shares = np.array(world.buckets) * np.exp(rng.normal(0, world.uneven, (*offsets.shape, 1, len(world.buckets))))
    noise = _sampling(world, rng, (*shape, len(world.buckets))) / np.sqrt(shares / shares.sum(axis=-1, keepdims=True))
    control = control_offsets[..., None] + rng.normal(0, 0.005, shape) + fleet + burst
    return common + levels + noise, control[..., None]


def _sampling(world: World, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    if world.heavy:
        return world.sampling * rng.standard_t(2.5, shape) / math.sqrt(5)
    return rng.normal(0, world.sampling, shape)


def _autoregressive(rng: np.random.Generator, shape: tuple[int, ...], correlation: float, sd: float) -> Floats:
    found = rng.normal(0, sd, shape)
    fresh = math.sqrt(1 - correlation**2)
    for window in range(1, shape[-1]):
        found[..., window] = correlation * found[..., window - 1] + fresh * found[..., window]
    return found


def _episodes(rng: np.random.Generator, shape: tuple[int, ...], an_hour: float, length: int) -> Floats:
    """1 during episodes of `length` windows that begin at random, else 0."""
    begins = rng.random(shape) < an_hour / WINDOWS_AN_HOUR
    going = np.zeros(shape)
    for later in range(min(length, shape[-1])):
        going[..., later:] = np.maximum(going[..., later:], begins[..., : shape[-1] - later])
    return going


def _lost(world: World, shape: tuple[int, ...], rng: np.random.Generator) -> Flags:
    return np.asarray((rng.random(shape) < world.missing) | (_episodes(rng, shape, world.outages, 10) > 0))


def plan_for(world: World, stable: int, candidate: int, margin: float, windows: int) -> Plan:
    """The plan that a calibration of this world would register."""
    plain = world.tray**2 + world.start**2 + 0.03**2 * world.slow * (1 - world.slow)
    own = world.tray**2 * ((1 - world.shared) ** 2 + (1 - world.shared**2) / 4)
    beta = int(own + world.start**2 < BETA_GAIN**2 * plain)
    lasting = own if beta else plain - world.start**2
    between = (lasting + world.start**2) * (1 - world.tracking) ** 2
    upper = (STARTS - 1) / chi2_quantile(0.2, STARTS - 1)
    long_run = world.window**2 * (1 + world.correlation) / (1 - world.correlation) + world.sampling**2
    tracking = {"weight": world.tracking, "startSpread": world.start, "starts": STARTS} if world.tracking else None
    strata = {str(2**place): share for place, share in enumerate(world.buckets)}
    return Plan.model_validate(
        {
            "gatesVersion": 1,
            "name": "bench",
            "run": world.name,
            "stable": {"revision": "stable", "pods": stable},
            "candidate": {"revision": "candidate", "pods": candidate},
            "trays": [{"node": "all"}],
            "windows": {"start": 0, "seconds": 30, "planned": windows},
            "gates": [
                {
                    "name": "span",
                    "span": {"metric": "span", "strata": strata},
                    "margin": margin,
                    "control": {"span": {"metric": "control", "step": ""}, "beta": beta},
                    "tracking": tracking,
                    "noise": {
                        "between": between * upper,
                        "longRun": long_run,
                        "starts": STARTS,
                        "windowSd": math.hypot(world.window, world.sampling),
                    },
                }
            ],
        }
    )
