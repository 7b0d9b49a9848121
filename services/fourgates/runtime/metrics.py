"""The closed list of metrics that a worker shows. A name is never added outside this file."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """One process's metrics in a registry of their own, so that several workers can live in one test."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        # Records that a stage has finished, by what became of them: `handled`, `dead` (proved nothing), `unforeseen` (our fault).
        self.records = Counter("fourgates_records", "Records finished", ("stage", "end"), registry=self.registry)
        # From the start of a record's turn until everything that it caused is acknowledged; grows with a slow tool.
        self.seconds = Histogram(
            "fourgates_record_seconds", "Time to finish a record", ("stage",), buckets=_SECONDS, registry=self.registry
        )
        # Records under way. At the concurrency limit the partition is held back.
        self.under_way = Gauge("fourgates_records_under_way", "Records under way", ("stage",), registry=self.registry)
        # Tries again after something outside was away. Rising without `records` rising: a dependency is down.
        self.retries = Counter("fourgates_retries", "Transient faults tried again", ("stage",), registry=self.registry)
        # Records that the broker acknowledged.
        self.published = Counter("fourgates_published", "Records published", ("topic",), registry=self.registry)
        # Records that a reading without a group skipped because they are not valid. Nobody else counts them twice.
        self.skipped = Counter("fourgates_skipped", "Invalid records skipped", ("topic", "reason"), registry=self.registry)
        # Offsets between the end of a partition and what is committed, as of the last look.
        self.lag = Gauge(
            "fourgates_lag", "Records behind the end of the partition", ("topic", "partition"), registry=self.registry
        )
        # Commits that the group coordinator took.
        self.commits = Counter("fourgates_commits", "Offset commits", ("stage",), registry=self.registry)
        # Assignments taken up; many of them in a short time: the group does not come to rest.
        self.rebalances = Counter("fourgates_rebalances", "Assignments taken up", ("stage",), registry=self.registry)
        # Refusals written, by their code: one that grows fast is a model that asks again and again for what it does not get.
        self.refused = Counter("fourgates_refused", "Refusals written", ("stage", "code"), registry=self.registry)
        # Sets of policies that were found in the files after the start: `taken` or `refused`.
        self.policies_loads = Counter("fourgates_policies_loads", "Policies found changed", ("result",), registry=self.registry)
        # 1 while the files hold policies that were refused: this process still decides by the earlier ones. Others may not.
        self.policies_refused = Gauge(
            "fourgates_policies_refused", "Whether the policies on disk are refused", registry=self.registry
        )
        # 1 once the worker is warm and owns its part of the group.
        self.ready = Gauge("fourgates_ready", "Whether the worker is ready", ("stage",), registry=self.registry)

    def text(self) -> bytes:
        """The Prometheus text form."""
        return generate_latest(self.registry)
