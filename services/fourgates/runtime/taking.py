"""What becomes of the records of a log that is followed, the same on every bus: what proves nothing is skipped and counted."""

from __future__ import annotations

from collections.abc import Callable

from fourgates.contract.errors import Poison
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
            self._skip(received, poison)
            return None

    def into(self, sink: Sink, taking: Taking) -> Callable[[Received], None]:
        """What takes each record of a log in turn, as far as `taking` says (see `Log.follow`)."""
        wanted, briefly = taking.wanted, taking.briefly

        whole, brief = self._opener.open, self._opener.open_if_needed

        def take(received: Received) -> None:
            if wanted is not None and self._opener.unwanted(received, wanted):
                return
            try:
                envelope = brief(received) if briefly is not None and briefly() else whole(received)
            except Poison as poison:
                self._skip(received, poison)
            else:
                sink(envelope)

        return take

    def _skip(self, received: Received, poison: Poison) -> None:
        self._metrics.skipped.labels(received.position.topic, poison.reason).inc()
