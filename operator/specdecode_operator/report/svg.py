"""Elements of inline SVG, and the axes of a chart. Colours come from the page's style sheet, by class."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from specdecode_operator.report.escape import clean

Child = Markup | str
Value = float | str | None
Point = tuple[float, float]

STEPS: Final = (1.0, 2.0, 5.0)


def element(tag: str, *children: Child, **attributes: Value) -> Markup:
    """An element; text and attributes are escaped. `class_` is class, `stroke_width` is stroke-width."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_written(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    inner = "".join(child if isinstance(child, Markup) else escape(clean(child)) for child in children)
    return Markup(f"<{tag}{written}>{inner}</{tag}>")


def _written(value: float | str) -> str:
    """A tenth of a pixel is finer than any screen."""
    return clean(value) if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


def picture(width: float, height: float, label: str, *children: Child) -> Markup:
    """A whole picture. `label` says in words what it shows."""
    return element(
        "svg",
        element("title", label),
        *children,
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
        aria_label=label,
    )


def text(x: float, y: float, words: str, class_: str = "", anchor: str = "start") -> Markup:
    """Words at a place."""
    return element("text", words, x=x, y=y, class_=class_ or None, text_anchor=None if anchor == "start" else anchor)


def line(start: Point, end: Point, class_: str) -> Markup:
    """A straight line."""
    return element("line", x1=start[0], y1=start[1], x2=end[0], y2=end[1], class_=class_)


def box(left: float, top: float, width: float, height: float, class_: str, title: str = "") -> Markup:
    """A rectangle, with words that a pointer brings up."""
    inner = [element("title", title)] if title else []
    return element("rect", *inner, x=left, y=top, width=max(width, 0.0), height=max(height, 0.0), class_=class_)


def path(runs: Iterable[Sequence[Point]], class_: str) -> Markup:
    """Lines through points, one for each run without a hole."""
    drawn = " ".join("M" + " L".join(f"{_written(x)} {_written(y)}" for x, y in run) for run in runs if run)
    return element("path", d=drawn, class_=class_)


def area(upper: Sequence[Point], lower: Sequence[Point], class_: str) -> Markup:
    """What lies between two lines."""
    around = [*upper, *reversed(lower)]
    return element("polygon", points=" ".join(f"{_written(x)},{_written(y)}" for x, y in around), class_=class_)


@dataclass(frozen=True)
class Scale:
    """Values to pixels. What lies beyond an end is drawn at it."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        part = (value - self.low) / (self.high - self.low)
        return self.start + min(max(part, 0.0), 1.0) * (self.end - self.start)

    def ticks(self, about: int) -> list[float]:
        """Round values between the ends, some `about` many."""
        rough = (self.high - self.low) / about
        power = 10 ** math.floor(math.log10(rough))
        step = next((unit * power for unit in STEPS if unit * power >= rough), 10 * power)
        first = math.ceil(self.low / step - 1e-9)
        return [index * step for index in range(first, math.floor(self.high / step + 1e-9) + 1)]


@dataclass(frozen=True)
class Frame:
    """A chart's axes."""

    width: float
    height: float
    x: Scale
    y: Scale

    @classmethod
    def of(cls, width: float, height: float, x: Point, y: Point, *, left: float = 58, right: float = 96) -> Frame:
        """Axes with room for what is written beside them."""
        return cls(width, height, Scale(*x, left, width - right), Scale(*_apart(y), height - 34, 16))

    def at(self, x: float, y: float) -> Point:
        """A point."""
        return self.x(x), self.y(y)

    def axes(self, x_label: str, written: Callable[[float], str]) -> list[Markup]:
        """Grid, ticks and names."""
        left, right, bottom = self.x.start, self.x.end, self.y.start
        found: list[Markup] = []
        for value in self.y.ticks(4):
            found.append(line((left, self.y(value)), (right, self.y(value)), "grid"))
            found.append(text(left - 8, self.y(value) + 4, written(value), "tick", "end"))
        for value in self.x.ticks(8):
            found.append(line((self.x(value), bottom), (self.x(value), bottom + 4), "axis"))
            found.append(text(self.x(value), bottom + 17, f"{value:g}", "tick", "middle"))
        found.append(line((left, bottom), (right, bottom), "axis"))
        found.append(text(right, bottom + 30, x_label, "tick", "end"))
        return found

    def beside(self, places: Sequence[tuple[float, str, str]]) -> list[Markup]:
        """Names at the right, of (value, words, class): moved apart where they would lie on each other."""
        found: list[Markup] = []
        below = -math.inf
        for value, words, class_ in sorted(places, key=lambda place: -place[0]):
            below = max(self.y(value) + 4, below + 14)
            found.append(text(self.x.end + 8, below, words, class_))
        return found


def _apart(ends: Point) -> Point:
    """Two ends with something between them."""
    low, high = ends
    room = max(high - low, abs(high) * 1e-6, 1e-12)
    return low - 0.06 * room, high + 0.06 * room
