"""What becomes of the records of a log that is followed, the same on every bus: what proves nothing is skipped and counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fourgates.contract.errors import Poison, Transient
from fourgates.contract.ports import Envelope, Received, Sink, Taking
from fourgates.contract.seals import RecordOpener
from fourgates.runtime.metrics import Metrics


class Opening:
    """Opens records for who only looks at the valid ones."""

    def __init__(self, opener: RecordOpener, metrics: Metrics) -> None:
        self._opener, self._metrics = opener, metrics

    def open(self, received: Received) -> Envelope | None:
        """The envelope, or None for a record that is not valid."""
        try:
            return self._opener.open(received)
        except Poison as poison:
            self._metrics.skipped.labels(received.position.topic, poison.reason).inc()
            return None

    def into(self, sink: Sink, taking: Taking) -> Callable[[Sequence[Received]], int]:
        """What takes records of a log in their order, as far as `taking` says (see `Log.follow`), and returns how many it took.

        All are opened before the first is told: the same work many times over is far cheaper than two kinds in turn. Raises
        Transient where not even the first can be opened now.
        """
        wanted, briefly = taking.wanted, taking.briefly
        whole, brief = self._opener.open, self._opener.open_if_needed

        def take(records: Sequence[Received]) -> int:
            opened, taken = [], 0
            for received in records:
                try:
                    if wanted is None or not self._opener.unwanted(received, wanted):
                        opened.append(brief(received) if briefly is not None and briefly() else whole(received))
                except Poison as poison:
                    self._metrics.skipped.labels(received.position.topic, poison.reason).inc()
                except Transient:
                    if not taken:
                        raise
                    break
                taken += 1
            for envelope in opened:
                sink(envelope)
            return taken

        return take
