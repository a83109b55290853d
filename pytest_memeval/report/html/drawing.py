"""Drawings whose numbers can be read without them: each point says its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_memeval.report.html.elements import Html, element
from pytest_memeval.report.numbers import value_text


def line_chart(
    points: Sequence[Mapping[str, Any]], title: str, *, span: tuple[float, float] | None = None, width: int = 640
) -> Html:
    """Points ``{label, value, low, high}`` from left to right, intervals as bars; each has its numbers as a title.
    ``span`` is the scale's least and greatest value, so that several drawings compare; without it the points' own."""
    height, left, top, bottom = 200, 52, 12, 30
    known = [
        number for point in points for number in (point["value"], point["low"], point["high"]) if number is not None
    ]
    low, high = span or (min(known), max(known))
    room = max((high - low) * 0.1, 0.02)
    low, high = low - room, high + room
    step = (width - left - 16) / max(1, len(points) - 1)

    def place(at: int, value: float) -> tuple[float, float]:
        return left + at * step, top + (high - value) / (high - low) * (height - top - bottom)

    marks: list[Html] = []
    for value in (low + room, (low + high) / 2, high - room):
        _, y = place(0, value)
        marks.append(_line(left, y, width - 8, y, "grid-line"))
        marks.append(element("text", f"{value:.3f}", x=left - 6, y=f"{y + 4:.1f}", text_anchor="end"))
    line = " ".join("{:.1f},{:.1f}".format(*place(at, point["value"])) for at, point in enumerate(points))
    marks.append(element("polyline", points=line, class_="line"))
    every = max(1, len(points) // 8)
    for at, point in enumerate(points):
        x, y = place(at, point["value"])
        if point["low"] is not None and point["high"] is not None:
            marks.append(_line(x, place(at, point["low"])[1], x, place(at, point["high"])[1], "interval"))
        said = element("title", f"{point['label']}: {value_text(point['value'])}")
        marks.append(element("circle", said, cx=f"{x:.1f}", cy=f"{y:.1f}", r="3.5"))
        if at % every == 0:
            label = point["label"][:10]
            marks.append(element("text", label, x=f"{x:.1f}", y=height - 8, text_anchor="middle"))
    return element("svg", *marks, viewBox=f"0 0 {width} {height}", role="img", aria_label=title)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Html:
    return element("line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}", class_=kind)
