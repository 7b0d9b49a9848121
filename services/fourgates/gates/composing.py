"""Values that were put together from parts, each of which has an origin of its own. The worst part counts for the whole.

A list in one text (`ann@corp.com, bob@corp.com`) is as good as its items, a day with a time as good as both. A path is more than
its folder and its name: put together it means what nobody said, so it is never the user's; it tells only what was used for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fourgates.contract.parts import Origin
from fourgates.gates import spelling

USER, HOST, MODEL, RESULT, WITHIN = "user", "host", "model", "result", "within"
_ITEMS = re.compile(r"\s*(?:[;<>\n]|,\s)\s*")
_MOST_PARTS = 16
_MOST_CHARS = 2_000

Look = Callable[[Any], Origin | None]
"""Where a whole value stands: its origin, or None."""


def composed(value: Any, look: Look) -> Origin | None:
    """The origin of a value whose parts all stand somewhere, that of the worst; None where a part stands nowhere."""
    if not isinstance(value, str):
        return None
    parts = items_of(value)
    return _worst([look(part) for part in parts]) if parts else _put_together(value, look)


def items_of(value: str) -> tuple[str, ...]:
    """The items of a list in one text, or the day and the time of a timestamp; none where the value is one thing."""
    if len(value) > _MOST_CHARS or spelling.BREAK in value:
        return ()
    if not _ITEMS.search(value):
        return spelling.stamp_of(value) or ()
    items = tuple(item for item in _ITEMS.split(value.strip()) if item)
    listed = 2 <= len(items) <= _MOST_PARTS and all(any(map(str.isalnum, item)) for item in items)
    return items if listed else ()


def _put_together(path: str, look: Look) -> Origin | None:
    """A folder (or site) and a name in it that both stand somewhere, one of them in a result: that result is in the value."""
    if "/" not in path or len(path) > _MOST_CHARS or " " in path:
        return None
    for cut in [found.start() for found in re.finditer("/", path)][:0:-1][:_MOST_PARTS]:
        name = look(path[cut + 1 :])
        worst = _worst([look(path[:cut]), name]) if name is not None else None
        if worst is not None and worst.origin.startswith(RESULT):
            return worst
    return None


def _worst(found: list[Origin | None]) -> Origin | None:
    known = [origin for origin in found if origin is not None]
    return max(known, key=_badness) if len(known) == len(found) else None


def _badness(origin: Origin) -> int:
    kind = origin.origin.partition(":")[0]
    return (USER, HOST, RESULT).index(kind) if kind in (USER, HOST, RESULT) else 3
