"""One form for all logs of a process: one JSON object a line on standard error, of names and numbers, never of payloads."""

from __future__ import annotations

import logging
import sys
import time

import structlog

_LOUD = ("aiokafka", "faust", "mode", "asyncio", "uvicorn", "httpx", "httpcore")
"""Libraries that tell at INFO what only their authors want to know."""
_SELDOM_SECONDS, _DIFFERENT = 10.0, 10_000


class _Seldom(logging.Filter):
    """Lets a library say the same thing only now and then: without a broker each Kafka client would say it ten times a second."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith(_LOUD):
            return True
        what, now = (record.name, str(record.msg)), time.monotonic()
        if now - self._said.get(what, -_SELDOM_SECONDS) < _SELDOM_SECONDS or len(self._said) > _DIFFERENT:
            return False
        self._said[what] = now
        return True


def configure_logging(level: str = "info", **bound: str) -> None:
    """Call it once at the start of a process. `bound` stands in every line (stage, producer)."""
    shared: list[structlog.types.Processor] = [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )

    def name(logger: object, method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
        return {**bound, **event}

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                name,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    handler.addFilter(_Seldom())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for library in _LOUD:
        logging.getLogger(library).setLevel(logging.WARNING)
