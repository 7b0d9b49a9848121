"""Rules taken out of the pipeline, one at a time, in a copy of the source: each must make a fault test fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUITE = "tests/faults/test_in_process.py"
_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Mutant:
    """`before` stands once in the file; `test` names what must fail without it."""

    name: str
    file: str
    before: str
    after: str
    test: str


MUTANTS = (
    Mutant(
        "tail wait", "executor/index.py",
        "revoked\")\n        await self._following.reached(position.partition, position.offset)\n", "revoked\")\n",
        "test_a_write_on_a_log_that_is_read_late_is_never_in_doubt",
    ),
    Mutant(
        "claim_id", "executor/stage.py", "claim is None or claim.entry.claim_id != claim_id", "claim is None",
        "test_a_second_owner_neither_takes_nor_borrows_a_claim",
    ),
    Mutant(
        "the first claim wins", "gates/ledger.py", "if state.phase is not Phase.OPEN or not claim:",
        "if state.phase not in (Phase.OPEN, Phase.CLAIMED):", "test_a_second_owner_neither_takes_nor_borrows_a_claim",
    ),
    Mutant(
        "effect claim", "executor/stage.py", "if not p.effects.holds(call.effect_key, call.call_id, claim.fence):", "if False:",
        "test_a_rival_of_a_crashed_call_does_not_have_its_effect_again",
    ),
    Mutant(
        "seal check", "contract/seals.py",
        " or not self._verifier.verify(seal.key_id, record_bytes(topic, value, size), seal.mac, received.time_ms):", ":",
        "test_an_end_that_nobody_may_seal_ends_nothing",
    ),
    Mutant(
        "expiry", "gates/approval.py",
        "    if hold.expires_ms is not None and at_ms >= hold.expires_ms:\n        return Objection.EXPIRED\n", "",
        "test_a_yes_that_comes_too_late_counts_for_nothing",
    ),
    Mutant(
        "partition check", "contract/seals.py", "if received.position.partition != expected:", "if False:",
        "test_nothing_runs_from_an_empty_ledger_next_door",
    ),
    Mutant(
        "commit rule", "runtime/intake.py", "return self._order[0] if self._order else self._next", "return self._next",
        "test_at_every_place[crash]",
    ),
    Mutant(
        "look after the acknowledgement", "executor/running.py",
        "if (no := self._last_look(job, claim)) is not None:  # the ack", "if False:  # the ack",
        "test_an_acknowledgement_that_comes_after_the_lease_sends_nothing",
    ),
    Mutant(
        "lease", "executor/stage.py", "claim.lease_over(now)", "claim.lease_over(-1.0)", "test_at_every_place[crash]",
    ),
    Mutant(
        "the owner releases effects", "executor/releasing.py", "from fourgates.gates.effects import releasable\n",
        "def releasable(*_: object) -> bool:\n    return False\n\n",
        "test_an_effect_is_free_again_after_a_crash_of_its_owner",
    ),
    Mutant(
        "a resolution clears nothing", "executor/stage.py", "if state.phase is Phase.IN_DOUBT else []",
        "if state.phase is Phase.IN_DOUBT else await self._open(cleared, cause, envelope)",
        "test_a_persons_word_on_a_doubt_that_has_passed_runs_nothing",
    ),
)  # fmt: skip


def planted(mutant: Mutant) -> str:
    """The source of its file with the rule taken out. Raises RuntimeError where the rule does not stand there once."""
    source = (ROOT / "services" / "fourgates" / mutant.file).read_text(encoding="utf-8")
    if source.count(mutant.before) != 1:
        raise RuntimeError(f"{mutant.name}: {mutant.file} does not hold once: {mutant.before!r}")
    return source.replace(mutant.before, mutant.after)


def caught(mutant: Mutant, folder: Path) -> bool:
    """Whether its test fails on the mutant. Raises RuntimeError where the mutant cannot be made or tried."""
    services = folder / "services"
    shutil.copytree(ROOT / "services" / "fourgates", services / "fourgates", ignore=shutil.ignore_patterns("__pycache__"))
    for needed in ("schemas", "deploy"):
        (folder / needed).symlink_to(ROOT / needed)
    (services / "fourgates" / mutant.file).write_text(planted(mutant), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-o", f"pythonpath={services} {ROOT / 'tests'}", "-p", "no:cacheprovider",
         f"--basetemp={folder / 'tmp'}", f"{SUITE}::{mutant.test}"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(services)}, capture_output=True, text=True, timeout=_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{mutant.name}: pytest exited with {done.returncode}: {done.stdout[-2000:]}")
    return done.returncode == 1
