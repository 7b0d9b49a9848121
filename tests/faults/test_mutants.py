"""The fault tests catch what they are there for: a rule that is taken out makes one of them fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.fault_tally import Tally, played
from support.mutants import MUTANTS, Mutant, caught, planted

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("mutant", played("mutants", MUTANTS), ids=lambda mutant: mutant.name)
def test_a_rule_that_is_taken_out_is_missed(mutant: Mutant, tally: Tally, tmp_path: Path) -> None:
    """E1, E3, E5, P6: without it a story that must hold does not."""
    tally.mutants[mutant.name] = caught(mutant, tmp_path)
    assert tally.mutants[mutant.name]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_rule_that_can_be_taken_out_stands_where_it_is_looked_for(mutant: Mutant) -> None:
    """E1: a session plays one of them only; the others must not have gone stale meanwhile."""
    compile(planted(mutant), mutant.file, "exec")
