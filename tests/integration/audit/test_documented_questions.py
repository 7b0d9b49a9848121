"""The questions in the documentation are asked as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.auditing import Engine
from support.stories import Tape, good_stories

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "questions.md"
BLOCKS = re.findall(r"```sql\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.S)
EXAMPLES = [example.strip() for block in BLOCKS for example in block.split(";") if example.strip()]


@pytest.mark.engine
@pytest.mark.parametrize("sql", EXAMPLES, ids=[example.splitlines()[0].removeprefix("-- ") for example in EXAMPLES])
def test_documented_question_is_one_that_the_store_can_answer(engine: Engine, sql: str) -> None:
    """L4: plain SQL over the views."""
    tape = Tape()
    good_stories(tape)
    engine.take(tape.received)
    engine.ask(sql)


def test_there_are_documented_questions() -> None:
    """L4: none would be asked if the document's form changed."""
    assert len(EXAMPLES) > 3
