"""Draws a dashboard's answers as SVG: the same panels in the same places, as plain as a page of documentation wants it.

No stand-in for Grafana: it shows what the queries give, for people who read the docs without one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

WIDTH, CELL, HEAD = 1200, 34, 64
"""Pixels: of the page, of a row of the grid, of the page's head."""
COLUMN = WIDTH / 24
COLOURS = ("#1f77b4", "#d95f02", "#2ca02c", "#9467bd", "#b8860b", "#17a2b8", "#c2185b", "#607d8b")
NAMED = {"green": "#3d9a50", "red": "#d64545", "yellow": "#d9a400", "blue": "#4a7fd6"}
MOST = 6
"""Rows of a legend or table that are drawn."""

SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))

Labels = Mapping[str, str]
Series = tuple[Labels, Sequence[tuple[float, float]]]


def named(legend: str, labels: Labels) -> str:
    """A legend with a series' labels in it."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), legend)


@dataclass(frozen=True)
class Answer:
    """One query's series, with what they are called."""

    legend: str
    series: Sequence[Series]

    def lines(self) -> Iterable[tuple[str, Sequence[tuple[float, float]]]]:
        """Each series by its name, those without a number left out."""
        for labels, points in self.series:
            finite = [(time, value) for time, value in points if math.isfinite(value)]
            if finite:
                yield named(self.legend, labels), finite


@dataclass(frozen=True)
class Box:
    """Where a panel is, in pixels."""

    x: float
    y: float
    width: float
    height: float


def page(board: Mapping[str, Any], answers: Mapping[int, Sequence[Answer]], caption: str) -> str:
    """The whole dashboard; `answers` are those of each panel's queries, by the panel's place in the list."""
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"])
    height = HEAD + rows * CELL + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        f'font-size="11"><title>{escape(board["title"])}</title>',
        f'<rect width="{WIDTH}" height="{height}" fill="#f4f5f7"/>',
        text(12, 26, board["title"], size=18, weight="bold"),
        text(12, 46, caption, colour="#555"),
    ]
    for place, panel in enumerate(board["panels"]):
        at = panel["gridPos"]
        box = Box(at["x"] * COLUMN + 4, HEAD + at["y"] * CELL, at["w"] * COLUMN - 8, at["h"] * CELL - 8)
        parts += [
            f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{box.height:.0f}" rx="3" '
            'fill="#fff" stroke="#d5d8dd"/>',
            text(box.x + 10, box.y + 18, panel["title"], weight="bold"),
            *DRAWN[panel["type"]](panel, answers[place], Box(box.x + 10, box.y + 28, box.width - 20, box.height - 36)),
        ]
    return "\n".join([*parts, "</svg>", ""])


# --- Kinds of panels --------------------------------------------------------------------------------------------------


def _lines(panel: Mapping[str, Any], answers: Sequence[Answer], box: Box) -> list[str]:
    found = [line for answer in answers for line in answer.lines()]
    stacked = panel["fieldConfig"]["defaults"].get("custom", {}).get("stacking", {}).get("mode") == "normal"
    legend = min(len(found), MOST)
    plot = Box(box.x + 52, box.y, box.width - 52, box.height - 15 * legend - 8)
    drawn = _stack(found) if stacked else [points for _, points in found]
    top = panel["fieldConfig"]["defaults"].get("max") or ceiling(max(value for points in drawn for _, value in points))
    lowest = min(value for points in drawn for _, value in points)
    bottom = panel["fieldConfig"]["defaults"].get("min", -ceiling(-lowest) if lowest < 0 else 0)
    first = min(points[0][0] for points in drawn)
    last = max(points[-1][0] for points in drawn)
    parts = []
    for share in (0, 0.5, 1):
        y = plot.y + plot.height * (1 - share)
        said = number(bottom + share * (top - bottom), _unit(panel), bare=True)
        parts.append(
            f'<path d="M{plot.x:.0f} {y:.1f}h{plot.width:.0f}" stroke="#e6e8ec"/>'
            + text(plot.x - 6, y + 4, said, anchor="end", colour="#777")
        )
    for place, ((name, points), shown) in enumerate(zip(found, drawn, strict=True)):
        colour = COLOURS[place % len(COLOURS)]
        path = "L".join(
            f"{plot.x + plot.width * (time - first) / max(last - first, 1):.1f} "
            f"{plot.y + plot.height * (top - value) / (top - bottom):.1f}"
            for time, value in shown
        )
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        if place < legend:
            y = box.y + box.height - 15 * (legend - 1 - place)
            parts.append(f'<rect x="{box.x:.0f}" y="{y - 8:.1f}" width="12" height="4" fill="{colour}"/>')
            parts.append(text(box.x + 18, y, name, room=box.width - 90))
            parts.append(text(box.x + box.width, y, number(points[-1][1], _unit(panel)), anchor="end"))
    return parts


