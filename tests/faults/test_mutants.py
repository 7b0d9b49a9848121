"""The fault tests catch what they are there for: a rule that is taken out makes one of them fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.fault_tally import Tally, played
from support.mutants import MUTANTS, Mutant, caught

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("mutant", played("mutants", MUTANTS), ids=lambda mutant: mutant.name)
def test_a_rule_that_is_taken_out_is_missed(mutant: Mutant, tally: Tally, tmp_path: Path) -> None:
    """E1, E3, E5, P6: without it a story that must hold does not."""
    tally.mutants[mutant.name] = caught(mutant, tmp_path)
    assert tally.mutants[mutant.name]
