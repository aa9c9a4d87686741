"""The provider ``http`` against the mock QPU of the examples, and against nonsense."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fluence_extender.coordination.mock_qpu import MockQpu, server
from fluence_extender.coordination.provider import ProviderError, TaskState, TaskStatus
from fluence_extender.coordination.providers.http import Http
from tests.unit.coordination.servers import Reply, serving


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def url(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with server("127.0.0.1", 0, MockQpu(2, 10.0, clock)) as mock:
        monkeypatch.setattr(mock.RequestHandlerClass, "log_message", lambda *_: None)
        thread = threading.Thread(target=mock.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{mock.server_port}"
        mock.shutdown()
        thread.join()


def submit(url: str, tag: str) -> str:
    request = urllib.request.Request(f"{url}/tasks", data=b"{}", headers={"Fluence-Pod-Uid": tag})
    with urllib.request.urlopen(request) as answer:
        return str(json.loads(answer.read())["id"])


def test_task_goes_through_the_queue(url: str, clock: Clock) -> None:
    queue = Http().connect({"endpoint": url}, {})
    assert queue.find_my_tasks("uid") == []
    submit(url, "another")
    task = submit(url, "uid")
    assert queue.find_my_tasks("uid") == [task]
    seen = []
    for clock.now in (0.0, 9.0, 10.0, 20.0, 29.0, 30.0, 100.0):
        seen.append(queue.status(task))
    assert seen == [
        TaskStatus(TaskState.QUEUED, 2),
        TaskStatus(TaskState.QUEUED, 2),
        TaskStatus(TaskState.QUEUED, 1),
        TaskStatus(TaskState.RUNNING),
        TaskStatus(TaskState.RUNNING),
        TaskStatus(TaskState.COMPLETED),
        TaskStatus(TaskState.COMPLETED),
    ]


def test_tasks_are_listed_oldest_first(url: str) -> None:
    ids = [submit(url, "uid") for _ in range(3)]
    assert Http().connect({"endpoint": f"{url}/"}, {}).find_my_tasks("uid") == ids


def test_missing_task_is_an_error(url: str) -> None:
    with pytest.raises(ProviderError, match="HTTP 404"):
        Http().connect({"endpoint": url}, {}).status("none")


def test_file_is_a_queue_too(tmp_path: Path) -> None:
    file = tmp_path / "tasks.json"
    file.write_text(
        json.dumps(
            {
                "tasks": [
                    {"id": "b", "tag": "uid", "state": "QUEUED", "position": "3", "created": 2},
                    {"id": "a", "tag": "uid", "state": "running", "created": 1},
                    {"id": "c", "tag": "another", "state": "running"},
                ]
            }
        )
    )
    queue = Http().connect({"endpoint": file.as_uri()}, {})
    assert queue.find_my_tasks("uid") == ["a", "b"]
    assert queue.status("b") == TaskStatus(TaskState.QUEUED, 3)
    assert queue.status("a") == TaskStatus(TaskState.RUNNING)
    with pytest.raises(ProviderError, match="has no task d"):
        queue.status("d")
    file.unlink()
    with pytest.raises(ProviderError, match="file://"):
        queue.find_my_tasks("uid")


@pytest.mark.parametrize("endpoint", ["", "mock:8080", "ftp://mock/", "file:relative", "javascript:1"])
def test_endpoint_must_be_a_url(endpoint: str) -> None:
    with pytest.raises(ProviderError, match="isn't a URL"):
        Http().connect({"endpoint": endpoint}, {})


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{", b"<html>Log in</html>", b"{}", b'{"tasks": 5}'])
def test_answer_without_a_list_is_an_error(body: bytes) -> None:
    with (
        serving(lambda call: Reply(200, body)) as url,
        pytest.raises(ProviderError, match='holds no list "tasks"'),
    ):
        Http().connect({"endpoint": url}, {}).find_my_tasks("uid")


def test_tasks_that_are_nonsense_are_skipped() -> None:
    body = b'{"tasks": [1, "a", {"id": 5, "tag": "uid"}, {"tag": "uid"}]}'
    with serving(lambda call: Reply(200, body)) as url:
        assert Http().connect({"endpoint": url}, {}).find_my_tasks("uid") == []


@pytest.mark.parametrize("body", [b"", b"[]", b'{"state": "pondering"}', b'{"state": null}'])
def test_unknown_state_is_an_error(body: bytes) -> None:
    with (
        serving(lambda call: Reply(200, body)) as url,
        pytest.raises(ProviderError, match="has the unknown"),
    ):
        Http().connect({"endpoint": url}, {}).status("a")


@pytest.mark.parametrize("position", ["null", '"soon"', "-4", "[]", "true"])
def test_invalid_position_is_unknown(position: str) -> None:
    body = f'{{"state": "queued", "position": {position}}}'.encode()
    with serving(lambda call: Reply(200, body)) as url:
        assert Http().connect({"endpoint": url}, {}).status("a") == TaskStatus(TaskState.QUEUED)


def test_errors_do_not_show_the_query() -> None:
    with pytest.raises(ProviderError) as raised:
        Http().connect({"endpoint": "http://127.0.0.1:9"}, {}).find_my_tasks("secret-uid")
    assert "secret-uid" not in str(raised.value)
