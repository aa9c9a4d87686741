"""``python -m tests.oracle.replay FILE...``: replay recorded sessions of libreapi_cli on an engine.

The last line counts the steps with the recorded answer, and the sessions that have only such steps. The exit code is
1 if any step differs, and 2 if there is no engine to ask. What differs is written to standard error.
"""

from __future__ import annotations

import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import click

from tests.oracle.engines import ENGINES
from tests.oracle.errors import EngineUnavailable, MatcherError
from tests.oracle.processes import EngineCrashed, Processes
from tests.oracle.sessions import Difference, NotASession, Session, differences, load


def replayed(engine: str, session: Session) -> list[Difference]:
    """Return what the engine answers otherwise than recorded."""
    return differences(session, ENGINES[engine])


class Replay:
    """The replay of sessions on one engine, and the counts of what was alike."""

    def __init__(self, engine: str, processes: Processes) -> None:
        self.steps = self.alike = self.sessions = self.whole = 0
        self._engine = engine
        self._processes = processes

    def run(self, path: Path) -> None:
        """Replay the session of a file. Raises `EngineUnavailable`."""
        self.sessions += 1
        try:
            session = load(path)
            self.steps += len(session["steps"])
            differing = self._differences(session)
        except EngineUnavailable:
            raise
        except (NotASession, MatcherError, EngineCrashed, KeyError, TypeError) as error:
            click.echo(f"{path}: {type(error).__name__}: {error}", err=True)
            return
        self.alike += len(session["steps"]) - len({difference.step for difference in differing})
        self.whole += not differing
        for difference in differing:
            click.echo(f"{path}: {difference}", err=True)

    def _differences(self, session: Session) -> list[Difference]:
        work = partial(replayed, self._engine)
        return self._processes.run(work, session) if self._engine == "fluxion" else work(session)


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--engine", type=click.Choice(tuple(ENGINES)), default="oracle", show_default=True)
def main(files: tuple[Path, ...], engine: str) -> None:
    """Replay recorded sessions of libreapi_cli, plain or gzipped JSON, on the oracle or on a real library."""
    with closing(Processes()) as processes:
        replay = Replay(engine, processes)
        try:
            for path in files:
                replay.run(path)
        except EngineUnavailable as error:
            click.echo(error, err=True)
            sys.exit(2)
    click.echo(f"{replay.alike} alike of {replay.steps}, {replay.whole} whole of {replay.sessions}")
    sys.exit(0 if replay.whole == replay.sessions else 1)


if __name__ == "__main__":
    main()
