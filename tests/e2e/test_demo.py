"""The demo ends in the same table on an embedded cluster and on real Kubernetes."""

from __future__ import annotations

import io
import re
from collections import Counter

import pytest
from rich.console import Console

from fluence_extender.demo.run import demonstrate, make_site
from fluence_extender.demo.view import Row

pytestmark = pytest.mark.e2e

Ending = tuple[str, str, str, str, str]


def endings(kubernetes: bool) -> Counter[Ending]:
    """How often each combination of gang, state, phase, backend and reason is in the final table."""
    found: list[Row] = []
    with make_site(6, "lonode", kubernetes) as site:
        demonstrate(Console(file=io.StringIO()), site, found.extend)
    return Counter((gang_name(row), row.state, row.phase, row.backend, row.reason) for row in found)


def gang_name(row: Row) -> str:
    """The gang's name without a random part. A gang of one pod has the pod's name, which may end at random."""
    return re.sub(r"-[a-z0-9]{5}$", "", row.gang) if row.gang == row.pod else row.gang


@pytest.mark.timeout(900)
def test_examples_end_the_same_on_both_clusters() -> None:
    embedded, real = endings(kubernetes=False), endings(kubernetes=True)
    assert sum(embedded.values()) == 31
    assert embedded == real
