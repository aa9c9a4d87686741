"""The writer: whatever becomes of the database, nobody waits for it, and what is lost is counted."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import URL, text
from structlog.testing import capture_logs

from fluence_extender.accounting.address import open_engine, parse_address
from fluence_extender.accounting.reader import DatabaseReader
from fluence_extender.accounting.writer import Pauses
from fluence_extender.model.accounting import AccountUnavailable, Grouping, RunQuestion
from tests.unit.accounting.accounts import ALL, HOUR, NOON, pod
from tests.unit.accounting.conftest import MakeWriter, Told, until
from tests.unit.accounting.postgresql import PASSWORD, PostgresServer


def runs(url: URL) -> set[str]:
    """The runs that the database has."""
    reader = DatabaseReader(url)
    try:
        return {one.run for one in asyncio.run(reader.runs(RunQuestion(), ALL))}
    finally:
        reader.close()


def test_what_is_stated_is_written(database: URL, writer: MakeWriter, told: Told) -> None:
    one = writer(database)
    one.begin(frozenset())
    for number in range(700):
        one.record(pod(f"p{number}", ended=NOON + HOUR))
    until(one.idle)
    one.close()
    assert (told.spooled, told.written, told.lost, told.waiting) == (700, 700, 0, 0)
    assert told.last_write == pytest.approx(time.time(), abs=60)
    reader = DatabaseReader(database)
    found = asyncio.run(reader.usage(Grouping.NAMESPACE, 0, "", ALL))
    assert [(used.name, used.resource, used.unit_seconds) for used in found] == [
        ("lab", "cpu", 700 * 2000 * HOUR),
        ("lab", "qpu", 700 * HOUR),
    ]
    assert asyncio.run(reader.namespaces()) == {"lab"}
    reader.close()


def test_second_writer_waits_until_the_first_has_stood_down(
    database: URL, writer: MakeWriter, told: Told
) -> None:
    first, second = writer(database), writer(database)
    first.begin(frozenset())
    first.record(pod("a"))
    until(first.idle)
    with capture_logs() as lines:
        second.begin(frozenset({"a"}))
        second.record(pod("b"))
        until(lambda: second.trouble)
        time.sleep(0.3)
    assert len([line for line in lines if line["log_level"] == "warning"]) == 1
    assert "another replica writes the account" in second.trouble
    first.stand_down()
    until(second.idle)
    assert (runs(database), told.lost) == ({"run-a", "run-b"}, 0)


def test_full_spool_loses_the_oldest_and_counts_them(tmp_path: Path, writer: MakeWriter, told: Told) -> None:
    url = parse_address(str(tmp_path / "history.db"))
    holder, one = writer(url), writer(url, spool=3)
    holder.begin(frozenset())
    holder.record(pod("x"))
    until(holder.idle)
    told.written = 0
    one.begin(frozenset({"x"}))
    for name in "abcdeed":
        one.record(pod(name))
    assert (told.lost, told.waiting) == (2, 3)
    holder.stand_down()
    until(one.idle)
    assert runs(url) == {"run-x", "run-c", "run-d", "run-e"}
    assert (told.written, told.lost) == (3, 2)


def test_end_of_the_process_writes_what_is_left(database: URL, writer: MakeWriter) -> None:
    one = writer(database, pauses=Pauses(30.0))
    one.begin(frozenset())
    one.record(pod("a"))
    one.close()
    assert runs(database) == {"run-a"}


def test_account_that_the_database_refuses_keeps_no_other_away(
    database: URL, writer: MakeWriter, told: Told
) -> None:
    bad = pod("bad", submitted=2**70)
    one = writer(database)
    one.begin(frozenset())
    for account in (pod("a"), bad, pod("b")):
        one.record(account)
    until(one.idle)
    assert (runs(database), told.lost, told.written) == ({"run-a", "run-b"}, 1, 2)


def test_newer_database_is_not_written(database: URL, writer: MakeWriter, told: Told) -> None:
    one = writer(database)
    one.begin(frozenset())
    one.record(pod("a"))
    until(one.idle)
    one.close()
    engine = open_engine(database, 1, read_only=False)
    with engine.begin() as connection:
        connection.execute(text("UPDATE facts SET value = 9999 WHERE name = 'version'"))
    engine.dispose()
    later = writer(database)
    later.begin(frozenset())
    later.record(pod("b"))
    until(lambda: later.trouble)
    assert "newer version of fluence-extender" in later.trouble
    later.close()
    assert (runs(database), told.lost) == ({"run-a"}, 1)


def test_read_only_folder_is_reported_and_written_once_it_can_be(tmp_path: Path) -> None:
    code = CHILD.format(
        limit="os.chmod(folder, 0o555)",
        lift="os.chmod(folder, 0o755)",
        trouble="unable to open|Permission denied",
    )
    assert _child(code, tmp_path).splitlines()[-1] == "2 written, 0 lost"


def test_full_disk_is_reported_and_written_once_there_is_room(tmp_path: Path) -> None:
    code = CHILD.format(
        limit="resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))",
        lift="resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))",
        trouble="disk|full|I/O|File too large",
    )
    assert _child(code, tmp_path).splitlines()[-1] == "2 written, 0 lost"


CHILD = """
import ctypes, os, re, resource, signal, sys, time
from fluence_extender.accounting.address import parse_address
from fluence_extender.accounting.writer import AccountWriter, Pauses
from tests.unit.accounting.accounts import pod
from tests.unit.accounting.conftest import Told, until
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
folder = sys.argv[1]
if os.getuid() == 0:
    # Without its capabilities root is a user like any other.
    nothing = (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), nothing) == 0
