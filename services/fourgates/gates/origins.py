"""Where each argument leaf came from, and whether the tool's contract and the run allow that.

This is what stops injected instructions: a recipient that the user never named and no trusted source gave goes to a person.

A leaf is `user` where it stands in a user turn as a whole token (`spelling`), else `host` where the host vouches for it,
else `result:<call_id>` where it stands in something that came back, else `model`. Decisions about small values:

- A number matches a number in its common spellings, never as a part of another token; units are not converted.
- A text of one or two characters must stand there in the same case: `US` is not `us`, `M` is not `m`.
- true, false, null and empty values stand nowhere: they are `model`, or `host` where they are the contract's own default.
- The keys of objects are the schema's; a contract of origins over an object with free keys is refused at start.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from fourgates.catalog import Tool
from fourgates.catalog.keywords import step
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.parts import Breach, Origin
from fourgates.gates.shape import arguments_shape, free_keys
from fourgates.gates.words import QUOTE_CHARS, Needle, Words, leaves

__all__ = ["OriginBook", "breaches_of", "check_contract", "defaults_of", "leaves", "recompute"]

USER, HOST, MODEL, RESULT = "user", "host", "model", "result"
MAX_SEEN_CHARS = 8_000_000
"""How much a run remembers of what came back; beyond it the oldest is forgotten, and its values count as the model's."""


@lru_cache(maxsize=64)
def _turns(user_turns: tuple[str, ...]) -> Words:
    return Words(user_turns)


class OriginBook:
    """What a run has heard, in the host: what the user said, and what came back from where."""

    def __init__(self) -> None:
        self.user_turns: tuple[str, ...] = ()
        self._seen: list[tuple[str, str, Words]] = []

    def user_said(self, text: str) -> None:
        """One turn of the user. It travels with each call, so that the validator can look for itself."""
        self.user_turns = (*self.user_turns, text)

    def saw(self, source: str, content: Any, trusted_fields: Iterable[str] = (), *, call_id: str = "") -> None:
        """Something came back: a tool's result (its name as source, its call_id) or what the host read elsewhere.

        `content` is text or a JSON value; text that is JSON is read as such. Values of the named top-level fields count as
        `host`: an address book is not a web page.
        """
        value = _parsed(content)
        trusted = frozenset(trusted_fields)
        if trusted and isinstance(value, Mapping):
            self._add(source, HOST, {name: each for name, each in value.items() if name in trusted})
            value = {name: each for name, each in value.items() if name not in trusted}
        self._add(source, f"{RESULT}:{call_id or source}", value)

    def vouches(self, source: str, content: Any) -> None:
        """The host itself gives these values, such as the number of the account that is signed in."""
        self._add(source, HOST, content)

    def mark(self, arguments: Any) -> tuple[Origin, ...]:
        """One Origin a leaf. Of several places the first that was seen counts, what the host vouches for before all others."""
        return tuple(self._marked(count, pointer, leaf) for count, (pointer, leaf) in enumerate(leaves(arguments)))

    def _marked(self, count: int, pointer: str, leaf: Any) -> Origin:
        said, needle = _turns(self.user_turns), Needle(leaf)
        if count < said.patience and said.hold(needle):
            return Origin(pointer=pointer, origin=USER)
        best: Origin | None = None
        for source, origin, words in self._seen:
            if (best is not None and origin != HOST) or count >= words.patience:
                continue
            quote = words.quote_of(needle)
            if quote is not None:
                best = Origin(pointer=pointer, origin=origin, source=source, quote=quote)
                if origin == HOST:
                    break
        return best or Origin(pointer=pointer, origin=MODEL)

    def _add(self, source: str, origin: str, value: Any) -> None:
        texts = [leaf if isinstance(leaf, str) else json.dumps(leaf) for _, leaf in leaves(value) if leaf not in (None, {}, [])]
        if texts:
            self._seen.append((source, origin, Words(texts)))
        while len(self._seen) > 1 and sum(len(words.raw) for _, _, words in self._seen) > MAX_SEEN_CHARS:
            del self._seen[0]


def _parsed(content: Any) -> Any:
    if isinstance(content, str) and content.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            return content
    return content


def defaults_of(tool: Tool) -> dict[str, Any]:
    """The top-level arguments' own default values: what the contract itself says is nobody's to answer for."""
    properties = tool.schema.get("properties", {})
    return {name: each["default"] for name, each in properties.items() if isinstance(each, Mapping) and "default" in each}


def recompute(
    arguments: Mapping[str, Any],
    user_turns: Sequence[str],
    host_marks: Iterable[Origin],
    defaults: Mapping[str, Any] | None = None,
) -> tuple[Origin, ...]:
    """The validator's own marks: `user` from the turns in the event, the host's other marks kept, everything else `model`.

    A host's `user` that the turns do not bear out becomes `model`. An argument that is its contract's default
    (`defaults_of`) is `host`.
    """
    said = _turns(tuple(user_turns))
    marks = {mark.pointer: mark for mark in host_marks}
    out: list[Origin] = []
    for name, value in arguments.items():
        default = defaults is not None and name in defaults and _same(defaults[name], value)
        for pointer, leaf in leaves(value, step("", name)):
            if len(out) < said.patience and said.hold(leaf):
                out.append(Origin(pointer=pointer, origin=USER))
            elif default:
                out.append(Origin(pointer=pointer, origin=HOST, source="default"))
            else:
                out.append(_kept(pointer, marks.get(pointer)))
    return tuple(out)


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
