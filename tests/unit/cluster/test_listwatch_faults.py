"""A list-watch survives every failure of the API server and of the network, and never reports a false state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from fluence_extender.cluster.connection import Connection
from fluence_extender.cluster.listwatch import ListWatch
from fluence_extender.cluster.pacing import Timing
from fluence_extender.cluster.port import Changed, Deleted, Listed, Observation, ResourcesFile
from fluence_extender.cluster.sources import Source, config_map, sources
from fluence_extender.kinds.podgroups import PodGroup
from fluence_extender.model.pod import Pod
from tests.unit.cluster.fake_api_server import (
    PODS,
    FakeApiServer,
    Handler,
    answer,
    event_line,
    eventually,
    hang,
    refuse,
    silent,
    status_body,
    stream,
)

QUICK = Timing(
    watch=5.0, silence=0.3, retry=0.01, retry_cap=0.05, denied=0.02, rediscover=0.05, heartbeat=0.05, page=2
)


class Mirror:
    """A sink that keeps the state that it received, and all observations."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.observations: list[Observation] = []
        self.lists = 0
        self.before: Callable[[Observation], None] = lambda observation: None

    def __call__(self, observation: Observation) -> None:
        self.before(observation)
        self.observations.append(observation)
        match observation:
            case Listed(objects=objects):
                self.lists += 1
                self.names = {one.name for one in objects if isinstance(one, Pod)}
            case Changed(object=Pod(name=name)):
                self.names.add(name)
            case Deleted(object=Pod(name=name)):
                self.names.discard(name)


def pods_of(connection: Connection) -> Source:
    return next(source for source in sources(connection) if source.kind is Pod)


@asynccontextmanager
async def running(
    connection: Connection, sink: Mirror, source: Source | None = None
) -> AsyncIterator[ListWatch]:
    watch = ListWatch(connection, source or pods_of(connection), sink, QUICK)
    task = asyncio.create_task(watch.run())
    try:
        yield watch
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_complete_list_comes_first_and_then_each_change_in_order(
    server: FakeApiServer, connection: Connection
) -> None:
    for number in range(5):
        await server.put_pod(f"p{number}")
    mirror = Mirror()
    async with running(connection, mirror) as watch:
        await watch.synced.wait()
        assert mirror.lists == 1
        assert mirror.names == {"p0", "p1", "p2", "p3", "p4"}
        await server.put_pod("new")
        await server.delete(PODS, "p0")
        await eventually(lambda: len(mirror.observations) == 3)
    assert [type(one) for one in mirror.observations] == [Listed, Changed, Deleted]
    assert mirror.names == {"p1", "p2", "p3", "p4", "new"}
    assert [query.get("limit") for verb, _, query in server.requests if verb == "list"] == ["2", "2", "2"]
    assert all("resourceVersion" not in query for verb, _, query in server.requests if verb == "list")


@pytest.mark.parametrize(
    "fault",
    [
        stream(b'{"type":"ADDED","object":{"metadata":{"na', cut=True),
        stream(event_line("BOOKMARK", {"metadata": {"resourceVersion": "101"}}), cut=True),
        stream(),
        silent,
        refuse(500, "etcdserver: leader changed"),
        refuse(503, "apiserver is starting"),
        refuse(429, "too many requests"),
    ],
    ids=["cut in mid-line", "cut after a bookmark", "ended at once", "silent", "500", "503", "429"],
)
async def test_watch_resumes_without_loss_or_new_list(
    server: FakeApiServer, connection: Connection, fault: Handler
) -> None:
    await server.put_pod("old")
    server.faults["watch", PODS].append(fault)
    mirror = Mirror()
    async with running(connection, mirror) as watch:
        await watch.synced.wait()
        await server.put_pod("new")
        await eventually(lambda: "new" in mirror.names)
        assert watch.failure == ""
    assert mirror.lists == 1
    assert len(mirror.observations) == 2


@pytest.mark.parametrize(
    "fault",
    [
        refuse(410, "too old resource version"),
        stream(event_line("ERROR", status_body(410, "too old resource version"))),
        stream(event_line("ERROR", status_body(500, "decoding failed"))),
        stream(b"<html>not kubernetes</html>\n"),
        stream(b'{"type":"ADDED","object":{}}\n{"type":"ADDED"}\n'),
    ],
    ids=["410", "410 in the stream", "error in the stream", "garbage", "broken events"],
)
async def test_watch_whose_version_expired_lists_again(
    server: FakeApiServer, connection: Connection, fault: Handler
) -> None:
    await server.put_pod("doomed")
    server.faults["watch", PODS].append(fault)
    mirror = Mirror()
    async with running(connection, mirror) as watch:
        await watch.synced.wait()
        await eventually(lambda: mirror.lists == 2)
        await eventually(lambda: server.open_watches == 1)
        await server.put_pod("new")
        await eventually(lambda: "new" in mirror.names)
    assert mirror.names == {"doomed", "new"}


