"""Where each argument leaf came from, and whether the tool's contract and the run allow that.

This is what stops injected instructions: a recipient that the user never named and no trusted source gave goes to a person.

A leaf is `user` where it stands in a user turn as a whole token (`spelling`) or is a list in one text whose items all do
(`composing`), else `host` where the host vouches for it, else `result:<call_id>` where it stands in something that came back,
else `model`. Where a contract asks for it, a leaf is `within` that lies beneath an address or folder that the user named
(`addresses`). Decisions about small values:

- A number matches a number in its common spellings, never as a part of another token; units are not converted.
- A text of one or two characters must stand there in the same case: `US` is not `us`, `M` is not `m`.
- true, false, null and empty values stand nowhere: they are `model`, or `host` where they are the contract's own default.
- The keys of objects are the schema's; a contract of origins over an object with free keys is refused at start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from fourgates.catalog import Tool
from fourgates.catalog.keywords import step
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.parts import Breach, Origin
from fourgates.gates.addresses import DEPTH
from fourgates.gates.composing import HOST, MODEL, RESULT, USER, WITHIN, items_of
from fourgates.gates.origin_book import OriginBook, turns
from fourgates.gates.shape import arguments_shape, free_keys
from fourgates.gates.words import QUOTE_CHARS, Words, leaves

__all__ = ["OriginBook", "breaches_of", "check_contract", "defaults_of", "leaves", "marks_for", "recompute"]


def defaults_of(tool: Tool) -> dict[str, Any]:
    """The top-level arguments' own default values: what the contract itself says is nobody's to answer for."""
    properties = tool.schema.get("properties", {})
    return {name: each["default"] for name, each in properties.items() if isinstance(each, Mapping) and "default" in each}


def marks_for(
    tool: Tool, arguments: Mapping[str, Any], user_turns: Sequence[str], host_marks: Iterable[Origin]
) -> tuple[Origin, ...]:
    """The validator's marks of a call of this tool."""
    within = {name for name, allowed in tool.origins.items() if WITHIN in allowed}
    return recompute(arguments, user_turns, host_marks, defaults_of(tool), within)


def recompute(
    arguments: Mapping[str, Any],
    user_turns: Sequence[str],
    host_marks: Iterable[Origin],
    defaults: Mapping[str, Any] | None = None,
    within: Collection[str] = (),
) -> tuple[Origin, ...]:
    """The validator's own marks: `user` from the turns in the event, the host's other marks kept, everything else `model`.

    A host's `user` that the turns do not bear out becomes `model`. An argument that is its contract's default
    (`defaults_of`) is `host`. `within` names the arguments for which lying beneath what the user named counts.
    """
    said = _Turns(turns(tuple(user_turns)))
    marks = {mark.pointer: mark for mark in host_marks}
    out: list[Origin] = []
    for name, value in arguments.items():
        default = defaults is not None and name in defaults and _same(defaults[name], value)
        for pointer, leaf in leaves(value, step("", name)):
            kept = _kept(pointer, marks.get(pointer))
            if said.whole(leaf) or (not kept.origin.startswith(RESULT) and said.items(leaf)):
                out.append(Origin(pointer=pointer, origin=USER))
            elif default:
                out.append(Origin(pointer=pointer, origin=HOST, source="default"))
            elif name in within and kept.origin != HOST and said.encloses(leaf):
                out.append(Origin(pointer=pointer, origin=WITHIN, source=kept.source, quote=kept.quote))
            else:
                out.append(kept)
    return tuple(out)


class _Turns:
    """Looks for the values of one call in what the user said; of very many only for the first ones."""

    def __init__(self, said: Words) -> None:
        self._said = said
        self._looks = 0

    def whole(self, leaf: Any) -> bool:
        return self._patient() and self._said.hold(leaf)

    def items(self, leaf: Any) -> bool:
        """Whether it is a list in one text, each item of which stands there. A list that somebody else wrote is not asked for."""
        items = items_of(leaf) if isinstance(leaf, str) else ()
        return bool(items) and all(self.whole(item) for item in items)

    def encloses(self, leaf: Any) -> bool:
        self._looks += DEPTH
        return self._patient() and self._said.enclose(leaf)

    def _patient(self) -> bool:
        self._looks += 1
        return self._looks <= self._said.patience


def _same(default: Any, value: Any) -> bool:
    return type(default) is type(value) and bool(default == value)


def _kept(pointer: str, mark: Origin | None) -> Origin:
    if mark is None or not (mark.origin == HOST or mark.origin.startswith(f"{RESULT}:")):
        return Origin(pointer=pointer, origin=MODEL)
    return Origin(pointer=pointer, origin=mark.origin, source=mark.source, quote=mark.quote[:QUOTE_CHARS])


def breaches_of(tool: Tool, origins: Iterable[Origin], allowed_actions: Sequence[str] | None) -> tuple[Breach, ...]:
    """What the contract's origins and the run's declared actions do not allow.

    `result` allows any result, `result:TOOL` those of one source. A read causes nothing, so declared actions do not bind it.
    """
    marks = tuple(origins)
    found = [
        Breach(
            pointer=mark.pointer, origin=mark.origin, allowed=tuple(sorted(allowed)), on_breach=tool.on_breach.value,
            source=mark.source, quote=mark.quote,
        )
        for name, allowed in tool.origins.items()
        for mark in marks
        if _below(mark.pointer, step("", name)) and not _allows(allowed, mark)
    ]  # fmt: skip
    if allowed_actions is not None and tool.writes and not _announced(tool, allowed_actions):
        found.append(Breach(pointer="", origin=MODEL, allowed=tuple(allowed_actions), on_breach=tool.on_breach.value))
    return tuple(found)


def _below(pointer: str, place: str) -> bool:
    return pointer == place or pointer.startswith(f"{place}/")


def _allows(allowed: frozenset[str], mark: Origin) -> bool:
    kind = mark.origin.partition(":")[0]
    return kind in allowed or (kind == RESULT and f"{RESULT}:{mark.source}" in allowed)


def _announced(tool: Tool, allowed_actions: Sequence[str]) -> bool:
    return tool.name in allowed_actions or (tool.effect is not None and tool.effect.name in allowed_actions)


def check_contract(tool: Tool) -> None:
    """Refuses origins over an object whose keys the model chooses: the keys would escape the check. Raises ConfigurationError."""
    arguments = arguments_shape(tool)
    for name in tool.origins:
        field = arguments.fields.get(name)
        if field is None or free_keys(field.shape):
            raise ConfigurationError(
                f"tool {tool.name!r}: origins restrict {name!r}, whose keys the model may choose: they would escape the check; "
                "make it a list of objects with named fields"
            )
