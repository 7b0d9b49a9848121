"""The fold of `controls`: what operators have switched off, and which runs were stopped.

Of the words on one subject the one that was said last counts, wherever it stands in the log: an old one that is appended once
more changes nothing. What is about a run is forgotten once no call of it can be left.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from fourgates.contract.codes import Code
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.events import RUN_SUBJECT, Control, ControlKind
from fourgates.contract.ids import run_key, run_started_ms
from fourgates.contract.ports import Envelope
from fourgates.contract.topology import HORIZON, LONGEST_WAIT
from fourgates.gates.refusal import Refusal


class Whose(Protocol):
    """By which names a call may be switched off, beside its tool's and its run's."""

    @property
    def tenant(self) -> str: ...

    @property
    def agent(self) -> str: ...


_KEPT_MS = int((HORIZON + LONGEST_WAIT) / timedelta(milliseconds=1))
_TOOL, _AGENT, _TENANT = "tool:", "agent:", "tenant:"
KINDS_OF_SUBJECT = (_TOOL, _AGENT, _TENANT, RUN_SUBJECT)


def run_subject(tenant: str, run_id: str) -> str:
    """A run as the subject of a control."""
    return RUN_SUBJECT + run_key(tenant, run_id)


def check_subject(kind: ControlKind, subject: str) -> None:
    """Raises ConfigurationError, saying what to write, for a subject that no call could have."""
    word, _, name = subject.partition(":")
    if f"{word}:" not in KINDS_OF_SUBJECT or not name or not name.isprintable():
        raise ConfigurationError(f"subject {subject!r}: write tool:NAME, agent:NAME, tenant:NAME or run:TENANT/RUN_ID")
    if word == "run":
        tenant, _, run_id = name.rpartition("/")
        try:
            run_started_ms(run_id)
        except ValueError:
            tenant = ""
        if not tenant:
            raise ConfigurationError(f"subject {subject!r}: write run:TENANT/RUN_ID, with the run's UUIDv7")
    elif kind is ControlKind.STOP:
        raise ConfigurationError(f"subject {subject!r}: only a run can be stopped; disable it instead")


@dataclass(frozen=True, slots=True)
class Word:
    """What was said last about a subject."""

    kind: ControlKind
    said_ms: int
    at_ms: int
    """Broker time."""


class ControlFold:
    """The last words on all subjects, kept by reading the whole topic."""

    def __init__(self) -> None:
        self._switches: dict[str, Word] = {}
        self._runs: dict[str, Word] = {}

    def apply(self, envelope: Envelope) -> None:
        """Folds one control; one that was not said later than the last of its subject is void."""
        control: Control = envelope.record
        about_run = control.subject.startswith(RUN_SUBJECT)
        if control.kind is ControlKind.STOP and not about_run:
            return
        words = self._runs if about_run else self._switches
        last = words.get(control.subject)
        if last is not None and control.said_ms <= last.said_ms:
            return
        words.pop(control.subject, None)  # runs are forgotten from the front
        words[control.subject] = Word(control.kind, control.said_ms, envelope.time_ms)
        self._forget_runs(envelope.time_ms)

    def last(self, subject: str) -> Word | None:
        """What counts on that subject; None where nobody said anything."""
        return self._runs.get(subject) or self._switches.get(subject)

    def barred(self, tool: str, who: Whose, run_id: str) -> Refusal | None:
        """Why a call of that tool, of this tenant and agent, in this run may not go on; None where it may."""
        if not self._runs and not self._switches:
            return None
        if self._off(run_subject(who.tenant, run_id)):
            return Refusal(Code.RUN_STOPPED, "run_stopped")
        if self._off(_TOOL + tool):
            return Refusal(Code.TOOL_DISABLED, "tool_disabled")
        if who.agent and self._off(_AGENT + who.agent):
            return Refusal(Code.PERMISSION_DENIED, "agent_disabled")
        if self._off(_TENANT + who.tenant):
            return Refusal(Code.PERMISSION_DENIED, "tenant_disabled")
        return None

    def _off(self, subject: str) -> bool:
        word = self.last(subject)
        return word is not None and word.kind is not ControlKind.ENABLE

    def _forget_runs(self, now_ms: int) -> None:
        while self._runs:
            subject, word = next(iter(self._runs.items()))
            if now_ms - word.at_ms < _KEPT_MS:
                return
            del self._runs[subject]
