"""Offer documents in child processes, so that a crash or a hang is a finding too.

Each document depends on the seed and its number alone, so a finding can be repeated from these two.
"""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from random import Random

from tests.oracle.engines import ENGINES
from tests.oracle.fuzz.trials import Trials

_CHUNK = 500
_LONGEST = 20.0
"""Seconds that one document may take before it counts as hanging."""

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.oracle.fuzz.children", "tests.oracle.fluxion"])

Answers = Counter[tuple[str, str]]


@dataclass(slots=True)
class Report:
    """The answers to documents, by kind, and the failures, each with the number of the first document that had it."""

    documents: int = 0
    seconds: float = 0.0
    answers: Answers = field(default_factory=Counter)
    findings: dict[str, tuple[int, int]] = field(default_factory=dict)

    def note(self, finding: str, number: int) -> None:
        first, times = self.findings.get(finding, (number, 0))
        self.findings[finding] = (first, times + 1)


def run(engine: str, seed: int, start: int, documents: int, seconds: float) -> Report:
    """Offer the documents from number ``start`` on until there were enough or the time is over."""
    report = Report()
    began = time.monotonic()
    while report.documents < documents and time.monotonic() < began + seconds:
        first = start + report.documents
        count = min(_CHUNK, documents - report.documents)
        report.documents += _chunk(report, engine, seed, first, count)
    report.seconds = time.monotonic() - began
    return report


def _chunk(report: Report, engine: str, seed: int, first: int, count: int) -> int:
    """Offer ``count`` documents in one process; return how many were offered, which are fewer if the process died."""
    receiver, sender = _processes.Pipe(duplex=False)
    process = _processes.Process(target=_offer, args=(engine, seed, first, count, sender))
    process.start()
    sender.close()
    last = first
    try:
        while receiver.poll(_LONGEST):
            message = receiver.recv()
            if isinstance(message, int):
                last = message
            elif isinstance(message, str):
                report.note(message, last)
            else:
                report.answers.update(message)
                return count
        report.note("hangs", last)
    except EOFError:
        process.join()
        report.note(f"the process ends with {process.exitcode}", last)
    finally:
        process.kill()
        process.join()
        process.close()
        receiver.close()
    return last - first + 1


def _offer(engine: str, seed: int, first: int, count: int, sender: Connection) -> None:
    trials = Trials(ENGINES[engine])
    answers: Answers = Counter()
    for number in range(first, first + count):
        sender.send(number)
        try:
            answers[trials.offer(Random(f"{seed}:{number}"))] += 1
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)[-3:]
            where = " ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames)
            sender.send(f"{type(error).__name__}: {str(error)[:300]} ({where})")
            trials = Trials(ENGINES[engine])
    sender.send(answers)
