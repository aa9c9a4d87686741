"""The dashboard in a real Chromium when things go wrong: hostile names, a service that goes away, missing rights."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.network.browser import chromium, dashboard, origin
from tests.network.state_api import StateApi, device, entry, gang, node, queue, story

HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\">'\"&amp;</script><script>document.title='owned'</script>"
)
LIMIT = 20_000
"""Milliseconds in which a page has to show something new, on a busy machine too."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def served() -> Iterator[StateApi]:
    with StateApi() as started:
        yield started


@pytest.fixture(scope="module")
def address(served: StateApi) -> Iterator[str]:
    with dashboard(served.url) as found:
        yield found


@pytest.fixture
def service(served: StateApi) -> StateApi:
    """Return the service with one gang that waits and one that runs."""
    waits, runs = gang("waits"), gang("runs", "bound")
    served.lists.update(
        gangs=[runs, waits],
        queues=[queue("physics")],
        queue=[entry(waits)],
        reservations=[],
        nodes=[node("n1", 4), node("n2", 1)],
        backends=[device("ibm_fez")],
    )
    served.documents = {f"/v1/gangs/lab/{one['name']}": story(one) for one in (waits, runs)}
    served.refused, served.leading = {}, True
    return served


@pytest.fixture
def page(browser: Browser, service: StateApi, address: str) -> Iterator[Page]:
    context = browser.new_context(base_url=origin(address))
    opened = context.new_page()
    opened.set_default_timeout(LIMIT)
    opened.goto(address)
    # What an earlier test has refused is told until the dashboard looks again.
    expect(opened.locator("#live .notice.trouble")).to_have_count(0, timeout=LIMIT)
    yield opened
    context.close()


def test_hostile_names_stay_text(page: Page, service: StateApi) -> None:
    task = {"role": "observed", "partner": "", "task": HOSTILE, "status": HOSTILE}
    bad = gang(
        HOSTILE, "bound", namespace=HOSTILE, reason=HOSTILE, queue=HOSTILE, why=HOSTILE, former=[HOSTILE]
    )
    bad["quantum"] = task
    waits = gang(HOSTILE, namespace=HOSTILE, reason=HOSTILE, queue=HOSTILE)
    service.lists.update(
        gangs=[bad],
        queues=[queue(HOSTILE, problems=[HOSTILE], head=f"lab/{HOSTILE}")],
        queue=[entry(waits, user=HOSTILE, reserved_nodes=[HOSTILE])],
        nodes=[node(HOSTILE, problems=[HOSTILE], levels={"zone": HOSTILE})],
        backends=[device(HOSTILE, attributes={HOSTILE: HOSTILE}, problems=[HOSTILE])],
    )
    service.documents = {f"/v1/gangs/{HOSTILE}/{HOSTILE}": story(bad)}
    page.goto("/gangs")
    expect(page.locator("#live")).to_contain_text(HOSTILE, timeout=LIMIT)
    link = page.locator("tbody a").first.get_attribute("href") or ""
    used = {"name": HOSTILE, "seconds": {"cpu": 60, HOSTILE: 1}}
    devices = [{"type": HOSTILE, "backend": HOSTILE, "seconds": 1}]
    service.documents["/v1/usage"] = {"items": [{**used, "devices": devices}], "metadata": {}}
    for path in (
        "/",
        "/usage",
        "/queue",
        "/nodes",
        "/devices",
        "/search?q=img",
        link,
        f"/gangs?text={HOSTILE}",
    ):
        page.goto(path)
        expect(page.locator("main")).to_contain_text(HOSTILE, timeout=LIMIT)
        assert page.locator("main img, main script").count() == 0
        assert "Fluence" in page.title()


def test_service_that_goes_away_and_comes_back(page: Page, service: StateApi) -> None:
    page.goto("/gangs")
    expect(page.locator("#live")).to_contain_text("lab/waits", timeout=LIMIT)
    service.stop()
    expect(page.locator("#live .notice.trouble")).to_contain_text(
        "can't be reached: Connection refused", timeout=LIMIT
    )
    expect(page.locator("#live")).to_contain_text("lab/waits")
    service.lists["gangs"] = [gang("after")]
    service.start()
    expect(page.locator("#live")).to_contain_text("lab/after", timeout=LIMIT)
    expect(page.locator("#live .notice.trouble")).to_have_count(0)


def test_standby_and_missing_rights_and_no_queue_say_what_to_do(page: Page, service: StateApi) -> None:
    service.leading = False
    service.lists["queues"] = []
    service.refused["/v1/nodes"] = (403, "listing nodes needs the right to list nodes")
    live = page.locator("#live")
    expect(live).to_contain_text("A standby replica answers", timeout=LIMIT)
    expect(live).to_contain_text("You may not see: nodes.")
    expect(live).to_contain_text("listing nodes needs the right to list nodes")
    expect(live).to_contain_text("There is no queue")
    service.refused["/v1/gangs"] = (403, 'forbidden: User "ada" cannot get path "/v1/gangs"')
    expect(page.locator("#live .notice.trouble")).to_contain_text("--clusterrole=fluence-view", timeout=LIMIT)


def test_usage_without_an_account_or_rights_or_use_says_what_to_do(page: Page, service: StateApi) -> None:
    live = page.locator("#live")
    service.refused["/v1/usage"] = (501, "no account of past work is kept here: start it with --history FILE")
    page.goto("/usage")
    expect(live.locator(".notice.trouble")).to_contain_text("--history FILE")
    service.refused["/v1/usage"] = (403, 'forbidden: User "ada" cannot list resource "usage"')
    page.goto("/usage?by=user")
    expect(live.locator(".notice.trouble")).to_contain_text("--clusterrole=fluence-view")
    service.refused["/v1/usage"] = (503, "the account of past work can't be read: gone")
    page.goto("/usage?by=day")
    expect(live.locator(".notice.trouble")).to_contain_text("The page goes on by itself")
    del service.refused["/v1/usage"]
    metadata = {"leading": True, "restricted": True}
    service.documents["/v1/usage"] = {"items": [], "metadata": metadata}
    page.goto("/usage?by=namespace")
    expect(live).to_contain_text("Only namespaces whose pods you may list are counted")
    expect(live).to_contain_text("Nothing was used. Choose an earlier day")


def test_tables_of_ten_thousand_rows_have_pages_and_are_found_by_text(page: Page, service: StateApi) -> None:
    waiting = [gang(f"wait-{number}", position=number + 1) for number in range(10_000)]
    service.lists.update(gangs=waiting, queue=[entry(one) for one in waiting])
    live = page.locator("#live")
    for path, caption in (("/gangs", "Gangs"), ("/queue", "The line")):
        page.goto(f"{path}?page=100")
        expect(live).to_contain_text("9,901 to 10,000 of 10,000", timeout=LIMIT)
        rows = page.get_by_role("region", name=caption, exact=True).locator("tbody tr")
        expect(rows).to_have_count(100)
        page.goto(f"{path}?text=wait-9999")
        expect(live).to_contain_text("lab/wait-9999", timeout=LIMIT)
        expect(rows).to_have_count(1)


def test_dashboard_that_ends_says_so(browser: Browser, service: StateApi) -> None:
    with dashboard(service.url) as found:
        page = browser.new_page()
        page.goto(found)
        expect(page.locator("#live")).to_contain_text("physics", timeout=LIMIT)
    expect(page.locator("#lost")).to_contain_text("The dashboard itself doesn't answer.", timeout=LIMIT)
    page.close()
