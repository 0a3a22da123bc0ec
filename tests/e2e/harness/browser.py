# SPDX-License-Identifier: BSD-3-Clause
"""A headless Chromium that chromedriver controls by the WebDriver protocol
(https://www.w3.org/TR/webdriver2/) and by DevTools' protocol."""

import base64
import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request

import pytest

from .scrape import where
from .wait import until

ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--disable-features=OptimizationHints,Translate,MediaRouter"]


# Runs BODY now and after each change of the page, until it returns something true.
WAIT = """
const args = arguments;
return new Promise((resolve, reject) => {
  const observer = new MutationObserver(check);
  function check() {
    try {
      const result = (function () { BODY }).apply(null, args);
      if (!result) return;
      resolve(result);
    } catch (error) {
      reject(error);
    }
    observer.disconnect();
  }
  observer.observe(document, { attributes: true, characterData: true, childList: true, subtree: true });
  check();
});
"""


class BrowserError(Exception):
    pass


class Browser:
    """Opens a page by `open()`, runs JavaScript in it by `run()`, and returns the page's requests
    and console."""

    def __enter__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="browser-"))
        self.log = (self.dir / "log").open("wb")
        self.process = subprocess.Popen(["chromedriver", "--port=0"], stdout=self.log, stderr=subprocess.STDOUT)
        try:
            self.session = f"http://127.0.0.1:{self._port()}/session"
            options = {"args": [*ARGUMENTS, f"--user-data-dir={self.dir}/profile"],
                       "perfLoggingPrefs": {"enableNetwork": True, "enablePage": False}}
            found = self._call("POST", "", {"capabilities": {"alwaysMatch": {
                "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
            self.session += f"/{found['sessionId']}"
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        with contextlib.suppress(BrowserError, OSError):
            self._call("DELETE", "")
        self.process.terminate()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def _port(self):
        def told():
            return re.search(r"started successfully on port (\d+)", (self.dir / "log").read_text())
        until(told, "chromedriver to listen")
        return told()[1]

    def _call(self, method, path, body=None):
        data = json.dumps(body or {}).encode() if method == "POST" else None
        request = urllib.request.Request(self.session + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as e:
            raise BrowserError(e.read().decode()) from None

    def devtools(self, command, **arguments):
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": arguments})

    def emulate(self, width, height=900, theme="light"):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def open(self, url):
        self._call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """Runs the body of a function in the page, and returns its result."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, what, script, *arguments):
        """Waits until the body of a function returns something true, and returns that. The function
        runs after each change of the page, because polling takes much more CPU."""
        try:
            return self.run(WAIT.replace("BODY", script), *arguments)
        except BrowserError as error:
            raise TimeoutError(f"waited for {what}: {error}") from None

    def shows(self, selector, text):
        """Waits until the elements that the selector finds contain the text, as text() returns it."""
        self.wait(f"{selector} to show {text}",
                  "return [...document.querySelectorAll(arguments[0])]"
                  ".some((n) => n.innerText.replace(/\\s+/g, ' ').includes(arguments[1]))", selector, text)

    def click(self, selector):
        """Clicks with the mouse, as a user does."""
        found = self._call("POST", "/element", {"using": "css selector", "value": selector})
        self._call("POST", f"/element/{next(iter(found.values()))}/click")

    def text(self, selector):
        """Returns the text of all elements that the selector finds, as a reader sees it, with one
        blank between words."""
        return self.run("return [...document.querySelectorAll(arguments[0])]"
                        ".map((n) => n.innerText.replace(/\\s+/g, ' ').trim())", selector)

    def screenshot(self, path):
        whole = self.devtools("Page.captureScreenshot", captureBeyondViewport=True)
        pathlib.Path(path).write_bytes(base64.b64decode(whole["data"]))

    def console(self):
        """Returns the console's lines since the last call; they include failed requests."""
        return [entry["message"] for entry in self._call("POST", "/se/log", {"type": "browser"})]

    def requests(self):
        """Returns the addresses requested over the network since the last call."""
        events = [json.loads(entry["message"])["message"] for entry in self._call("POST", "/se/log", {"type": "performance"})]
        urls = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in urls if re.match("(http|ws)s?:", url)]


@pytest.fixture(scope="module")
def browser():
    with Browser() as browser:
        yield browser


@pytest.fixture
def show(browser):
    """show(hasp) opens hasp's page. When the test ends, the page must have sent requests only to
    hasp, and its console must be empty."""
    origins = []

    def show(hasp, **how):
        origins.append(f"http://127.0.0.1:{where(hasp)}/")
        browser.emulate(**{"width": 1440, **how})
        browser.open(origins[-1])
        browser.wait("the page to be filled", "return document.querySelector('#state-text').innerText != 'asking'")

    browser.console(), browser.requests()
    yield show
    complaints = browser.console()
    asked = browser.requests()
    browser.open("about:blank")
    assert complaints == []
    assert asked and [url for url in asked if not url.startswith(tuple(origins))] == []