told = Told()
{limit}
writer = AccountWriter(parse_address(folder + "/history.db"), figures=told.figures(), pauses=Pauses(0.0, 0.05))
writer.begin(frozenset())
began = time.monotonic()
writer.record(pod("a"))
writer.record(pod("b"))
assert time.monotonic() - began < 0.5
until(lambda: writer.trouble)
assert re.search({trouble!r}, writer.trouble), writer.trouble
{lift}
until(writer.idle)
writer.close()
print(f"{{told.written:g}} written, {{told.lost:g}} lost")
"""


def _child(code: str, folder: Path) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, cwd=os.getcwd(), timeout=60
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


# PostgreSQL alone.


@pytest.fixture
def server(postgres: PostgresServer) -> PostgresServer:
    return postgres


def test_wrong_password_is_one_line(server: PostgresServer, writer: MakeWriter) -> None:
    url = parse_address(server.database()).set(password="wrong")
    with capture_logs() as lines:
        one = writer(url)
        one.begin(frozenset())
        one.record(pod("a"))
        until(lambda: one.trouble)
        time.sleep(0.5)
    warned = [line for line in lines if line["log_level"] == "warning"]
    assert len(warned) == 1
    assert "password authentication failed" in warned[0]["why"]
    assert "wrong" not in str(warned[0])
    assert PASSWORD not in str(lines)


def test_database_that_is_killed_loses_nothing(
    server: PostgresServer, writer: MakeWriter, told: Told
) -> None:
    url = parse_address(server.database())
    one = writer(url)
    one.begin(frozenset())
    one.record(pod("a"))
    until(one.idle)
    server.kill()
    try:
        one.record(pod("b"))
        until(lambda: one.trouble)
    finally:
        server.restart()
    until(one.idle)
    assert (runs(url), told.written, told.lost) == ({"run-a", "run-b"}, 2, 0)


def test_database_that_hangs_holds_nobody_up(server: PostgresServer, writer: MakeWriter, told: Told) -> None:
    url = parse_address(server.database())
    one, reader = writer(url), DatabaseReader(url, longest=0.3)
    one.begin(frozenset())
    one.record(pod("a"))
    until(one.idle)
    server.stop()
    try:
        began = time.monotonic()
        for number in range(1000):
            one.record(pod(f"p{number}"))
        with pytest.raises(AccountUnavailable, match="doesn't answer"):
            asyncio.run(reader.runs(RunQuestion(), ALL))
        for _ in range(3):
            with pytest.raises(AccountUnavailable):
                asyncio.run(reader.runs(RunQuestion(), ALL))
        with pytest.raises(AccountUnavailable, match="too slowly"):
            asyncio.run(reader.runs(RunQuestion(), ALL))
        assert time.monotonic() - began < 5
    finally:
        server.go_on()
    until(one.idle)
    reader.close()
    assert (told.written, told.lost) == (1001, 0)


def test_writer_that_is_killed_lets_another_one_write(server: PostgresServer, writer: MakeWriter) -> None:
    url = parse_address(server.database())
    code = (
        "import sys, time; from fluence_extender.accounting.address import parse_address; "
        "from fluence_extender.accounting.writer import AccountWriter, Pauses; "
        "from tests.unit.accounting.accounts import pod; from tests.unit.accounting.conftest import until; "
        "w = AccountWriter(parse_address(sys.argv[1]), pauses=Pauses(0.0)); w.begin(frozenset()); w.record(pod('a')); "
        "until(w.idle); print('written', flush=True); time.sleep(60)"
    )
    address = url.render_as_string(hide_password=False)
    with subprocess.Popen([sys.executable, "-c", code, address], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "written\n"
        second = writer(url)
        second.begin(frozenset({"a"}))
        second.record(pod("b"))
        until(lambda: second.trouble)
        first.send_signal(signal.SIGKILL)
    until(second.idle)
    assert runs(url) == {"run-a", "run-b"}


@pytest.mark.parametrize(
    ("breaks", "mends", "trouble"),
    [
        (
            "ALTER DATABASE {name} SET default_transaction_read_only = on",
            "ALTER DATABASE {name} RESET default_transaction_read_only",
            "read-only transaction",
        ),
        (
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END$$; "
            "CREATE TRIGGER full_disk BEFORE INSERT ON pods EXECUTE FUNCTION full_disk()",
            "DROP TRIGGER full_disk ON pods",
            "No space left on device",
        ),
    ],
    ids=["read-only", "full"],
)
def test_server_that_writes_nothing_is_reported_and_written_once_it_does(
    server: PostgresServer, writer: MakeWriter, told: Told, breaks: str, mends: str, trouble: str
) -> None:
    url = parse_address(server.database())
    one = writer(url)
    one.begin(frozenset())
    one.record(pod("a"))
    until(one.idle)
    one.close()
    server.execute(url, breaks)
    second = writer(url)
    second.begin(frozenset({"a"}))
    second.record(pod("b"))
    until(lambda: second.trouble)
    assert trouble in second.trouble
    assert runs(url) == {"run-a"}
    server.execute(url, mends)
    until(second.idle)
    assert (runs(url), told.written, told.lost) == ({"run-a", "run-b"}, 2, 0)
