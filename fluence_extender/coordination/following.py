"""Whether the consumers may start: what is known of the producer's tasks, and for how long nothing has been.

A producer may submit several tasks; the first one that is ready counts. Invariants: a verdict is final; without one,
the consumers wait no longer than the limits say, as starting early wastes a little and waiting for ever wastes all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fluence_extender.coordination.tasks import Status


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds: until a task must have been found; how long a found one may go without a word from its vendor."""

    discovery: float
    silence: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The consumers start, for ``task`` ("": none was found), for a reason; ``known`` is false where we gave up."""

    task: str
    why: str
    known: bool


@dataclass(slots=True)
class Following:
    """The tasks of one producer; ``begun`` and all other times are in seconds of one clock."""

    limits: Limits
    begun: float
    tasks: dict[str, Status | None] = field(default_factory=dict)
    last_word: float = 0.0
    trouble: str = ""
    verdict: Verdict | None = None

    @property
    def task(self) -> str:
        """The newest task, "" while there is none."""
        return next(reversed(self.tasks), "")

    @property
    def open(self) -> list[str]:
        """The tasks of which more is to be heard."""
        return [task for task, status in self.tasks.items() if status is None or not status.ended]

    def found(self, tasks: list[str], now: float) -> None:
        """These are tasks of the producer."""
        for task in tasks:
            if task not in self.tasks:
                self.tasks[task] = None
                self.last_word = now

    def told(self, task: str, status: Status, now: float) -> None:
        """The vendor says where a task stands."""
        self.tasks[task] = status
        self.last_word = now
        self.trouble = ""
        if status.ready and self.verdict is None:
            self.verdict = Verdict(task, f"task {task} is {status}", True)

    def failed(self, why: str) -> None:
        """The vendor couldn't be asked."""
        self.trouble = why

    def judge(self, now: float) -> Verdict | None:
        """The verdict, None while the consumers are to wait."""
        if self.verdict is not None:
            return self.verdict
        if not self.tasks and now - self.begun >= self.limits.discovery:
            self.verdict = self._given_up(f"no task was found within {self.limits.discovery:g} s")
        elif self.tasks and now - self.last_word >= self.limits.silence:
            self.verdict = self._given_up(f"nothing was heard of {self.task} for {self.limits.silence:g} s")
        return self.verdict

    def end(self, why: str) -> Verdict:
        """The verdict now, whatever is known."""
        if self.verdict is None:
            self.verdict = Verdict(self.task, why, bool(self.tasks))
        return self.verdict

    def _given_up(self, why: str) -> Verdict:
        return Verdict(self.task, f"{why} ({self.trouble})" if self.trouble else why, False)
