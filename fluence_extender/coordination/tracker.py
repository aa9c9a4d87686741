"""Decide when the consumers may start: track the producer's tasks, and how long nothing new is known.

A producer may submit several tasks; the first one that is ready counts. Invariants: a verdict is final. Without a
verdict the consumers wait no longer than the limits, because starting early wastes a little and waiting forever wastes
all.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fluence_extender.coordination.provider import TaskStatus


@dataclass(frozen=True, slots=True)
class Verdict:
    """The consumers start, for ``task`` ("": none was found), because of ``why``. ``known`` is false if we gave up."""

    task: str
    why: str
    known: bool


@dataclass(slots=True)
class TaskTracker:
    """The tasks of one producer with their last status. ``begun`` and all other times are in seconds of one clock.

    A task must have been found within ``discovery`` seconds. A found task is given up after ``silence`` seconds without
    news.
    """

    discovery: float
    silence: float
    begun: float
    tasks: dict[str, TaskStatus | None] = field(default_factory=dict)
    last_news: float = 0.0
    trouble: str = ""
    verdict: Verdict | None = None

    @property
    def newest(self) -> str:
        """The newest task, "" if there is none."""
        return next(reversed(self.tasks), "")

    @property
    def open(self) -> list[str]:
        """The tasks whose status can still change."""
        return [task for task, status in self.tasks.items() if status is None or not status.ended]

    def found(self, tasks: list[str], now: float) -> None:
        """Note that these are tasks of the producer."""
        for task in tasks:
            if task not in self.tasks:
                self.tasks[task] = None
                self.last_news = now

    def update(self, task: str, status: TaskStatus, now: float) -> None:
        """Note the status of a task."""
        self.tasks[task] = status
        self.last_news = now
        self.trouble = ""
        if status.ready and self.verdict is None:
            self.verdict = Verdict(task, f"task {task} is {status}", True)

    def failed(self, why: str) -> None:
        """Note that the vendor couldn't be asked."""
        self.trouble = why

    def judge(self, now: float) -> Verdict | None:
        """Return the verdict, None while the consumers have to wait."""
        if self.verdict is not None:
            return self.verdict
        if not self.tasks and now - self.begun >= self.discovery:
            self.verdict = self._given_up(f"no task was found within {self.discovery:g} s")
        elif self.tasks and now - self.last_news >= self.silence:
            self.verdict = self._given_up(f"no news of task {self.newest} for {self.silence:g} s")
        return self.verdict

    def end(self, why: str) -> Verdict:
        """Return the verdict now, whatever is known."""
        if self.verdict is None:
            self.verdict = Verdict(self.newest, why, bool(self.tasks))
        return self.verdict

    def _given_up(self, why: str) -> Verdict:
        return Verdict(self.newest, f"{why} ({self.trouble})" if self.trouble else why, False)
