"""Every page of the dashboard in a real Chromium, over the demo's cluster, against what ``/v1`` says."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from fluence_extender.demo.embedded import EmbeddedSite
from fluence_extender.demo.manifests import examples, read
from tests.docs.screenshots import FOLDER, PICTURES, picture
from tests.network.browser import chromium, dashboard, origin

PAGES = (
    "/",
    "/queue",
    "/gangs",
    "/nodes",
    "/devices",
    "/usage",
    "/usage?by=day&since=30d",
    "/what-if",
    "/search?q=node",
    "/gangs/default/too-big",
    "/gangs/default/quantum",
    "/nodes/node-0",
    "/gangs/default/nobody",
)
PHONE = 390

Items = list[dict[str, Any]]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedSite]:
    history = tmp_path_factory.mktemp("account") / "history.db"
    with EmbeddedSite(6, "lonode", str(history)) as started:
        for file in examples():
            for manifest in read(file):
                started.apply(manifest)
        deadline = time.monotonic() + 30
        # Whatever runs to its end has ended, so that what the pages show stays as it is.
        while sum(gang["state"] == "finished" for gang in items(started, "gangs")) < 4:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield started


@pytest.fixture(scope="module")
def address(site: EmbeddedSite) -> Iterator[str]:
    with dashboard(site.api_url) as found:
        yield found


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """Return a page that has shown the key, and that fails the test for an error of a script."""
    context = browser.new_context(base_url=origin(address))
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.goto(address)
    yield opened
    context.close()
    assert errors == []


def items(site: EmbeddedSite, name: str) -> Items:
    """Return a list of ``/v1``."""
    with urllib.request.urlopen(f"{site.api_url}/v1/{name}", timeout=10) as answer:
        found: Items = json.load(answer)["items"]
    return found


READ_ROWS = """rows => rows.map(row => [...row.querySelectorAll("th, td")]
    .map(cell => [cell.dataset.label || "", cell.innerText.trim()]))"""


def cells(page: Page, caption: str) -> dict[str, dict[str, str]]:
    """Return the rows of a table by their first cell, each with its cells by column.

    They are read at once, because the page may be written anew at any moment.
    """
    rows: list[list[list[str]]] = (
        page.get_by_role("region", name=caption, exact=True).locator("tbody tr").evaluate_all(READ_ROWS)
    )
    return {row[0][1]: {label: text for label, text in row} for row in rows}


def test_overview_counts_what_the_service_counts(page: Page, site: EmbeddedSite) -> None:
    gangs = items(site, "gangs")
    for state in ("waiting", "bound", "finished"):
        count = sum(gang["state"] == state for gang in gangs)
        expect(page.locator(".states li", has_text=state)).to_contain_text(str(count))
    queues = cells(page, "Queues")
    assert {name: row["Waiting"] for name, row in queues.items()} == {
        queue["name"]: str(queue["waiting"]) for queue in items(site, "queues")
    }
    held = sum(node["held"].get("cpu", 0) for node in items(site, "nodes"))
    others = sum(node["others"].get("cpu", 0) for node in items(site, "nodes"))
    expect(page.locator(".gauges li").first).to_contain_text(f"{held + others:g} of 24")


def test_queue_shows_the_line_in_order(page: Page, site: EmbeddedSite) -> None:
    page.goto("/queue")
    line = items(site, "queue")
    shown = cells(page, "The line")
    assert list(shown) == [f"{one['namespace']}/{one['name']}" for one in line]
    for one in line:
        row = shown[f"{one['namespace']}/{one['name']}"]
        assert (row["Place"], row["Reason"]) == (str(one["position"]), one["reason"])
    running = [gang for gang in items(site, "gangs") if gang["state"] == "bound"]
    expect(page.locator(".timeline li")).to_have_count(len(running))


def test_gangs_and_nodes_name_their_users(page: Page, site: EmbeddedSite) -> None:
    page.goto("/gangs")
    users = {f"{gang['namespace']}/{gang['name']}": gang["user"] for gang in items(site, "gangs")}
    assert all(users.values())
    assert {name: row["User"] for name, row in cells(page, "Gangs").items()} == users
    page.goto("/gangs/default/quantum")
    expect(page.locator(".facts")).to_contain_text(f"Submitted by{users['default/quantum']}")
    page.goto("/nodes/node-0")
    shown = cells(page, "Pods on the node")
    assert {row["User"] for row in shown.values()} <= set(users.values())


def test_gangs_are_filtered_by_the_address(page: Page, site: EmbeddedSite) -> None:
    page.goto("/gangs")
    page.get_by_label("State").select_option("bound")
    page.wait_for_url("**/gangs?state=bound")
    bound = {
        f"{gang['namespace']}/{gang['name']}" for gang in items(site, "gangs") if gang["state"] == "bound"
    }
    rows = page.get_by_role("region", name="Gangs", exact=True).locator("tbody tr")
    expect(rows).to_have_count(len(bound))
    assert set(cells(page, "Gangs")) == bound
    expect(page.get_by_label("State")).to_have_value("bound")


def test_nodes_are_on_the_map_and_in_the_table(page: Page, site: EmbeddedSite) -> None:
    page.goto("/nodes")
    shown = cells(page, "Nodes")
    nodes = items(site, "nodes")
    assert list(shown) == [node["name"] for node in nodes]
    assert page.locator(".tile").count() == len(nodes)
    for node in nodes:
        used = node["held"].get("cpu", 0) + node["others"].get("cpu", 0)
        assert shown[node["name"]]["CPU"].startswith(f"{used:g} of")


def test_node_shows_who_holds_what(page: Page, site: EmbeddedSite) -> None:
    full = next(node["name"] for node in items(site, "nodes") if node["free"]["cpu"] <= 0)
    page.goto(f"/nodes/{full}")
    with urllib.request.urlopen(f"{site.api_url}/v1/nodes/{full}", timeout=10) as answer:
        pods = json.load(answer)["pods"]
    assert set(cells(page, "Pods on the node")) == {f"{pod['namespace']}/{pod['pod']}" for pod in pods}
    expect(page.locator("#live")).to_contain_text("no cpu is free")


def test_devices_show_their_holders_and_attributes(page: Page, site: EmbeddedSite) -> None:
    page.goto("/devices?type=qpu")
    shown = cells(page, "Devices")
    devices = [device for device in items(site, "backends") if device["type"] == "qpu"]
    assert set(shown) == {device["name"] for device in devices}
    for device in devices:
        row = shown[device["name"]]
        assert row["Held"] == f"{device['held']} of {device['total']}"
        holders = {f"{one['namespace']}/{one['pod']}" for one in device["holders"]}
        assert set(row["Held by"].split()) == (holders or {"-"})


def test_gang_shows_its_members_its_history_and_why(page: Page, site: EmbeddedSite) -> None:
    page.goto("/gangs/default/too-big")
    with urllib.request.urlopen(f"{site.api_url}/v1/gangs/default/too-big", timeout=10) as answer:
        gang = json.load(answer)
    live = page.locator("#live")
    expect(live).to_contain_text(gang["reason"])
    assert set(cells(page, "Members")) == {member["pod"] for member in gang["members"]}
    assert page.locator(".history li").count() == len(gang["history"])
    expect(live).to_contain_text("1 member of 64 cpu, 1Gi memory")


@pytest.mark.parametrize("by", ["queue", "user", "namespace", "account", "day"])
def test_usage_shows_what_was_used(page: Page, site: EmbeddedSite, by: str) -> None:
    query = f"by={by}&since=2d&namespace=default"
    page.goto(f"/usage?{query}")
    shown = cells(page, "Usage")
    found = items(site, f"usage?{query}")
    assert set(shown) == {one["name"] or "(none)" for one in found}
    for one in found:
        row = shown[one["name"] or "(none)"]
        # What runs is counted up to now, and the page was made a moment ago.
        assert float(row["Core hours"]) == pytest.approx(one["seconds"]["cpu"] / 3600, abs=0.2)
        held = {f"{used['type']} {used['backend']}".strip() for used in one["devices"]}
        assert {part.rsplit(" ", 1)[0] for part in row["Device seconds"].split(", ")} == (held or {"-"})
    command = f"kubectl fluence usage --by {by} --since 2d -n default"
    expect(page.get_by_label(f"Copy the command: {command}")).to_be_visible()


def test_usage_is_filtered_by_the_address(page: Page) -> None:
    page.goto("/usage")
    page.locator("select[name=by]").select_option("user")
    page.wait_for_url("**/usage?by=user")
    page.get_by_label("Since").fill("2d")
    page.get_by_label("Since").press("Enter")
    page.wait_for_url("**/usage?by=user&since=2d")
    expect(page.locator("#live")).to_contain_text("By user, since 2d")
    page.goto("/usage?since=soon")
    expect(page.locator("#live .notice.trouble")).to_contain_text("since: write a day such as")


def test_what_if_asks_the_service(page: Page) -> None:
    page.goto("/what-if")
    page.get_by_role("button", name="Would it fit?").click()
    answer = page.locator("#answer")
    expect(answer).to_contain_text("default/train (8 pods)")
    page.get_by_label("Manifest").fill("kind: [")
    page.get_by_role("button", name="Would it fit?").click()
    expect(page.locator("#live .notice.trouble")).to_contain_text("Change the question and ask again.")
    expect(page.get_by_label("Manifest")).to_have_value("kind: [")


def test_slash_searches_everything(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("quant")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=quant")
    found = cells(page, "What was found")
    assert found["default/quantum"]["Kind"] == "gang"
    page.get_by_role("link", name="default/quantum").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Gang default/quantum")


def test_new_gang_is_seen_at_once_and_keeps_the_focus(page: Page, site: EmbeddedSite) -> None:
    page.goto("/gangs?text=late")
    expect(page.locator("#live")).to_contain_text("No gang is like this")
    page.get_by_label("Text").focus()
    (manifest,) = [one for file in examples() for one in read(file) if one["metadata"]["name"] == "single"][
        :1
    ]
    site.apply({**manifest, "metadata": {**manifest["metadata"], "name": "late"}})
    expect(page.locator("#live")).to_contain_text("default/late", timeout=3000)
    expect(page.get_by_label("Text")).to_be_focused()


def test_row_leads_to_the_command_that_says_the_same(page: Page) -> None:
    page.goto("/gangs?text=too-big")
    row = page.get_by_role("region", name="Gangs").locator("tbody tr")
    expect(row.locator("button.copy")).to_have_attribute(
        "data-copy", "kubectl fluence why too-big -n default"
    )


def test_pages_are_accessible_fit_a_phone_and_load_nothing_from_elsewhere(
    browser: Browser, address: str
) -> None:
    context = browser.new_context(base_url=origin(address))
    page = context.new_page()
    hosts = set()
    page.on("request", lambda request: hosts.add(origin(request.url)))
    page.goto(address)
    faults: dict[str, list[str]] = {}
    widths = {}
    for path in PAGES:
        page.goto(path)
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 1280, "height": 800})
        faults[path] = serious(page, {}) + dark(page)
        page.set_viewport_size({"width": PHONE, "height": 800})
        widths[path] = page.evaluate("document.documentElement.scrollWidth")
    context.close()
    assert faults == {path: [] for path in PAGES}
    assert widths == dict.fromkeys(PAGES, PHONE)
    assert hosts == {origin(address)}


def dark(page: Page) -> list[str]:
    """Return the serious faults of a page in the dark, where only its colors differ."""
    page.emulate_media(color_scheme="dark")
    return serious(page, {"runOnly": ["color-contrast"]})


def serious(page: Page, options: dict[str, Any]) -> list[str]:
    """Return the serious faults that axe-core finds in a page."""
    result = Axe().run(page, options=options).response
    assert result["passes"], "axe has looked at nothing"
    return [one["id"] for one in result["violations"] if one["impact"] in ("serious", "critical")]


@pytest.mark.parametrize("name", PICTURES)
def test_picture_in_the_documents_can_be_taken_anew(
    browser: Browser, address: str, name: str, tmp_path: Path
) -> None:
    taken = picture(browser, address, name, tmp_path).read_bytes()
    kept = (FOLDER / f"{name}.png").read_bytes()
    # Signature, length and type of the header, then width and height.
    assert taken[:24] == kept[:24]


def test_address_without_its_key_shows_nothing(browser: Browser, address: str) -> None:
    context = browser.new_context()
    answer = context.new_page().goto(f"{origin(address)}/gangs")
    assert answer is not None
    assert answer.status == 403
    assert "default/" not in answer.text()
    context.close()
