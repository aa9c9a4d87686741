"""The configuration of the kube-scheduler in the extender's pod."""

from __future__ import annotations

import pytest
import yaml
from click.testing import CliRunner

from fluence_extender.apps.cli import main
from fluence_extender.apps.scheduler_config import scheduler_config


def election(lease: str = "", duration: int = 15) -> dict[str, object]:
    config = yaml.safe_load(scheduler_config("http://x", "", lease, duration))
    found: dict[str, object] = config["leaderElection"]
    return found


def test_without_a_lease_there_is_no_election() -> None:
    assert election() == {"leaderElect": False}


def test_lease_is_elected_in_kube_schedulers_own_proportions() -> None:
    assert election("fluence-system/fluence") == {
        "leaderElect": True,
        "leaseDuration": "15s",
        "renewDeadline": "10000ms",
        "retryPeriod": "2000ms",
        "resourceLock": "leases",
        "resourceName": "fluence",
        "resourceNamespace": "fluence-system",
    }


@pytest.mark.parametrize("duration", [3, 4, 6, 60])
def test_kube_scheduler_accepts_any_duration(duration: int) -> None:
    """leaseDuration > renewDeadline > 1.2 retryPeriods (client-go, leaderelection)."""
    found = election("a/b", duration)
    renew, retry = (int(str(found[key]).removesuffix("ms")) for key in ("renewDeadline", "retryPeriod"))
    assert duration * 1000 > renew > 1.2 * retry > 0


@pytest.mark.parametrize("command", ["serve", "scheduler-config"])
@pytest.mark.parametrize("lease", ["fluence", "/fluence", "fluence-system/", "a/b/c"])
def test_lease_is_namespace_and_name(command: str, lease: str) -> None:
    result = CliRunner().invoke(main, [command, f"--lease={lease}"])
    assert result.exit_code == 2
    assert "is not NAMESPACE/NAME" in result.output


def extenders() -> list[dict[str, object]]:
    config = yaml.safe_load(scheduler_config("http://x/", ""))
    found: list[dict[str, object]] = config["extenders"]
    return found


def test_one_extender_has_all_verbs_and_binds_every_pod() -> None:
    (found,) = extenders()
    verbs = {key: found[key] for key in found if key.endswith("Verb")}
    assert verbs == {
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "bindVerb": "bind",
    }
    assert found["urlPrefix"] == "http://x"
    assert "managedResources" not in found
