"""One run: a script performed round by round, with a quiet point after each, until the end or the first violation."""

from __future__ import annotations

import statistics
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.accidents import Accidents
from tests.chaos.agenda import Agenda
from tests.chaos.deeds import Create, Deed, Delete, kind_of
from tests.chaos.quiet import Quiet
from tests.chaos.script import Round, script
from tests.chaos.stage import PODS, Stage
from tests.chaos.story import Story
from tests.chaos.users import Users
from tests.chaos.witness import Witness
from tests.e2e.harness import summary, wait_for
from tests.localcluster import ApiError, TimedOut
from tests.localcluster.process import tail

PATIENCE = 150.0
"""Seconds after the last disturbance within which all checks must hold."""

LOG_LINES = 60
LOG_WIDTH = 240
BACKGROUND_ROUNDS = 2


@dataclass(slots=True)
class Report:
    """What a run found."""

    seed: int
    replicas: int
    engine: str
    rounds: int = 0
    pods: int = 0
    gangs: int = 0
    disturbances: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    explained: list[str] = field(default_factory=list)
    settling: list[float] = field(default_factory=list)
    story: str = ""
    drift: float = 0.0

    @property
    def median_settling(self) -> float:
        """Return the median of the seconds from the last repair to quiet."""
        return statistics.median(self.settling) if self.settling else 0.0


class Run:
    """Performs the script of ``seed``, which has ``kills`` disturbances; see `play`."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        kills: int,
        *,
        replicas: int = 1,
        engine: str = "embedded",
        aloud: bool = True,
    ) -> None:
        self._folder = folder
        self._rounds = script(seed, kills, replicas)
        self._story = Story(aloud)
        self._report = Report(seed, replicas, engine)

    def play(self) -> Report:
        """Perform the whole script; stop at the first violation, and put its story into the report."""
        report, story = self._report, self._story
        with Stage(self._folder, report.engine, report.replicas) as stage:

            def revive() -> None:
                for name in stage.revive():
                    story.tell(_revived(name))

            agenda = Agenda(story, revive)
            users = Users(stage.api, agenda)
            witness = Witness(stage.plane.api, {})
            quiet = Quiet(stage, users.wanted, witness, PATIENCE)
            accidents = Accidents(stage, agenda, users, witness, quiet.note_drift)
            witness.start()
            marks: list[int] = []
            try:
                accidents.begin()
                for played in self._rounds:
                    marks.append(len(story.lines))
                    story.tell(f"round {played.number}")
                    self._perform(played, users, accidents, witness)
                    agenda.mend()
                    if not self._look(quiet, accidents):
                        report.story = self._tell(stage, marks[-BACKGROUND_ROUNDS:][0])
                        break
                else:
                    self._end(users, quiet, stage, len(story.lines))
            finally:
                witness.stop()
                report.drift = quiet.drift
        return report

    def _perform(self, played: Round, users: Users, accidents: Accidents, witness: Witness) -> None:
        accidents.nodes.clear()
        for step in played.steps:
            users.agenda.let_pass(step.pause)
            self._story.tell(str(step.deed))
            try:
                self._do(step.deed, users, accidents, witness)
            except ApiError as error:
                self._story.tell(f"  no answer: {str(error)[:160]}")

    def _do(self, deed: Deed, users: Users, accidents: Accidents, witness: Witness) -> None:
        if isinstance(deed, Create):
            witness.sizes[deed.name] = deed.members
            self._report.gangs += 1
            self._report.pods += deed.members
            users.create(deed)
        elif isinstance(deed, Delete):
            users.delete(deed)
        else:
            counts, kind = self._report.disturbances, kind_of(deed)
            counts[kind] = counts.get(kind, 0) + 1
            accidents.happen(deed)

    def _look(self, quiet: Quiet, accidents: Accidents) -> bool:
        outcome = quiet.point(accidents.nodes)
        for name in quiet.revived:
            self._story.tell(_revived(name))
        quiet.revived.clear()
        self._report.rounds += 1
        self._report.settling.append(outcome.seconds)
        self._report.explained += outcome.explained
        self._report.violations += outcome.violations
        for line in (*outcome.explained, *outcome.violations):
            self._story.tell(f"  {line}")
        self._story.tell(f"  quiet after {outcome.seconds:.1f} s")
        return not outcome.violations

    def _end(self, users: Users, quiet: Quiet, stage: Stage, mark: int) -> None:
        """Delete everything, and check that nothing is held or known afterwards."""
        self._story.tell("everything is deleted")
        for name in list(users.wanted):
            users.delete(Delete(name, force=True))
        users.agenda.mend()
        wait_for(lambda: _emptied(stage), PATIENCE, "the pods to go")
        with suppress(TimedOut):
            wait_for(lambda: not _left(stage), PATIENCE, "everything to be given back")
        self._report.violations += [*quiet.point({}).violations, *_left(stage)]
        if self._report.violations:
            self._report.story = self._tell(stage, mark)

    def _tell(self, stage: Stage, mark: int) -> str:
        """Return what just happened, the objects, and the last lines of the logs."""
        report = self._report
        parts = [
            f"seed {report.seed}, {report.replicas} replica(s), engine {report.engine}",
            *report.violations,
        ]
        parts += ["", "What happened:", *self._story.since(mark), "", "Pods:"]
        try:
            pods = stage.api.get(PODS)["items"]
            parts += [f"  {summary(one)} ({one['spec']['schedulerName']})" for one in pods]
            for replica in stage.replicas:
                parts += ["", "Gangs:", *(f"  {one}" for one in replica.fluence.gangs())]
                parts += ["", "Held:", *(f"  {one}" for one in replica.fluence.allocations())]
        except (ApiError, OSError) as error:
            parts.append(f"  {error}")
        for replica in stage.replicas:
            for one in (replica.stack.extender, replica.scheduler):
                parts += [
                    "",
                    f"{one.name}:",
                    *(line[:LOG_WIDTH] for line in tail(one.log, LOG_LINES).splitlines()),
                ]
        return "\n".join(parts)


def _revived(name: str) -> str:
    return f"  {name} had ended by itself; started again"


def _emptied(stage: Stage) -> bool:
    stage.delete_pods()
    return not stage.api.get(PODS)["items"]


def _left(stage: Stage) -> list[str]:
    states = [replica.fluence for replica in stage.replicas]
    held = [f"still held at the end: {one}" for state in states for one in state.allocations()]
    return held + [f"still known at the end: {one}" for state in states for one in state.gangs()]
