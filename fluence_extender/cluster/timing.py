"""How long the watches wait for what; all in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """The defaults suit any cluster; tests shorten them.

    ``watch`` is asked of the API server as the life of one watch (jittered); ``silence`` ends a watch on
    which not even a bookmark came (one is sent each minute, KEP-956, and a busy API server may drop one);
    ``retry`` and ``retry_cap`` bound the back-off; ``denied`` bounds it while a right is missing;
    ``rediscover`` between questions for a kind not served; ``heartbeat`` between questions whether the API
    server answers at all; ``page`` is objects a list page.
    """

    watch: float = 360.0
    silence: float = 150.0
    retry: float = 0.25
    retry_cap: float = 10.0
    denied: float = 20.0
    rediscover: float = 30.0
    heartbeat: float = 5.0
    page: int = 500


STANDARD = Timing()