async def test_watch_whose_version_expired_in_an_outage_lists_as_soon_as_it_is_over(
    server: FakeApiServer, connection: Connection
) -> None:
    mirror, timing = Mirror(), replace(QUICK, retry=0.001, retry_cap=0.064)
    watch = ListWatch(connection, pods_of(connection), mirror, timing)
    away = [refuse(503, "apiserver is starting")] * 10
    gone = stream(event_line("ERROR", status_body(410, "too old resource version")))
    server.faults["watch", PODS].extend([*away, gone, gone])
    delays = [await watch._step() for _ in away]
    assert delays[-1] >= timing.retry_cap / 2
    await asyncio.sleep(timing.retry_cap)
    assert await watch._step() <= timing.retry
    # The delays grow, because the list in between didn't help.
    again = await watch._step()
    assert timing.retry <= again <= 2 * timing.retry
    assert mirror.lists == 2


async def test_objects_deleted_while_cut_off_are_missing_from_the_new_list(
    server: FakeApiServer, connection: Connection
) -> None:
    await server.put_pod("doomed")
    mirror = Mirror()
    async with running(connection, mirror) as watch:
        await watch.synced.wait()
        await server.stop()
        await server.delete(PODS, "doomed")
        server.compacted = server.version + 1
        await eventually(lambda: watch.failure != "")
        await server.start()
        await eventually(lambda: mirror.lists == 2)
    assert mirror.names == set()
    assert watch.failure == ""


async def test_outage_ends_in_the_same_state_without_a_new_list(
    server: FakeApiServer, connection: Connection
) -> None:
    mirror = Mirror()
    async with running(connection, mirror) as watch:
        await watch.synced.wait()
        for _ in range(3):
            await server.stop()
            await eventually(lambda: "can't be reached" in watch.failure or "lost" in watch.failure)
            await server.put_pod(f"p{server.version}")
            await server.start()
            await eventually(lambda: len(mirror.names) == len(server.objects[PODS]))
    assert mirror.lists == 1


async def test_bookmark_moves_the_version_from_which_the_watch_resumes(
    server: FakeApiServer, connection: Connection
) -> None:
    mirror = Mirror()
    async with running(connection, mirror) as watch:
        await watch.synced.wait()
        await server.bookmark(PODS)
        await eventually(lambda: server.count("watch", PODS) >= 2)
    resumed = [query["resourceVersion"] for verb, _, query in server.requests if verb == "watch"]
    assert resumed[1] == str(server.version)


async def test_slow_sink_loses_nothing(server: FakeApiServer, connection: Connection) -> None:
    mirror = Mirror()
    held = asyncio.get_running_loop().time

    def dawdle(observation: Observation) -> None:
        until = held() + 0.002
        while held() < until:
            pass

    mirror.before = dawdle
    async with running(connection, mirror) as watch:
        await watch.synced.wait()
        for number in range(200):
            await server.put_pod(f"p{number:03}")
        await eventually(lambda: len(mirror.names) == 200)
    names = [
        one.object.name
        for one in mirror.observations
        if isinstance(one, Changed) and isinstance(one.object, Pod)
    ]
    assert names == sorted(names)


async def test_sink_that_raised_gets_a_complete_list_again(
    server: FakeApiServer, connection: Connection
) -> None:
    mirror = Mirror()

    def stumble(observation: Observation) -> None:
        if isinstance(observation, Changed) and mirror.lists == 1:
            raise ValueError("a bug of the consumer")

    mirror.before = stumble
    async with running(connection, mirror) as watch:
        await watch.synced.wait()
        await server.put_pod("new")
        await eventually(lambda: mirror.lists == 2)
    assert mirror.names == {"new"}


async def test_list_whose_continue_token_expires_is_read_in_one_page(
    server: FakeApiServer, connection: Connection
) -> None:
    for number in range(5):
        await server.put_pod(f"p{number}")
    whole = server._list
    server.faults["list", PODS].extend([whole, refuse(410, "the provided continue parameter is too old")])
    mirror = Mirror()
    async with running(connection, mirror) as watch:
        await watch.synced.wait()
    assert len(mirror.names) == 5
    assert "limit" not in server.requests[2][2]


