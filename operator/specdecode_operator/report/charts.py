"""The report's pictures. Each says in words, for who can't see it, what it shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup

from specdecode_operator.gates.arrays import Floats
from specdecode_operator.gates.plan import Gate, Plan
from specdecode_operator.gates.verdict import GateVerdict, Look, percent
from specdecode_operator.report.series import ArmSeries, PodRow, Shown
from specdecode_operator.report.svg import Frame, Point, Scale, area, box, element, line, path, picture, text
from specdecode_operator.report.told import Both
from specdecode_operator.report.words import LOSSES, Span, utc

WIDTH: Final = 720.0
BAR: Final = 240.0


def harm_edges(gate: Gate) -> tuple[float, ...]:
    """Where harm begins, in percent of the metric's own direction: the lines that an interval is held against."""
    margin = 100 * gate.margin
    if gate.kind == "superior":
        return (-gate.sign * margin,)
    return (-margin, margin) if gate.kind == "equivalent" else (gate.sign * margin,)


def interval(gate: Gate, look: Look | GateVerdict) -> tuple[float, float] | None:
    """The bounds that are held against the margin, in percent. Each of the judge's is at the error of what it decides;
    to be equivalent, both sides have to hold at Pass's, which is that of the harmful side."""
    low, high = (look.interval or (None, None)) if isinstance(look, GateVerdict) else (look.lower, look.upper)
    if low is None or high is None or look.estimate is None:
        return None
    if gate.kind == "equivalent":
        reach = high - look.estimate if gate.sign > 0 else look.estimate - low
        low, high = look.estimate - reach, look.estimate + reach
    return 100 * low, 100 * high


def course(plan: Plan, gate: Gate, verdict: GateVerdict) -> Markup:
    """The arms' difference with its interval, look by look, against the margin."""
    looks = [look for look in verdict.looks if look.estimate is not None]
    frame = _course_frame(plan, gate, looks)
    marks: list[Markup] = [*_harm(frame, gate), *frame.axes("windows", lambda value: f"{value:+g}%")]
    marks.append(line(frame.at(frame.x.low, 0), frame.at(frame.x.high, 0), "zero"))
    marks += [line(frame.at(frame.x.low, edge), frame.at(frame.x.high, edge), "margin") for edge in harm_edges(gate)]
    bounded = [(look.window, *bounds) for look in looks if (bounds := interval(gate, look))]
    lower, upper = ([frame.at(each[0], each[place]) for each in bounded] for place in (1, 2))
    marks.append(area(upper, lower, "interval"))
    marks += [path([points], "bound") for points in (upper, lower)]
    marks.append(path([[frame.at(look.window, 100 * (look.estimate or 0.0)) for look in looks]], "estimate"))
    marks += _decided(frame, verdict)
    beside = [(edge, f"margin {edge:+g}%", "tag harm") for edge in harm_edges(gate)]
    if looks:
        beside.append((100 * (looks[-1].estimate or 0.0), percent(looks[-1].estimate), "tag candidate"))
    marks += frame.beside(beside)
    return picture(WIDTH, 260, _course_words(gate, verdict), *marks)


