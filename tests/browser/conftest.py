"""The approver's page in a real browser, over a waiter and a service on the in-process bus, all in this process."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest
from selenium.webdriver import Chrome

from fourgates.approval.service.app import build_app
from fourgates.approval.service.settings import DevelopmentUser, ServiceSettings
from support.approver import ports_of, token
from support.browser import WIDE, OpenTab, Tab, chromium, missing
from support.serving import served
from support.waiting import Waiting

USERS = tuple(DevelopmentUser(name=name, label="finance") for name in ("ben", "dora", "anna"))


@pytest.fixture(scope="session")
def driver() -> Iterator[Chrome]:
    """One browser for all tests."""
    if (reason := missing()) is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"the tests in a browser must run here: {reason}")
        pytest.skip(reason)
    with chromium() as running:
        yield running


@pytest.fixture
async def world() -> Waiting:
    return Waiting()


@pytest.fixture
async def address(world: Waiting) -> AsyncIterator[str]:
    """The service, as ben, dora and anna reach it; the waiter beside it is the test's."""
    app = build_app(ports_of(world), ServiceSettings(development_users=USERS), lambda name: token(world, name))
    async with served(app) as base, app.router.lifespan_context(app):
        yield base


@pytest.fixture
async def tab(driver: Chrome, address: str) -> AsyncIterator[OpenTab]:
    """Opens a tab as somebody who has signed in; `host` keeps two persons' cookies apart. All are closed at the end."""
    first = driver.current_window_handle
    opened: list[str] = []
    driver.get_log("browser")  # what earlier tests were told is not ours

    async def open_tab(who: str = "ben", path: str = "/", *, host: str = "127.0.0.1", size: tuple[int, int] = WIDE) -> Tab:
        driver.switch_to.new_window("tab")
        opened.append(driver.current_window_handle)
        Tab.front = opened[-1]
        made = Tab(driver, address.replace("127.0.0.1", host), opened[-1])
        await made.size(*size)
        await made.open(path)
        if (await made.path()).startswith("/signin") and who:
            await made.click(f"button[value={who}]")
            await made.find("#live")
        return made

    yield open_tab
    driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
    for handle in opened:
        driver.switch_to.window(handle)
        driver.close()
    driver.switch_to.window(first)
    Tab.front = first
