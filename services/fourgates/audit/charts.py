"""Charts as inline SVG: colours come from the page's style sheet, so that they fit light and dark; each mark tells its value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from fourgates.audit.wilson import Share

WIDTH = 640
"""Of every chart, in its own units; the page scales it."""
_LABEL, _RIGHT, _ROW = 172, 100, 30
_PLOT = WIDTH - _LABEL - _RIGHT
_TIMES = (1, 10, 100, 1_000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 360_000_000, 3_600_000_000)
"""Ticks of a scale of time, in ms: up to a minute by tens, then as people count."""


@dataclass(frozen=True, slots=True)
class Part:
    """One series: its words, and the colour's name in the style sheet."""

    name: str
    tone: str


def stacked_columns(labels: Sequence[str], parts: Sequence[Part], values: Sequence[Sequence[int]], says: str) -> Markup:
    """One column for each label; the parts stand on each other, the first at the bottom."""
    height, bottom, left = 220, 26, 44
    top = max((sum(column) for column in values), default=0) or 1
    scale, step = _nice(top), (WIDTH - left - 8) / max(len(labels), 1)
    wide = min(step * 0.68, 56)
    tall = height - bottom - 12
    drawn = [_gridline(left, 12 + tall * (1 - at / scale), f"{round(at):,}") for at in _ticks(scale)]
    every = max(1, math.ceil(len(labels) / 10))
    for place, (label, column) in enumerate(zip(labels, values, strict=True)):
        x, y = left + step * place + (step - wide) / 2, 12.0 + tall
        for part, value in zip(parts, column, strict=True):
            if value:
                high = tall * value / scale
                y -= high
                drawn.append(_rect(x, y, wide, max(high - 1, 0.6), part.tone, f"{label}: {value:,} {part.name}"))
        if place % every == 0:
            drawn.append(_text(x + wide / 2, height - 8, label, "axis", "middle"))
    return _svg(height, drawn, says)


def shares(rows: Sequence[tuple[str, Share]], says: str) -> Markup:
    """A dot at each share and a line over its interval: the shorter the line, the more is known."""
    drawn = [_upright(_x(at), 8, 14 + _ROW * len(rows), f"{at:.0%}") for at in (0, 0.25, 0.5, 0.75, 1)]
    for place, (label, share) in enumerate(rows):
        y = 14 + _ROW * place + _ROW / 2
        drawn.append(_label(y, label))
        if share.value is None or share.interval is None:
            drawn.append(_text(WIDTH, y + 4, "none yet", "axis", "end"))
            continue
        low, high = share.interval
        tip = f"{label}: {share.part:,} of {share.whole:,}, {share.text()}"
        drawn.append(Markup("<g>{}{}{}</g>").format(_title(tip), _line(_x(low), _x(high), y), _dot(_x(share.value), y, "")))
        drawn.append(_text(WIDTH, y + 4, f"{share.value:.0%} of {share.whole:,}", "value", "end"))
    return _svg(34 + _ROW * len(rows), drawn, says)


def bars(rows: Sequence[tuple[str, int, str, str]], says: str, left: int = _LABEL) -> Markup:
    """(label, number, tone, what the number is said as); the longest bar is the largest number. `left`: room for labels."""
    top, plot = max((number for _, number, _, _ in rows), default=0) or 1, WIDTH - left - _RIGHT
    drawn: list[Markup] = []
    for place, (label, number, tone, said) in enumerate(rows):
        y = 4 + _ROW * place
        drawn.append(_label(y + _ROW / 2, label, left))
        drawn.append(_rect(left, y + 5, plot, _ROW - 10, "track", ""))
        if number:
            drawn.append(_rect(left, y + 5, max(plot * number / top, 2), _ROW - 10, tone, f"{label}: {said}"))
        drawn.append(_text(WIDTH, y + _ROW / 2 + 4, said, "value", "end"))
    return _svg(8 + _ROW * len(rows), drawn, says)


def split_bars(rows: Sequence[tuple[str, Sequence[int]]], parts: Sequence[Part], says: str) -> Markup:
    """One bar of the same length for each label, split as its numbers are; the total stands at the right."""
    drawn: list[Markup] = []
    for place, (label, numbers) in enumerate(rows):
        y, x, total = 4 + _ROW * place, float(_LABEL), sum(numbers)
        drawn.append(_label(y + _ROW / 2, label))
        if not total:
            drawn.append(_rect(_LABEL, y + 5, _PLOT, _ROW - 10, "track", ""))
        for part, number in zip(parts, numbers, strict=True):
            if number:
                wide = _PLOT * number / total
                drawn.append(_rect(x, y + 5, max(wide - 1, 0.6), _ROW - 10, part.tone, f"{label}: {number:,} {part.name}"))
                x += wide
        drawn.append(_text(WIDTH, y + _ROW / 2 + 4, f"{total:,}", "value", "end"))
    return _svg(8 + _ROW * len(rows), drawn, says)