def _course_frame(plan: Plan, gate: Gate, looks: Sequence[Look]) -> Frame:
    """Wide enough for the margin and for the later half of the intervals: the first are wider than any picture."""
    late = looks[len(looks) // 2 :]
    ends = [bound for look in late for bound in interval(gate, look) or ()]
    ends += [100 * look.estimate for look in late if look.estimate is not None]
    reach = 1.6 * 100 * gate.margin
    low, high = min([-reach, *ends]), max([reach, *ends])
    return Frame.of(WIDTH, 260, (0, plan.windows.planned), (low, high), right=118)


def _harm(frame: Frame, gate: Gate) -> Iterator[Markup]:
    """The side of a margin where harm is; of a promise to be better, where it isn't kept."""
    left, right = frame.x.start, frame.x.end
    for edge in harm_edges(gate):
        above = edge > 0 if gate.kind != "superior" else gate.sign > 0
        top, bottom = (frame.y.end, frame.y(edge)) if above else (frame.y(edge), frame.y.start)
        yield box(left, top, right - left, bottom - top, "harm")


def _decided(frame: Frame, verdict: GateVerdict) -> Iterator[Markup]:
    if verdict.decided_at is None or verdict.estimate is None:
        return
    x, y = frame.at(verdict.decided_at, 100 * verdict.estimate)
    yield line((x, frame.y.start), (x, frame.y.end), "decided")
    yield element("circle", cx=x, cy=y, r=4.0, class_="point")
    side, anchor = (-6, "end") if x > WIDTH / 2 else (6, "start")
    yield text(x + side, frame.y.end + 12, f"decided after window {verdict.decided_at}", "tag", anchor)


def _course_words(gate: Gate, verdict: GateVerdict) -> str:
    bounds = interval(gate, verdict)
    between = f", between {bounds[0]:+.2f}% and {bounds[1]:+.2f}%" if bounds else ", without bounds yet"
    return (
        f"Candidate minus stable of gate {gate.name} over {verdict.windows} of {verdict.planned} windows: "
        f"{percent(verdict.estimate)}{between}; margin {100 * gate.margin:g}%."
    )


def bar(gate: Gate, verdict: GateVerdict) -> Markup:
    """The last interval against the margin, small."""
    bounds = interval(gate, verdict)
    reach = max(200 * gate.margin, *(1.1 * abs(bound) for bound in bounds or (0.0,)))
    scale = Scale(-reach, reach, 4, BAR - 4)
    marks: list[Markup] = [line((4, 14), (BAR - 4, 14), "axis"), line((scale(0), 7), (scale(0), 21), "axis")]
    for edge in harm_edges(gate):
        marks.append(line((scale(edge), 3), (scale(edge), 25), "margin"))
    if bounds:
        low, high = (scale(bound) for bound in bounds)
        marks.append(box(low, 10, high - low, 8, "interval solid"))
    if verdict.estimate is not None:
        marks.append(element("circle", cx=scale(100 * verdict.estimate), cy=14.0, r=4.0, class_="point"))
    return picture(BAR, 28, _course_words(gate, verdict), *marks)


def arms(plan: Plan, gate: Gate, both: Shown) -> Markup:
    """What each arm measured: the mean of its pods, and the range that they span."""
    ends = [float(value) for arm in (both.stable, both.candidate) for value in (*arm.lowest, *arm.highest)
            if math.isfinite(value)]  # fmt: skip
    frame = Frame.of(WIDTH, 220, (0, plan.windows.planned), (min(ends, default=0.0), max(ends, default=1.0)))
    marks = frame.axes("windows", lambda value: f"{value:g}")
    marks.append(text(4, 12, both.unit, "tick"))
    for arm, name in ((both.stable, "stable"), (both.candidate, "candidate")):
        for run in _runs(arm.highest):
            upper = [frame.at(window + 1, float(arm.highest[window])) for window in run]
            lower = [frame.at(window + 1, float(arm.lowest[window])) for window in run]
            marks.append(area(upper, lower, f"range {name}"))
        marks.append(path(_points(frame, arm.middle), f"series {name}"))
    marks += frame.beside([(_latest(arm), name, f"tag {name}") for arm, name in (
        (both.stable, "stable"), (both.candidate, "candidate")) if math.isfinite(_latest(arm))])  # fmt: skip
    label = (
        f"Gate {gate.name}, both arms window by window, in {both.unit}: stable ended at {_said(both.stable)}, "
        f"the candidate at {_said(both.candidate)}."
    )
    return picture(WIDTH, 220, label, *marks)


def _runs(values: Floats) -> list[list[int]]:
    """Places of values without a hole between them."""
    found: list[list[int]] = [[]]
    for place, value in enumerate(values):
        if math.isfinite(value):
            found[-1].append(place)
        elif found[-1]:
            found.append([])
    return [run for run in found if run]


def _points(frame: Frame, values: Floats) -> list[list[Point]]:
    return [[frame.at(window + 1, float(values[window])) for window in run] for run in _runs(values)]


def _latest(arm: ArmSeries) -> float:
    """The last window's value that there is."""
    return next((float(value) for value in reversed(arm.middle) if math.isfinite(value)), math.nan)


def _said(arm: ArmSeries) -> str:
    return f"{_latest(arm):.4g}" if math.isfinite(_latest(arm)) else "nothing"


def drift(plan: Plan, verdict: GateVerdict) -> Markup:
    """The arms' difference in the control since the swap, against what counts as drift."""
    limit = 100 * (verdict.control.limit if verdict.control else 0.01)
    values = [(look.window, 100 * look.drift) for look in verdict.looks if look.drift is not None]
    reach = max([1.5 * limit, *(abs(value) for _, value in values[len(values) // 4 :])])
    frame = Frame.of(WIDTH, 170, (0, plan.windows.planned), (-reach, reach), right=118)
    left, right = frame.x.start, frame.x.end
    marks = [
        box(left, frame.y.end, right - left, frame.y(limit) - frame.y.end, "harm"),
        box(left, frame.y(-limit), right - left, frame.y.start - frame.y(-limit), "harm"),
        *frame.axes("windows", lambda value: f"{value:+g}%"),
        line(frame.at(0, 0), frame.at(frame.x.high, 0), "zero"),
        *(line(frame.at(0, edge), frame.at(frame.x.high, edge), "margin") for edge in (limit, -limit)),
        path([[frame.at(*value) for value in values]], "series control"),
        *frame.beside([(edge, f"drift from {edge:+g}%", "tag harm") for edge in (limit, -limit)]),
    ]
    last = f"{values[-1][1]:+.2f}%" if values else "unknown"
    return picture(WIDTH, 170, f"Control of gate {verdict.gate}: {last} at the end, drift from {limit:g}%.", *marks)


def losses(plan: Plan, rows: Sequence[PodRow]) -> Markup:
    """Pods by windows: which were used, and why the others weren't."""
    high = 9.0 if len(rows) <= 40 else 3.0
    frame = Frame.of(WIDTH, 30 + high * len(rows) + 26, (0, plan.windows.planned), (0, 1), left=90, right=20)
    wide = (frame.x.end - frame.x.start) / plan.windows.planned
    marks: list[Markup] = []
    for place, row in enumerate(rows):
        top = 20 + high * place
        name = "candidate" if row.candidate else "stable"
        marks.append(box(frame.x.start, top, wide * len(row.reasons), high - 1, f"used {name}", f"pod {row.uid}"))
        for window, reason in enumerate(row.reasons):
            if reason:
                words = f"window {window + 1} of pod {row.uid} on {row.node}: {reason}"
                mark = LOSSES.get(reason, LOSSES[""]).mark
                marks.append(box(frame.x(window), top, wide, high - 1, f"lost {mark}", words))
    stable = sum(not row.candidate for row in rows)
    for first, count, name in ((0, stable, "stable"), (stable, len(rows) - stable, "candidate")):
        if count:
            marks.append(text(84, 20 + high * (first + count / 2) + 3, f"{count} {name}", f"tag {name}", "end"))
    bottom = 20 + high * len(rows)
    for value in frame.x.ticks(8):
        marks.append(text(frame.x(value), bottom + 14, f"{value:g}", "tick", "middle"))
    lost = sum(bool(reason) for row in rows for reason in row.reasons)
    whole = sum(len(row.reasons) for row in rows)
    marks.append(text(frame.x.start, 12, "windows of each pod, one row a pod", "tick"))
    return picture(WIDTH, bottom + 22, f"{whole - lost} of {whole} windows of {len(rows)} pods were used.", *marks)


def positions(shares: Sequence[Both]) -> Markup:
    """Acceptance by drafted position, both arms."""
    frame = Frame.of(WIDTH, 200, (0.5, len(shares) + 0.5), (0, 100), right=20)
    marks = [*frame.axes("drafted position", lambda value: f"{value:g}%")]
    for place, both in enumerate(shares, start=1):
        for share, name, away in ((both.stable, "stable", -30.0), (both.candidate, "candidate", 2.0)):
            if math.isfinite(share):
                x, y = frame.at(place, 100 * share)
                marks.append(box(x + away, y, 28, frame.y(0) - y, f"column {name}"))
                marks.append(text(x + away + 14, y - 4, f"{100 * share:.1f}", f"tick {name}", "middle"))
    said = "; ".join(f"position {place}: {_share(both.stable)} and {_share(both.candidate)}"
                     for place, both in enumerate(shares, start=1))  # fmt: skip
    return picture(WIDTH, 200, f"Accepted drafted tokens of stable and of the candidate: {said}.", *marks)


def _share(value: float) -> str:
    return f"{100 * value:.1f}%" if math.isfinite(value) else "unknown"


def timeline(spans: Sequence[Span], slots: int, end: float) -> Markup:
    """Phases over time, with the candidate's share of the slots, which is its weight in the route."""
    start = min(span.start for span in spans)
    x = Scale(start, max(end, start + 1), 70, WIDTH - 20)
    share = Scale(0, 1, 120, 52)
    marks: list[Markup] = [text(62, 30, "phase", "tick", "end"), text(62, share(0) + 4, "weight 0%", "tick", "end")]
    marks += [text(62, share(1) + 4, "100%", "tick", "end"), line((70, share(0)), (WIDTH - 20, share(0)), "axis")]
    for span in spans:
        left, right = x(span.start), x(span.end)
        marks.append(box(left, 18, right - left, 18, f"phase {span.phase.lower()}", span.words))
        if right - left > 7 * len(span.phase):
            marks.append(text((left + right) / 2, 31, span.phase, "phase-name", "middle"))
        before, after = (span.before / slots, span.after / slots)
        top = [(left, share(before)), (right, share(after))]
        marks.append(area(top, [(left, share(0)), (right, share(0))], "weight"))
        marks.append(path([top], "weight-line"))
        if right - left > 44 and span.after:
            marks.append(text(right - 4, share(after) - 5, f"{100 * after:.3g}%", "tick candidate", "end"))
        for look in span.looks:
            marks.append(line((x(look.at), 128), (x(look.at), 128 + look.height), f"look {look.outcome.lower()}"))
    marks.append(text(62, 138, "looks", "tick", "end"))
    marks += _clock(x, 164)
    words = "; ".join(f"{span.phase} from {utc(span.start)}" for span in spans)
    return picture(WIDTH, 176, f"Phases of the run: {words}.", *marks)


def _clock(x: Scale, y: float) -> Iterable[Markup]:
    """Times of day, at round minutes."""
    for step in (60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400):
        if (x.high - x.low) / step <= 8:
            break
    first = math.ceil(x.low / step)
    for index in range(first, math.floor(x.high / step) + 1):
        at = datetime.fromtimestamp(index * step, UTC)
        yield line((x(index * step), y - 16), (x(index * step), y - 12), "axis")
        yield text(x(index * step), y, f"{at:%H:%M}", "tick", "middle")
