"""The form of a process's logs."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from fourgates.runtime.logs import configure_logging


@pytest.fixture
def restored() -> Iterator[None]:
    """Leaves logging as it was."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()


def told(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


@pytest.mark.usefixtures("restored")
def test_ours_and_the_libraries_lines_have_one_form(capsys: pytest.CaptureFixture[str]) -> None:
    """S3"""
    configure_logging("info", stage="executor")
    structlog.get_logger("fourgates.test").info("assigned", partitions=[1, 2])
    structlog.get_logger("fourgates.test").debug("too much")
    logging.getLogger("aiokafka.client").error("Unable connect to node with id %s", 1)
    logging.getLogger("aiokafka.client").info("too much")
    ours, theirs = told(capsys)
    assert (ours["event"], ours["partitions"], ours["stage"], ours["level"]) == ("assigned", [1, 2], "executor", "info")
    assert (theirs["event"], theirs["stage"], theirs["level"]) == ("Unable connect to node with id 1", "executor", "error")


@pytest.mark.usefixtures("restored")
def test_a_library_says_the_same_thing_once(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info")
    for number in range(50):
        logging.getLogger("aiokafka.client").error("Unable connect to node with id %s", number)
        structlog.get_logger("fourgates.test").info("tried again")
    lines = told(capsys)
    assert len([line for line in lines if line["event"] == "tried again"]) == 50
    assert len(lines) == 51