def spans(rows: Sequence[tuple[str, Sequence[tuple[int, str]]]], says: str) -> Markup:
    """Milliseconds on a logarithmic scale: a line from the first to the last, a dot at each, (ms, what it is said as)."""
    known = [ms for _, points in rows for ms, _ in points if ms > 0] or [1]
    first = max((place for place, tick in enumerate(_TIMES) if tick <= min(known)), default=0)
    last = next((place for place, tick in enumerate(_TIMES) if tick >= max(known)), len(_TIMES) - 1)
    ticks = _TIMES[first : max(last, first + 1) + 1]
    low, wide = math.log10(ticks[0]), math.log10(ticks[-1]) - math.log10(ticks[0])

    def at(ms: int) -> float:
        return _LABEL + _PLOT * min(max((math.log10(max(ms, 1)) - low) / wide, 0), 1)

    bottom = 14 + _ROW * len(rows)
    drawn = [_upright(at(tick), 8, bottom, _short_ms(tick)) for tick in ticks]
    for place, (label, points) in enumerate(rows):
        y = 14 + _ROW * place + _ROW / 2
        drawn.append(_label(y, label))
        if not points:
            drawn.append(_text(WIDTH, y + 4, "none yet", "axis", "end"))
            continue
        drawn.append(_line(at(points[0][0]), at(points[-1][0]), y))
        drawn += [_dot(at(ms), y, f"d{number}", f"{label}: {said}") for number, (ms, said) in enumerate(points)]
        drawn.append(_text(WIDTH, y + 4, _short_ms(points[0][0]), "value", "end"))
    return _svg(bottom + 20, drawn, says)


def _short_ms(ms: int) -> str:
    for size, unit in ((172_800_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s")):
        if ms >= size:
            return f"{ms / (86_400_000 if unit == 'd' else size):.3g} {unit}"
    return f"{ms} ms"


def _x(share: float) -> float:
    return _LABEL + _PLOT * share


def _nice(top: int) -> float:
    """The end of a scale: 1, 2, 4 or 5 and zeros, at or above the largest value."""
    size = 10 ** math.floor(math.log10(top))
    return float(next(step * size for step in (1, 2, 4, 5, 10) if step * size >= top))


def _ticks(scale: float) -> list[float]:
    """Whole numbers only: half a call is none."""
    steps = 4 if scale % 4 == 0 else 5 if scale % 5 == 0 else max(int(min(scale, 2)), 1)
    return [scale * number / steps for number in range(steps + 1)]


def _svg(height: float, drawn: Sequence[Markup], says: str) -> Markup:
    inside = Markup("").join(drawn)
    return Markup('<svg viewBox="0 0 {} {:.0f}" role="img" aria-label="{}">{}</svg>').format(WIDTH, height, says, inside)


def _rect(x: float, y: float, wide: float, high: float, tone: str, tip: str) -> Markup:
    return Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="2" class="{}">{}</rect>').format(
        x, y, wide, high, tone, _title(tip))  # fmt: skip


def _line(left: float, right: float, y: float) -> Markup:
    return Markup('<line x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}" class="whisker"/>').format(left, right, y, y)


def _dot(x: float, y: float, tone: str, tip: str = "") -> Markup:
    return Markup('<circle cx="{:.1f}" cy="{}" r="5" class="dot {}">{}</circle>').format(x, y, tone, _title(tip))


def _title(tip: str) -> Markup:
    return Markup("<title>{}</title>").format(tip) if tip else Markup("")


def _text(x: float, y: float, said: str, kind: str, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" class="{}" text-anchor="{}">{}</text>').format(x, y, kind, anchor, said)


def _label(y: float, label: str, left: int = _LABEL) -> Markup:
    limit = (left - 12) // 7
    short = label if len(label) <= limit else label[: limit - 1] + "…"
    return Markup('<text x="{}" y="{:.1f}" class="label" text-anchor="end">{}{}</text>').format(
        left - 12, y + 4, _title(label), escape(short or "–"))  # fmt: skip


def _gridline(left: float, y: float, said: str) -> Markup:
    line = Markup('<line x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}" class="grid"/>').format(left, WIDTH, y, y)
    return line + _text(left - 8, y + 4, said, "axis", "end")


def _upright(x: float, top: float, bottom: float, said: str) -> Markup:
    line = Markup('<line x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}" class="grid"/>').format(x, x, top, bottom)
    return line + _text(x, bottom + 14, said, "axis", "middle")
