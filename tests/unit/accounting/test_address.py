"""``--history``: what it may name, and what is said of an address that can't be used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fluence_extender.accounting.address import open_engine, parse_address, shown
from fluence_extender.accounting.errors import BadAddress
from fluence_extender.apps.extender.past_work import open_history
from fluence_extender.apps.processes import StartRefused
from fluence_extender.http.metrics import Metrics


def test_path_is_a_file_and_a_url_a_database(tmp_path: Path) -> None:
    assert shown(parse_address(str(tmp_path / "h.db"))) == str(tmp_path / "h.db")
    for scheme in ("postgresql", "postgresql+psycopg"):
        url = parse_address(f"{scheme}://ada:secret@db.example/fluence")
        assert url.drivername == "postgresql+psycopg"
        assert shown(url) == "postgresql+psycopg://ada:***@db.example/fluence"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        (" ", "is no file"),
        ("/", "is no file"),
        ("/no/such/folder/h.db", "the folder /no/such/folder doesn't exist"),
        ("postgresql://ada:secret@db.example", "names no database"),
        ("mysql://ada:secret@db.example/x", "mysql"),
        ("postgresql://ada:secret@db.example:port/x", "no URL that can be read"),
        ("://", "no URL that can be read"),
    ],
)
def test_address_that_cannot_be_used_is_refused_at_the_start(address: str, why: str) -> None:
    with pytest.raises(BadAddress, match=r"--history postgresql\+psycopg://|make it") as refused:
        parse_address(address)
    assert why in str(refused.value)
    assert "secret" not in str(refused.value)
    with pytest.raises(StartRefused):
        open_history(address, 400, Metrics())


def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in sys.modules if name.startswith("fluence_extender.accounting.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(StartRefused, match=r"pip install 'fluence-extender\[history\]'"):
        open_history(str(tmp_path / "h.db"), 400, Metrics())


def test_service_without_an_account_keeps_none() -> None:
    assert open_history("", 400, Metrics()) is None


@pytest.mark.parametrize("before", [None, 0o644])
def test_file_is_readable_for_its_owner_alone(before: int | None, tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    if before is not None:
        path.touch()
        path.chmod(before)
    engine = open_engine(parse_address(str(path)), 1, read_only=False)
    with engine.begin() as connection:
        connection.exec_driver_sql("create table t (x)")
        connection.exec_driver_sql("insert into t values (1)")
        modes = {one.name: one.stat().st_mode & 0o777 for one in tmp_path.iterdir()}
    engine.dispose()
    assert set(modes.values()) == {0o600}
