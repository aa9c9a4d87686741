"""The webhook's own metrics, in a registry of its own."""

from __future__ import annotations

from enum import StrEnum

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.exposition import choose_encoder

from fluence_extender.webhook.registration import RegistrationReconciler

# Seconds.
BUCKETS = (100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1.0, 3.0, 10.0)


class ReviewResult(StrEnum):
    """How a review ended."""

    PATCHED = "patched"
    UNCHANGED = "unchanged"
    UNREADABLE = "unreadable"
    FAILED = "failed"
    NOT_READY = "not-ready"
    BAD_REQUEST = "bad-request"


class WebhookMetrics:
    """The metrics of one webhook; ``registry`` holds nothing else."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._latency = Histogram(
            "fluence_webhook_request_duration_seconds",
            "Time from a review's arrival to its answer.",
            buckets=BUCKETS,
            registry=registry,
        )
        answers = Counter("fluence_webhook_answers", "Reviews answered.", ["outcome"], registry=registry)
        self._answers = {result: answers.labels(result) for result in ReviewResult}
        self.warnings = Counter(
            "fluence_webhook_warnings", "Warnings given to users with an answer.", registry=registry
        )
        self.resources_rejected = Counter(
            "fluence_webhook_resources_rejected",
            "Changes of resources.yaml that were refused; the old resources stay in use.",
            registry=registry,
        )
        self._expiry = Gauge(
            "fluence_webhook_certificate_expiry_timestamp_seconds",
            "When the certificate that is served expires, in Unix time.",
            registry=registry,
        )
        self._sound = Gauge(
            "fluence_webhook_registered",
            "1 while registration and certificates are known to be as they should be.",
            registry=registry,
        )
        self.looks = Counter(
            "fluence_webhook_looks", "Looks at registration and certificates.", registry=registry
        )
        self._looked = 0
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)

    def observe(self, result: ReviewResult, seconds: float) -> None:
        """Count one answer and the time it took."""
        self._latency.observe(seconds)
        self._answers[result].inc()

    def update(self, registration: RegistrationReconciler) -> None:
        """Set the gauges from the last look at registration and certificates."""
        identity = registration.identity
        self.looks.inc(registration.looks - self._looked)
        self._looked = registration.looks
        if identity is not None:
            self._expiry.set(identity.expires.timestamp())
        self._sound.set(identity is not None and not registration.problem and not identity.fault)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Return the exposition and its content type, in the format that the ``Accept`` header requests."""
        encoder, content_type = choose_encoder(accept)
        return encoder(self.registry), content_type
