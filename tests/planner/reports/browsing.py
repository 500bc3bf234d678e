"""A real browser for tests: Debian's Chromium with an empty profile, and what it asked of the network."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

LAPTOP, PHONE = (1366, 768), (390, 844)
FLAGS = (
    "headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
    "disable-component-update", "disable-sync",
)  # fmt: skip

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")


class Browser:
    """Chromium without a window."""

    def __init__(self) -> None:
        self.profile = tempfile.mkdtemp(prefix="gangplan-chromium-")
        options = Options()
        options.binary_location = str(CHROMIUM)
        for flag in (*FLAGS, f"user-data-dir={self.profile}"):
            options.add_argument(f"--{flag}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))

    def close(self) -> None:
        """End the browser and forget its profile."""
        self.driver.quit()
        shutil.rmtree(self.profile, ignore_errors=True)

    def open(self, path: Path, size: tuple[int, int] = LAPTOP, theme: str = "light") -> None:
        """Open a file from disk; what was logged before is forgotten."""
        self.complaints()
        self.requests()
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        wish = [{"name": "prefers-color-scheme", "value": theme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": wish})
        self.driver.get(path.absolute().as_uri())

    def run(self, script: str, *args: Any) -> Any:
        """Run a script as the tester, whom the page's policy does not bind, and return what it returns."""
        return self.driver.execute_script(script, *args)

    def find(self, selector: str) -> WebElement:
        """Return the first element."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        """Return all elements."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def until(self, script: str) -> None:
        """Wait until a script returns something true; ten seconds at most."""
        WebDriverWait(self.driver, 10, poll_frequency=0.05).until(lambda _: self.run(f"return {script}"))

    def scroll_through(self) -> None:
        """Scroll to the end, so that everything is drawn."""
        self.until("document.readyState === 'complete'")
        plots = "[...document.querySelectorAll('.plot')]"
        for i in range(int(self.run(f"return {plots}.length"))):
            self.run(f"{plots}[{i}].scrollIntoView()")
            self.until(f"{plots}[{i}].dataset.drawn === 'yes'")

    def complaints(self) -> list[str]:
        """Return all warnings and errors of the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] != "INFO"]

    def requests(self) -> list[str]:
        """Return the addresses of all requests since the last call that left this machine's disk."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith(("file:", "data:", "blob:"))]
