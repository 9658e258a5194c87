"""Whether both arms served the same requests: what would make a difference of the arms one of their traffic."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable

import numpy as np

from specdecode_operator.gates.arrays import Flags, Floats, ratio
from specdecode_operator.gates.intake import Intake
from specdecode_operator.gates.quantiles import Buckets, added, quantile
from specdecode_operator.gates.rules import DROPPED_SHARE, LOAD_RATIO, PREFIX_DIFFERENCE, PROMPT_RATIO, STEPS_RATIO
from specdecode_operator.gates.verdict import Reason


def obstacles(intake: Intake) -> dict[Reason, Flags]:
    """What each look, [windows], finds wrong with the traffic until then. Data that the plan names and that isn't there
    is wrong too."""
    traffic = intake.plan.traffic
    checks: tuple[tuple[Reason, object, Callable[[Intake], Flags]], ...] = (
        (Reason.TRAFFIC_SHARE, True, _share_off),
        (Reason.PROMPTS_DIFFER, traffic.prompt_tokens, _prompts_differ),
        (Reason.PROMPTS_DIFFER, traffic.prefix_queries, _prefixes_differ),
        (Reason.LOST_STEPS, traffic.gateway_requests, _steps_off),
        (Reason.LOST_STEPS, traffic.dropped, _drops_differ),
    )
    found = {Reason.FEW_REQUESTS: too_few(intake, traffic.min_requests)}
    for reason, wanted, check in checks:
        if wanted:
            found[reason] = found.get(reason, np.zeros(intake.elapsed, np.bool_)) | check(intake)
    if traffic.prefix_queries:
        found[Reason.PROMPTS_DIFFER] |= _absent(intake, traffic.prefix_hits)
    if traffic.dropped:
        found[Reason.LOST_STEPS] |= _absent(intake, traffic.dropped)
    return found


def _absent(intake: Intake, metric: str | None) -> bool:
    """Whether an arm has no row of the metric: what isn't counted is not a count of zero."""
    pods = {bool(intake.stable[pod]) for (name, _), rows in intake.rows.items() for pod, _, _ in rows if name == metric}
    return pods != {True, False}


def too_few(intake: Intake, wanted: int) -> Flags:
    """[windows]: whether the candidate arm has finished fewer requests than wanted."""
    return np.asarray(arms(intake, intake.requests)[1] < wanted)


def arms(intake: Intake, values: Floats) -> tuple[Floats, Floats]:
    """Sums of [pods, windows] over stable and over the candidate, all windows until each."""
    summed = np.cumsum(values, axis=-1)
    stable = intake.stable
    return summed[stable].sum(axis=0), summed[~stable].sum(axis=0)


def _apart(stable: Floats, candidate: Floats, factor: float) -> Flags:
    """Whether two amounts differ by more than a factor; what isn't known differs."""
    ratios = ratio(candidate, stable)
    return ~((ratios <= factor) & (ratios >= 1 / factor))


def _share_off(intake: Intake) -> Flags:
    """Requests of the arms against the route's weight."""
    plan = intake.plan
    stable, candidate = arms(intake, intake.requests)
    if plan.traffic.min_requests == 0 and not intake.requests.any():
        return np.zeros(intake.elapsed, bool)
    weight = plan.traffic.candidate_weight or plan.candidate.pods / (plan.candidate.pods + plan.stable.pods)
    return _apart(stable / (1 - weight), candidate / weight, LOAD_RATIO)


def _counted(intake: Intake, metric: str | None) -> Floats:
    """[pods, windows]: counts of a metric over its steps and buckets."""
    total = np.zeros((len(intake.pods), intake.elapsed))
    for name, step in intake.rows:
        if name == metric:
            total += intake.series(name, step).counts.sum(axis=-1)
    return total


def _prompts_differ(intake: Intake) -> Flags:
    """Median prompt length of the arms."""
    so_far: list[dict[str, float]] = [{}, {}]
    rows: defaultdict[tuple[int, bool], list[Buckets]] = defaultdict(list)
    for (metric, _), found in intake.rows.items():
        for pod, window, sample in found if metric == intake.plan.traffic.prompt_tokens else ():
            if sample.buckets is not None and intake.spent[pod, window] == "":
                rows[window, bool(intake.stable[pod])].append(sample.buckets)
    medians = np.full((2, intake.elapsed), math.nan)
    for window in range(intake.elapsed):
        for arm in (0, 1):
            so_far[arm] = added((so_far[arm], *rows[window, bool(arm)]))
            medians[arm, window] = quantile(so_far[arm], 0.5)
    return _apart(medians[0], medians[1], PROMPT_RATIO)


def _prefixes_differ(intake: Intake) -> Flags:
    """Share of prompt tokens that the prefix cache had."""
    queries = arms(intake, _counted(intake, intake.plan.traffic.prefix_queries))
    hits = arms(intake, _counted(intake, intake.plan.traffic.prefix_hits))
    stable, candidate = (ratio(hit, asked) for hit, asked in zip(hits, queries, strict=True))
    return ~(np.abs(candidate - stable) <= PREFIX_DIFFERENCE)


def _steps(intake: Intake) -> tuple[Floats, Floats]:
    """Steps of the first span that is judged, [windows] of each arm."""
    return arms(intake, _counted(intake, intake.plan.gates[0].span.metric))


def _steps_off(intake: Intake) -> Flags:
    """Steps that were measured for each request that the gateway sent: fewer means that samples died."""
    nothing = np.zeros(intake.elapsed)
    sent = [np.cumsum(intake.gateway.get(arm.revision, nothing)) for arm in (intake.plan.stable, intake.plan.candidate)]
    stable, candidate = (ratio(steps, asked) for steps, asked in zip(_steps(intake), sent, strict=True))
    return _apart(stable, candidate, STEPS_RATIO)


def _drops_differ(intake: Intake) -> Flags:
    """Samples that the telemetry dropped, for each step."""
    dropped = arms(intake, _counted(intake, intake.plan.traffic.dropped))
    stable, candidate = (ratio(lost, steps) for lost, steps in zip(dropped, _steps(intake), strict=True))
    return ~(np.abs(candidate - stable) <= DROPPED_SHARE)
