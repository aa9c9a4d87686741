"""The provider for Amazon Braket, against a server that answers as Braket does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from fluence_extender.coordination.provider import ProviderError, TaskState, TaskStatus
from fluence_extender.coordination.providers.braket import Braket, BraketQueue, regions
from tests.unit.coordination.servers import Call, FakeBraket, Reply, serving

KEYS = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret"}
TAG = "fluence-pod-uid"


@pytest.fixture
def braket() -> FakeBraket:
    return FakeBraket()


@pytest.fixture
def environ(braket: FakeBraket, tmp_path: Path) -> Iterator[dict[str, str]]:
    with serving(braket.answer) as url:
        nowhere = str(tmp_path / "none")
        yield {**KEYS, "AWS_ENDPOINT_URL_BRAKET": url, "AWS_SHARED_CREDENTIALS_FILE": nowhere}


def connected(environ: dict[str, str], **attributes: str) -> BraketQueue:
    return Braket().connect(
        {"region": "us-west-1", **attributes}, {**environ, "FLUENCE_BRAKET_REGIONS": "us-west-1"}
    )


@pytest.mark.parametrize(
    "attributes",
    [
        {"qrmi_type": "braket-gate"},
        {"vendor": "aws"},
        {"vendor": "Amazon"},
        {"vendor": "braket", "backend": "ankaa"},
        {"backend": "braket_sv1"},
        {"arn": "arn:aws:braket:us-west-1::device/qpu/rigetti/Ankaa-3"},
        {"device_arn": "arn:aws:braket:::device/quantum-simulator/amazon/sv1", "vendor": "rigetti"},
    ],
)
def test_backends_of_braket_are_recognized(attributes: dict[str, str]) -> None:
    assert Braket().matches(attributes)


@pytest.mark.parametrize(
    "attributes",
    [{}, {"vendor": "ibm"}, {"backend": "ibm_fez"}, {"qrmi_type": "qiskit-runtime-service", "vendor": "aws"}],
)
def test_other_backends_are_not_recognized(attributes: dict[str, str]) -> None:
    assert not Braket().matches(attributes)


def test_devices_own_region_is_searched_first() -> None:
    attributes = {"arn": "arn:aws:braket:eu-north-1::device/qpu/iqm/Garnet", "region": "us-west-1"}
    found = regions(attributes, {"AWS_DEFAULT_REGION": "eu-central-1"})
    assert found[:3] == ["eu-north-1", "us-west-1", "eu-central-1"]
    assert len(found) == len(set(found))
    assert regions({}, {"FLUENCE_BRAKET_REGIONS": "a, b ,"}) == ["a", "b"]
    assert regions({"arn": "sv1"}, {}) == ["us-east-1", "us-west-1", "us-west-2", "eu-west-2", "eu-north-1"]


def test_tasks_are_found_by_tag_through_all_pages_oldest_first(
    braket: FakeBraket, environ: dict[str, str]
) -> None:
    for number in range(5):
        braket.add(f"other-{number}", **{TAG: "another"})
    mine = [braket.add(f"mine-{number}", **{TAG: "uid", "user": "tag"}) for number in range(2)]
    braket.add("untagged")
    assert connected(environ).find_my_tasks("uid") == mine
    assert [call.path for call in braket.calls] == ["/quantum-tasks"] * 4


def test_search_without_a_result_is_no_error(braket: FakeBraket, environ: dict[str, str]) -> None:
    braket.add("other", **{TAG: "another"})
    assert connected(environ).find_my_tasks("uid") == []


def test_calls_are_signed(braket: FakeBraket, environ: dict[str, str]) -> None:
    connected(environ).find_my_tasks("uid")
    (call,) = braket.calls
    assert re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=AKID/\d{8}/us-west-1/braket/aws4_request, "
        r"SignedHeaders=content-type;host;x-amz-date, Signature=[0-9a-f]{64}",
        call.headers["authorization"],
    )
    assert call.headers["host"] in environ["AWS_ENDPOINT_URL_BRAKET"]


@pytest.mark.parametrize(
    ("status", "position", "expected"),
    [
        ("CREATED", None, TaskStatus(TaskState.QUEUED)),
        ("QUEUED", "2", TaskStatus(TaskState.QUEUED, 2)),
        ("QUEUED", "1", TaskStatus(TaskState.QUEUED, 1)),
        ("QUEUED", ">2000", TaskStatus(TaskState.QUEUED, 2001)),
        ("QUEUED", "None", TaskStatus(TaskState.QUEUED)),
        ("RUNNING", None, TaskStatus(TaskState.RUNNING)),
        ("COMPLETED", None, TaskStatus(TaskState.COMPLETED)),
        ("FAILED", None, TaskStatus(TaskState.FAILED)),
        ("CANCELLING", None, TaskStatus(TaskState.CANCELLED)),
        ("CANCELLED", None, TaskStatus(TaskState.CANCELLED)),
    ],
)
def test_status_and_position(
    braket: FakeBraket, environ: dict[str, str], status: str, position: str | None, expected: TaskStatus
) -> None:
    arn = braket.add("a", status, position)
    assert connected(environ).status(arn) == expected


@pytest.mark.parametrize("status", ["", "PONDERING", "queued"])
def test_unknown_states_are_errors(braket: FakeBraket, environ: dict[str, str], status: str) -> None:
    arn = braket.add("a", status)
    with pytest.raises(ProviderError, match="has the unknown"):
        connected(environ).status(arn)


def test_missing_task_is_an_error(braket: FakeBraket, environ: dict[str, str]) -> None:
    with pytest.raises(ProviderError, match="HTTP 404"):
        connected(environ).status("arn:aws:braket:us-west-1:1:quantum-task/none")


def test_denied_regions_are_left_out_from_then_on(braket: FakeBraket, environ: dict[str, str]) -> None:
    braket.denied_regions = frozenset({"us-east-1"})
    mine = braket.add("mine", **{TAG: "uid"})
    queue = Braket().connect({}, {**environ, "FLUENCE_BRAKET_REGIONS": "us-east-1,us-west-1"})
    assert queue.find_my_tasks("uid") == [mine]
    before = len(braket.calls)
    assert queue.find_my_tasks("uid") == [mine]
    assert len(braket.calls) == before + 1


def test_search_that_all_regions_deny_is_reported_and_repeated(
    braket: FakeBraket, environ: dict[str, str]
) -> None:
    braket.denied_regions = frozenset({"us-west-1"})
    queue = connected(environ)
    with pytest.raises(ProviderError, match="every region denies the search: us-west-1: HTTP 403"):
        queue.find_my_tasks("uid")
    braket.denied_regions = frozenset()
    mine = braket.add("mine", **{TAG: "uid"})
    assert queue.find_my_tasks("uid") == [mine]


def test_failing_region_hides_no_other(braket: FakeBraket, environ: dict[str, str]) -> None:
    def refuse(call: Call) -> Reply | None:
        return Reply(500, {"message": "oops"}) if "/us-east-1/" in call.headers["authorization"] else None

    braket.refuse = refuse
    queue = Braket().connect({}, {**environ, "FLUENCE_BRAKET_REGIONS": "us-east-1,us-west-1"})
    with pytest.raises(ProviderError, match="HTTP 500"):
        queue.find_my_tasks("uid")
    mine = braket.add("mine", **{TAG: "uid"})
    assert queue.find_my_tasks("uid") == [mine]


@pytest.mark.parametrize("ahead", [timedelta(hours=-3), timedelta(minutes=20), timedelta(days=2)])
def test_difference_of_clocks_is_corrected(
    braket: FakeBraket, environ: dict[str, str], ahead: timedelta
) -> None:
    """The service refuses signatures that are more than five minutes away from its own time."""

    def refuse(call: Call) -> Reply | None:
        now = datetime.now(UTC) + ahead
        signed = datetime.strptime(call.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if abs(signed - now) > timedelta(minutes=5):
            return Reply(
                403, {"message": "Signature not yet current"}, {"Date": format_datetime(now, usegmt=True)}
            )
        return None

    braket.refuse = refuse
    mine = braket.add("mine", **{TAG: "uid"})
    queue = connected(environ)
    assert queue.find_my_tasks("uid") == [mine]
    before = len(braket.calls)
    assert queue.find_my_tasks("uid") == [mine]
    assert len(braket.calls) == before + 1, "the difference is remembered"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b"{", b"{}", b'{"quantumTasks": null}'])
def test_answer_without_a_list_does_not_mean_no_tasks(
    braket: FakeBraket, environ: dict[str, str], body: bytes
) -> None:
    braket.refuse = lambda call: Reply(200, body)
    with pytest.raises(
        ProviderError, match='search for tasks in us-west-1: the answer holds no list "quantumTasks"'
    ):
        connected(environ).find_my_tasks("uid")


def test_nonsense_in_the_list_is_skipped(braket: FakeBraket, environ: dict[str, str]) -> None:
    braket.refuse = lambda call: Reply(200, b'{"quantumTasks": [1, null, {"tags": 5}]}')
    assert connected(environ).find_my_tasks("uid") == []


def test_message_without_credentials_says_what_to_set(environ: dict[str, str]) -> None:
    bare = {key: value for key, value in environ.items() if key not in KEYS}
    with pytest.raises(ProviderError, match="AWS_WEB_IDENTITY_TOKEN_FILE"):
        connected(bare).find_my_tasks("uid")


def test_unreachable_service_is_an_error(environ: dict[str, str]) -> None:
    with pytest.raises(ProviderError, match="quantum-tasks"):
        connected({**environ, "AWS_ENDPOINT_URL_BRAKET": "http://127.0.0.1:9"}).find_my_tasks("uid")