async def test_missing_right_is_named_and_tried_again(server: FakeApiServer, connection: Connection) -> None:
    message = 'pods is forbidden: User "system:serviceaccount:a:b" cannot list resource "pods"'
    server.faults["list", PODS].extend([refuse(403, message)] * 3)
    mirror, failures = Mirror(), set()
    async with running(connection, mirror) as watch:
        while not watch.synced.is_set():
            failures.add(watch.failure)
            await asyncio.sleep(0.001)
    named = next(failure for failure in failures if failure)
    assert "list pods" in named
    assert "system:serviceaccount:a:b" in named
    assert "Grant" in named


async def test_first_list_that_hangs_times_out(
    server: FakeApiServer, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fluence_extender.cluster.listwatch.LIST_LIMIT", 0.1)
    server.faults["list", PODS].append(hang)
    mirror = Mirror()
    async with running(connection, mirror) as watch:
        await eventually(watch.synced.is_set)
    assert mirror.lists == 1


async def test_kind_that_is_not_served_counts_as_empty_until_it_is(
    server: FakeApiServer, connection: Connection
) -> None:
    source = next(source for source in sources(connection, QUICK) if source.kind is PodGroup)
    mirror = Mirror()
    async with running(connection, mirror, source) as watch:
        await watch.synced.wait()
        assert mirror.observations == [Listed(PodGroup, (), served=False)]
        root = "/apis/scheduling.k8s.io"
        group = {"name": "scheduling.k8s.io", "versions": [{"version": "v1"}, {"version": "v1alpha2"}]}
        for path, body in [
            ("/apis", {"groups": [{"name": "apps"}, group]}),
            (f"{root}/v1", {"resources": [{"name": "priorityclasses"}]}),
            (f"{root}/v1alpha2", {"resources": [{"name": "podgroups"}]}),
        ]:
            server.faults["list", path].extend([answer(body)] * 50)
        await server.put(
            f"{root}/v1alpha2/podgroups", "g", spec={"schedulingPolicy": {"gang": {"minCount": 4}}}
        )
        await eventually(lambda: len(mirror.observations) == 2)
        server.faults.clear()
        del server.objects[f"{root}/v1alpha2/podgroups"]
        await server.drop_watches()
        await eventually(lambda: len(mirror.observations) == 3)
    listed, gone = mirror.observations[1:]
    assert gone == Listed(PodGroup, (), served=False)
    assert isinstance(listed, Listed)
    (found,) = listed.objects
    assert isinstance(found, PodGroup)
    assert found.min_count == 4


async def test_config_map_is_always_exactly_one_resources_file(
    server: FakeApiServer, connection: Connection
) -> None:
    path = "/api/v1/namespaces/fluence/configmaps"
    server.objects[path] = {}
    mirror = Mirror()
    async with running(connection, mirror, config_map("fluence")) as watch:
        await watch.synced.wait()
        await server.put(
            path, "fluence-resources", metadata={"namespace": "fluence"}, data={"resources.yaml": "a: 1"}
        )
        await eventually(lambda: len(mirror.observations) == 2)
        await server.delete(path, "fluence-resources")
        await eventually(lambda: len(mirror.observations) == 3)
    source = "ConfigMap fluence/fluence-resources"
    assert mirror.observations == [
        Listed(ResourcesFile, (ResourcesFile(source, None),)),
        Changed(ResourcesFile(source, "a: 1")),
        Changed(ResourcesFile(source, None)),
    ]
    assert all(
        query["fieldSelector"] == "metadata.name=fluence-resources"
        for _, where, query in server.requests
        if where == path
    )


async def test_pod_with_unreadable_requests_reaches_the_sink_with_its_problem(
    server: FakeApiServer, connection: Connection
) -> None:
    mirror = Mirror()
    async with running(connection, mirror) as watch:
        await watch.synced.wait()
        await server.put_pod("bad", containers=[{"name": "c", "resources": {"requests": {"cpu": "many"}}}])
        await server.put_pod("good")
        await eventually(lambda: "good" in mirror.names)
    bad = mirror.observations[1]
    assert isinstance(bad, Changed)
    assert isinstance(bad.object, Pod)
    assert "many" in bad.object.problem
    assert mirror.lists == 1
