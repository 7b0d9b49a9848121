"""The policies that count now: another set may take the place of one while calls are under way."""

from __future__ import annotations

from collections.abc import Callable

from fourgates.gates.permission import Policies

Check = Callable[[Policies], None]
"""Raises ConfigurationError for a set that this process cannot decide by."""


class LivePolicies:
    """A stage asks for `current` with each call, and judges the whole of it by that one set."""

    def __init__(self, policies: Policies) -> None:
        self._current = policies
        self._checks: list[Check] = []

    @property
    def current(self) -> Policies:
        return self._current

    def require(self, check: Check) -> None:
        """Each set must pass `check`, beginning with the present one. Raises what it raises."""
        check(self._current)
        self._checks.append(check)

    def replace(self, policies: Policies) -> None:
        """From now on these count. Raises ConfigurationError where a check refuses them; then the earlier ones still count."""
        for check in self._checks:
            check(policies)
        self._current = policies
