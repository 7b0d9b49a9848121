"""Why nobody is asked, or no longer: a yes could not make the call run."""

from __future__ import annotations

from fourgates.catalog import Catalog
from fourgates.contract.codes import Code
from fourgates.gates.approval import HoldState
from fourgates.gates.control_view import ControlView
from fourgates.gates.refusal import Refusal

from .settings import WaiterSettings

CALL_ENDED = "call_ended"
"""The reason of a Withdrawn whose call has its last word already; any other one says which word comes."""
OTHER_CALL = "other_call"
"""Another tool or other arguments under a key that is taken: to answer it with what became of the first would be a lie."""
_NOBODY, _TOO_MANY, _CHANGED = "nobody_can_decide", "too_many_waiting", "tool_version"
_TOLD = {
    OTHER_CALL: Code.IDEMPOTENCY_CONFLICT,
    _NOBODY: Code.APPROVAL_REQUIRED, _TOO_MANY: Code.QUOTA_EXCEEDED, _CHANGED: Code.TOOL_CHANGED,
    "run_stopped": Code.RUN_STOPPED, "tool_disabled": Code.TOOL_DISABLED, "agent_disabled": Code.PERMISSION_DENIED,
    "tenant_disabled": Code.PERMISSION_DENIED,
}  # fmt: skip


def told_for(reason: str) -> Code:
    """What the asker hears of a hold that was withdrawn for this reason; of a reason that is not ours, to ask again."""
    return _TOLD.get(reason, Code.UNAVAILABLE)


class Hopeless:
    """Looks at a hold that is not about a doubt: those are about what has run, and people settle them in any case."""

    def __init__(self, catalog: Catalog, controls: ControlView, settings: WaiterSettings) -> None:
        self._versions = {(tool.name, tool.version) for tool in catalog.served()}
        self._controls, self._settings = controls, settings

    def from_the_start(self, hold: HoldState, waiting: int) -> str:
        """A word where people are not even asked, else empty. `waiting`: how many holds of this agent were open with it."""
        groups = self._settings.approver_groups
        if groups is not None and hold.group not in groups:
            return _NOBODY
        return self.by_now(hold) or (_TOO_MANY if waiting > self._settings.waiting_per_agent else "")

    def by_now(self, hold: HoldState) -> str:
        """A word where what was asked cannot come about any more: switched off, stopped, or the tool's version is gone."""
        barred = self._barred(hold)
        if barred is not None:
            return barred.reason
        return "" if (hold.about.tool, hold.about.tool_version) in self._versions else _CHANGED

    def _barred(self, hold: HoldState) -> Refusal | None:
        return self._controls.barred(hold.about.tool, hold.about, hold.about.run_id)