def _stack(found: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> list[list[tuple[float, float]]]:
    below: dict[float, float] = {}
    stacked = []
    for _, points in found:
        below |= {time: below.get(time, 0.0) + value for time, value in points}
        stacked.append([(time, below[time]) for time, _ in points])
    return stacked


def _number(panel: Mapping[str, Any], answers: Sequence[Answer], box: Box) -> list[str]:
    ((_, points),) = answers[0].lines()
    value = points[-1][1]
    steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", [])
    passed = [step["color"] for step in steps if step["value"] is None or value >= step["value"]]
    colour = NAMED[passed[-1]] if passed else "#222"
    said = number(value, _unit(panel))
    return [text(box.x + box.width / 2, box.y + 50, said, size=24, anchor="middle", colour=colour)]


def _states(panel: Mapping[str, Any], answers: Sequence[Answer], box: Box) -> list[str]:
    found = [line for answer in answers for line in answer.lines()]
    values = panel["fieldConfig"]["defaults"]["mappings"][0]["options"]
    first = min(points[0][0] for _, points in found)
    last = max(points[-1][0] for _, points in found)
    high = min(36.0, box.height / len(found))
    parts = []
    for place, (name, points) in enumerate(found):
        y = box.y + 6 + place * high
        parts.append(text(box.x, y + high / 2 + 2, name, room=120))
        for time, after, value in _bands(points, last):
            x = box.x + 130 + (box.width - 130) * (time - first) / max(last - first, 1)
            wide = (box.width - 130) * (after - time) / max(last - first, 1) + 0.5
            colour = NAMED[values[f"{value:g}"]["color"]]
            parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high - 8:.1f}" fill="{colour}"/>')
        said = values[f"{points[-1][1]:g}"]["text"]
        parts.append(text(box.x + 140, y + high / 2 + 1, said, colour="#fff"))
    return parts


def _bands(points: Sequence[tuple[float, float]], end: float) -> Iterable[tuple[float, float, float]]:
    """(from, until, value) of each stretch in which the value stays."""
    changes = [points[0], *(now for before, now in pairwise(points) if now[1] != before[1])]
    for (time, value), (after, _) in zip(changes, [*changes[1:], (end, 0.0)], strict=True):
        yield time, after, value


def _table(panel: Mapping[str, Any], answers: Sequence[Answer], box: Box) -> list[str]:
    organize = panel["transformations"][1]["options"]
    columns = sorted(organize["renameByName"], key=lambda name: organize["indexByName"][name])
    merged: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
    for letter, answer in zip("ABCDEFGH", answers, strict=False):
        value = "Value" if len(answers) == 1 else f"Value #{letter}"
        for labels, points in answer.series:
            row = merged.setdefault(tuple(sorted(labels.items())), dict(labels))
            row[value] = number(points[-1][1], "short")
    rows = sorted(merged.values(), key=lambda row: [row.get(name, "") for name in columns])
    headed = [organize["renameByName"], *rows]
    needed = [min(max(len(row.get(name, "")) for row in headed), 24) + 3 for name in columns]
    wide = [box.width * letters / sum(needed) for letters in needed]
    left = [box.x + sum(wide[:at]) for at in range(len(columns))]
    fits = int((box.height - 30) // 19)
    parts = [text(x, box.y + 12, headed[0][name], colour="#777") for x, name in zip(left, columns, strict=True)]
    for place, row in enumerate(rows[:fits]):
        y = box.y + 34 + 19 * place
        parts.append(f'<path d="M{box.x:.0f} {y - 14:.0f}h{box.width:.0f}" stroke="#e6e8ec"/>')
        for x, room, name in zip(left, wide, columns, strict=True):
            parts.append(text(x, y, row.get(name, ""), room=room - 6))
    if len(rows) > fits:
        parts.append(text(box.x, box.y + 34 + 19 * fits, f"and {len(rows) - fits} more", colour="#777"))
    return parts


def _bars(panel: Mapping[str, Any], answers: Sequence[Answer], box: Box) -> list[str]:
    found = sorted((name, points[-1][1]) for name, points in answers[0].lines())
    top = panel["fieldConfig"]["defaults"]["max"]
    high = min(34.0, box.height / max(len(found), 1))
    parts = []
    for place, (name, value) in enumerate(found):
        y = box.y + 4 + place * high
        wide = (box.width - 190) * value / top
        bar = f'width="{wide:.1f}" height="{high - 8:.1f}" fill="{NAMED["blue"]}"'
        parts.append(text(box.x, y + high / 2 + 2, name, room=136))
        parts.append(f'<rect x="{box.x + 140:.0f}" y="{y:.1f}" {bar}/>')
        parts.append(text(box.x + 146 + wide, y + high / 2 + 2, number(value, _unit(panel))))
    return parts


DRAWN = {"timeseries": _lines, "stat": _number, "state-timeline": _states, "table": _table, "bargauge": _bars}


# --- Words and numbers ------------------------------------------------------------------------------------------------


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: int = 11,
    weight: str = "normal",
    anchor: str = "start",
    colour: str = "#222",
    room: float = math.inf,
) -> str:
    """A line of text, cut where it would be wider than `room`."""
    letters = room / (0.61 * size)
    said = words if len(words) <= letters else f"{words[: max(int(letters) - 1, 1)]}…"
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{colour}">{escape(said)}</text>'
    )


def number(value: float, unit: str, *, bare: bool = False) -> str:
    """A value as Grafana would write it; `bare` leaves out a word that the panel's legend has.

    >>> number(0.00123, "s"), number(0.25, "percentunit"), number(12, "short"), number(3.5, "suffix: tokens")
    ('1.23 ms', '25%', '12', '3.5 tokens')
    """
    if unit == "s":
        scale, name = next(((scale, name) for scale, name in SECONDS if value >= scale), SECONDS[-1])
        return f"{value / scale:.3g} {name}" if value else "0"
    if unit == "percentunit":
        return f"{100 * value:.3g}%"
    said = f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
    return said if bare else said + {"reqps": " req/s"}.get(unit, unit.partition("suffix:")[2])


def ceiling(value: float) -> float:
    """The next round number."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(
        step * power for step in (1.0, 1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0) if value <= step * power
    )


def _unit(panel: Mapping[str, Any]) -> str:
    return str(panel["fieldConfig"]["defaults"].get("unit", "short"))
