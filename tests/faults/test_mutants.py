"""The fault tests catch what they are there for: a rule that is taken out makes one of them fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.fault_tally import Tally
from support.mutants import MUTANTS, Mutant, caught

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_rule_that_is_taken_out_is_missed(mutant: Mutant, tally: Tally, tmp_path: Path) -> None:
    """E1, E3, E5, P6: without it a story that must hold does not."""
    if os.environ.get("FOURGATES_TEST_FAULTS") != "whole" and mutant is not tally.rng("mutants").choice(MUTANTS):
        pytest.skip("the seed chose another one; the evidence run plays all")
    tally.mutants[mutant.name] = caught(mutant, tmp_path)
    assert tally.mutants[mutant.name]
