"""The provider for IBM Quantum, against a server that answers as the service and its IAM do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fluence_extender.coordination.provider import ProviderError, TaskState, TaskStatus
from fluence_extender.coordination.providers.ibm import IAM, SERVICE, Ibm, IbmQueue, account
from tests.unit.coordination.servers import FakeIbm, serving

MARK = "fluence-pod-uid=uid"


@pytest.fixture
def ibm() -> FakeIbm:
    return FakeIbm()


@pytest.fixture
def queue(ibm: FakeIbm) -> Iterator[IbmQueue]:
    with serving(ibm.answer) as url:
        environ = {
            "ibm_fez_QRMI_IBM_QRS_ENDPOINT": f"{url}/api/v1",
            "ibm_fez_QRMI_IBM_QRS_IAM_ENDPOINT": url,
            "ibm_fez_QRMI_IBM_QRS_IAM_APIKEY": "key",
            "ibm_fez_QRMI_IBM_QRS_SERVICE_CRN": "crn:v1:bluemix",
        }
        yield Ibm().connect({"backend": "ibm_fez"}, environ)


@pytest.mark.parametrize(
    "attributes",
    [
        {"qrmi_type": "qiskit-runtime-service"},
        {"qrmi_type": "ibm-quantum-system", "vendor": "x"},
        {"vendor": "IBM"},
        {"backend": "ibm_marrakesh"},
    ],
)
def test_backends_of_ibm_are_recognized(attributes: dict[str, str]) -> None:
    assert Ibm().matches(attributes)


@pytest.mark.parametrize(
    "attributes",
    [{}, {"vendor": "rigetti", "backend": "ibm_like"}, {"qrmi_type": "pasqal-cloud", "vendor": "ibm"}],
)
def test_other_backends_are_not_recognized(attributes: dict[str, str]) -> None:
    assert not Ibm().matches(attributes)


@pytest.mark.parametrize("prefix", ["b_QRMI_IBM_QRS", "b_QRMI_IBM_QCS", "QRMI_IBM_QRS", "QRMI_IBM_QCS"])
def test_credentials_as_qrmi_reads_them(prefix: str) -> None:
    found = account("b", {f"{prefix}_IAM_APIKEY": "k", f"{prefix}_SERVICE_CRN": "c"})
    assert (found.endpoint, found.iam, found.key, found.instance) == (SERVICE, IAM, "k", "c")


def test_credentials_as_qiskit_reads_them() -> None:
    environ = {
        "QISKIT_IBM_TOKEN": "k",
        "QISKIT_IBM_INSTANCE": "c",
        "QISKIT_IBM_URL": "https://quantum.example/",
    }
    found = account("b", environ)
    assert (found.key, found.instance, found.endpoint) == ("k", "c", "https://quantum.example/api/v1")


@pytest.mark.parametrize("environ", [{}, {"QISKIT_IBM_TOKEN": "k"}, {"b_QRMI_IBM_QRS_SERVICE_CRN": "c"}])
def test_message_without_credentials_says_what_to_set(environ: dict[str, str]) -> None:
    with pytest.raises(ProviderError, match="b_QRMI_IBM_QRS_IAM_APIKEY"):
        account("b", environ)


def test_jobs_are_found_by_their_tag_oldest_first(ibm: FakeIbm, queue: IbmQueue) -> None:
    ibm.add("other", "Queued", "fluence-pod-uid=another")
    ibm.add("first", "Queued", MARK, "users")
    ibm.add("second", "Queued", MARK)
    assert queue.find_my_tasks("uid") == ["first", "second"]


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b"{}", b'{"jobs": {}}', b'{"errors": []}'])
def test_answer_without_a_list_does_not_mean_no_jobs(ibm: FakeIbm, queue: IbmQueue, body: bytes) -> None:
    ibm.listing = body
    with pytest.raises(ProviderError, match='list jobs: the answer holds no list "jobs"'):
        queue.find_my_tasks("uid")


def test_search_without_a_result_is_no_error(ibm: FakeIbm, queue: IbmQueue) -> None:
    assert queue.find_my_tasks("uid") == []
    ibm.listing = b'{"jobs": [1, null, {"tags": null}]}'
    assert queue.find_my_tasks("uid") == []


@pytest.mark.parametrize(
    ("value", "state"),
    [
        ("Running", TaskState.RUNNING),
        ("Completed", TaskState.COMPLETED),
        ("Failed", TaskState.FAILED),
        ("Cancelled", TaskState.CANCELLED),
        ("Cancelled - Ran too long", TaskState.CANCELLED),
    ],
)
def test_status(ibm: FakeIbm, queue: IbmQueue, value: str, state: TaskState) -> None:
    assert queue.status(ibm.add("a", value)) == TaskStatus(state)


@pytest.mark.parametrize(
    ("waiting", "position"), [(0, 1), (1, 1), (2, None), (40, None), (None, None), ("1", None)]
)
def test_job_that_waits_alone_is_next(
    ibm: FakeIbm, queue: IbmQueue, waiting: object, position: int | None
) -> None:
    ibm.waiting["ibm_fez"] = waiting
    assert queue.status(ibm.add("a", "Queued")) == TaskStatus(TaskState.QUEUED, position)


@pytest.mark.parametrize("value", ["", "Pondering", None])
def test_unknown_states_are_errors(ibm: FakeIbm, queue: IbmQueue, value: str) -> None:
    with pytest.raises(ProviderError, match="has the unknown"):
        queue.status(ibm.add("a", value))


def test_token_serves_many_calls_and_is_renewed_once_refused(ibm: FakeIbm, queue: IbmQueue) -> None:
    job = ibm.add("a", "Running")
    queue.status(job)
    queue.status(job)
    assert ibm.tokens == 1
    ibm.tokens = 5
    assert queue.status(job) == TaskStatus(TaskState.RUNNING)
    assert ibm.tokens == 6


def test_wrong_key_is_reported(ibm: FakeIbm) -> None:
    with serving(ibm.answer) as url:
        environ = {
            "QISKIT_IBM_TOKEN": "wrong",
            "QISKIT_IBM_INSTANCE": "crn:v1:bluemix",
            "QISKIT_IBM_URL": url,
            "IAM_URL": url,
        }
        with pytest.raises(ProviderError, match="could not be found"):
            Ibm().connect({"backend": "b"}, environ).find_my_tasks("uid")


def test_missing_job_is_an_error(queue: IbmQueue) -> None:
    with pytest.raises(ProviderError, match="HTTP 404"):
        queue.status("none")
