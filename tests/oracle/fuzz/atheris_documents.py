"""Coverage-guided fuzzing of the oracle: ``python tests/oracle/fuzz/atheris_documents.py -max_total_time=300``.

The fuzzer's bytes replace the random numbers that spoil a document. It needs the extra ``fuzz``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import atheris

sys.path.insert(0, str(Path(__file__).parents[3]))

with atheris.instrument_imports(include=["tests.oracle.walker"]):
    from tests.oracle.walker import Walker

from tests.oracle.fuzz.trials import Trials


class FedRandom(Random):
    """A generator whose numbers are the fuzzer's bytes, and zeros after the last of them."""

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._provider = atheris.FuzzedDataProvider(data)

    def getrandbits(self, k: int) -> int:
        return int(self._provider.ConsumeIntInRange(0, (1 << k) - 1)) if k <= 64 else 0

    def random(self) -> float:
        return self.getrandbits(32) / 2**32


_trials = Trials(Walker)


def offer(data: bytes) -> None:
    _trials.offer(FedRandom(data))


if __name__ == "__main__":
    atheris.Setup(sys.argv, offer)
    atheris.Fuzz()
