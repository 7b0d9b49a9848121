"""A real Chromium for the tests of the page: one process for all of them, a clean tab for each person."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions, Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

ROOT = Path(__file__).resolve().parents[2]
SCREENS = ROOT / "build" / "screens"
AXE = ROOT / "build" / "npm" / "node_modules" / "axe-core" / "axe.min.js"
WIDE, PHONE = (1440, 900), (360, 740)
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--lang=en-GB",
    "--force-color-profile=srgb",
)  # fmt: skip


def missing() -> str | None:
    """Why no browser can be driven here; None where one can."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        return "chromium and chromedriver are not installed: `make system`"
    if not AXE.exists():
        return "axe-core is not installed: `make system`"
    return None


@contextmanager
def chromium() -> Iterator[Chrome]:
    """A running browser."""
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in _FLAGS:
        options.add_argument(flag)
    driver = Chrome(options, Service(shutil.which("chromedriver"), env={**os.environ, "TZ": "UTC"}))
    try:
        yield driver
    finally:
        driver.quit()


class Tab:
    """One tab of the browser. Everything happens in a thread, so that the service in this process can answer."""

    front = ""
    """Handle of the tab that the driver speaks to now: one driver, so one for all."""

    def __init__(self, driver: Chrome, base: str, handle: str) -> None:
        self._driver, self._base, self._handle = driver, base, handle

    async def _do(self, what: Any, *arguments: Any) -> Any:
        def here() -> Any:
            if Tab.front != self._handle:
                self._driver.switch_to.window(self._handle)
                Tab.front = self._handle
            return what(*arguments)

        return await asyncio.to_thread(here)

    async def open(self, path: str) -> None:
        await self._do(self._driver.get, self._base + path)

    async def path(self) -> str:
        return str(await self._do(lambda: self._driver.current_url)).removeprefix(self._base)

    async def size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        await self._do(self._driver.execute_cdp_cmd, "Emulation.setDeviceMetricsOverride", metrics)

    async def scheme(self, name: str) -> None:
        """`dark` or `light`."""
        media = {"features": [{"name": "prefers-color-scheme", "value": name}]}
        await self._do(self._driver.execute_cdp_cmd, "Emulation.setEmulatedMedia", media)

    async def script(self, text: str, *arguments: Any) -> Any:
        return await self._do(self._driver.execute_script, text, *arguments)

    async def find(self, css: str, seconds: float = 10) -> WebElement:
        """The first element that fits and is there, waited for."""
        return await self._do(lambda: WebDriverWait(self._driver, seconds, 0.05).until(
            lambda driver: next(iter(driver.find_elements(By.CSS_SELECTOR, css)), None), f"nothing fits {css}"
        ))  # fmt: skip

    async def count(self, css: str) -> int:
        return len(await self._do(self._driver.find_elements, By.CSS_SELECTOR, css))

    async def text(self, css: str = "body") -> str:
        """What a reader sees of it."""
        element = await self.find(css)
        return " ".join(str(await self._do(lambda: element.text)).split())

    async def click(self, css: str) -> None:
        element = await self.find(css)
        await self._do(element.click)

    async def fill(self, css: str, text: str) -> None:
        element = await self.find(css)
        await self._do(element.send_keys, text)

    async def keys(self, *keys: str) -> None:
        """To whatever has the focus."""
        await self._do(lambda: self._driver.switch_to.active_element.send_keys(*keys))

    async def focused(self) -> str:
        """The accessible name of what has the focus, with its role."""
        return str(await self._do(lambda: _named(self._driver.switch_to.active_element)))

    async def shows(self, words: str, css: str = "body", seconds: float = 10) -> None:
        """Returns once a reader sees these words there."""

        def seen(driver: Chrome) -> bool:
            try:
                texts = [element.text for element in driver.find_elements(By.CSS_SELECTOR, css)]
            except StaleElementReferenceException:
                return False
            return any(words in " ".join(text.split()) for text in texts)

        await self._do(lambda: WebDriverWait(self._driver, seconds, 0.05).until(seen, f"{css} does not show {words!r}"))

    async def gone(self, css: str, seconds: float = 10) -> None:
        """Returns once nothing fits any more."""
        await self._do(lambda: WebDriverWait(self._driver, seconds, 0.05).until(
            lambda driver: not driver.find_elements(By.CSS_SELECTOR, css), f"{css} is still there"
        ))  # fmt: skip

    async def screenshot(self, name: str) -> None:
        """The whole page, into build/screens."""
        SCREENS.mkdir(parents=True, exist_ok=True)
        width, height = await self.script("return [innerWidth, Math.max(innerHeight, document.documentElement.scrollHeight)]")
        shot = {"captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}
        found = await self._do(self._driver.execute_cdp_cmd, "Page.captureScreenshot", shot)
        (SCREENS / f"{name}.png").write_bytes(_decoded(found["data"]))

    async def block_scripts(self) -> None:
        """From now on no script is loaded."""
        await self._do(self._driver.execute_cdp_cmd, "Network.enable", {})
        await self._do(self._driver.execute_cdp_cmd, "Network.setBlockedURLs", {"urls": ["*.js"]})

    async def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        return int(await self.script("return document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    async def bring_axe(self) -> None:
        """axe-core comes with every page from now on: sending it to each takes longer than its look."""
        await self._do(self._driver.execute_cdp_cmd, "Page.addScriptToEvaluateOnNewDocument", {"source": _axe()})

    async def axe(self) -> list[str]:
        """What axe-core finds serious or critical: rule and elements."""
        if not await self.script("return 'axe' in window"):
            await self.script(_axe())
        found = await self._do(self._driver.execute_async_script, _RUN_AXE)
        return [json.dumps(one) for one in found]

    async def complaints(self) -> list[str]:
        """What the browser's console says of scripts, policies and failed loads."""
        return [str(line["message"]) for line in await self._do(self._driver.get_log, "browser")]


OpenTab = Callable[..., Awaitable[Tab]]
"""The fixture `tab`: who signs in, the path, `host`, `size`."""

_RUN_AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => done(violations
  .filter(({impact}) => ["serious", "critical"].includes(impact))
  .map(({id, impact, nodes}) => ({id, impact, nodes: nodes.map(({html, failureSummary}) => [html, failureSummary])}))));
"""


def _named(element: WebElement) -> str:
    return f"{element.aria_role} {' '.join(element.accessible_name.split())}".strip()


def _decoded(data: str) -> bytes:
    return base64.b64decode(data)


@cache
def _axe() -> str:
    return AXE.read_text(encoding="utf-8")


TAB, ENTER, SPACE, DOWN, UP = Keys.TAB, Keys.ENTER, Keys.SPACE, Keys.ARROW_DOWN, Keys.ARROW_UP
