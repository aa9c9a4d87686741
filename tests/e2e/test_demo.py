"""The demo ends in the same table on an embedded cluster and on real Kubernetes, where its dashboard shows it, too."""

from __future__ import annotations

import io
import re
import signal
import subprocess
import sys
import urllib.request
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


@pytest.mark.timeout(900)
def test_dashboard_of_a_kept_demo_on_real_kubernetes_answers_at_the_printed_address() -> None:
    command = [sys.executable, "-m", "fluence_extender", "demo", "--nodes", "3", "--kubernetes", "--keep"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout
        try:
            lines = (line for line in demo.stdout if "The dashboard is at" in line)
            address = next(lines, "the demo has ended").split()[-1]
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            with opener.open(address, timeout=60) as answer:
                assert "How full the cluster is" in answer.read().decode()
            pages, _, _ = address.partition("?")
            with opener.open(f"{pages}gangs/default/too-big", timeout=60) as answer:
                assert "no node has 64 cpu" in answer.read().decode()
        finally:
            demo.send_signal(signal.SIGINT)
        assert demo.wait(120) == 0
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=5)
