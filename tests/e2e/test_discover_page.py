# SPDX-License-Identifier: BSD-3-Clause
"""Findings over HTTP: a file to save, the progress, and the status page in a real browser."""

import contextlib
import http.client
import json
import os
import subprocess

import pytest
from harness import until
from harness.browser import Browser
from harness.discovering import Discovering, Found
from harness.scrape import HTTP, ask, where

HTML = "<img/src=x/onerror=document.title=name>"


@pytest.fixture(scope="module")
def browser():
    with Browser() as browser:
        yield browser


@pytest.fixture
def show(browser):
    """show(hasp) opens its page. In the end it must have asked nobody else for anything, and have
    complained of nothing."""
    origins = []

    def show(hasp, width=1440):
        origins.append(f"http://127.0.0.1:{where(hasp)}/")
        browser.emulate(width=width)
        browser.open(origins[-1])
        until(lambda: browser.text("#state-text") == ["serving"], "the page to be filled")

    browser.console(), browser.requests()
    yield show
    complaints = browser.console()
    asked = browser.requests()
    browser.open("about:blank")
    assert complaints == []
    assert asked and [url for url in asked if not url.startswith(tuple(origins))] == []


def naive(hasp, key):
    one, other = hasp.client(), hasp.client()
    assert one.set(key, "v", nx=True, ex=10)
    assert not other.set(key, "v", nx=True, ex=10)
    assert one.delete(key)


def shows(browser, selector, text):
    until(lambda: text in "\n".join(browser.text(selector)), f"{selector} to show {text}")


def is_hidden(browser, selector):
    return browser.run("return document.querySelector(arguments[0]).hidden", selector)


def asked(browser):
    """Returns how often the page has requested the status; it requests findings every other
    time."""
    return browser.run("return performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/status.json')).length")


def clipboard(browser):
    browser.devtools("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    return browser.run("return navigator.clipboard.readText()")


def accepted(text, path):
    """What hasp takes it for."""
    path.write_text(text)
    subprocess.run([os.environ["HASP"], "-t", "-q", path], check=True)
    return Found(text)


def discover(hasp):
    return json.loads(ask(hasp, "/status.json")[1])["discover"]


# --- the file and the status ----------------------------------------------------------------


def test_file_has_what_was_found_so_far_and_is_not_older_than_what_it_took(start_hasp, tmp_path):
    hasp = start_hasp(HTTP + "[discover]\n").is_up()
    naive(hasp, "lock:first")
    reply, text = ask(hasp, "/discovered.ini")
    assert (reply.status, reply.getheader("Content-Type")) == (200, "text/plain; charset=utf-8")
    assert list(accepted(text, tmp_path / "found.ini").sections) == ["lock first"]
    naive(hasp, "lock:second")
    until(lambda: "[lock second]" in ask(hasp, "/discovered.ini")[1], "a newer one")


def test_status_tells_how_far_it_is(start_hasp):
    hasp = start_hasp(HTTP + "[discover]\n").is_up()
    naive(hasp, "lock:first")
    hasp.client().set("page:7", "text")
    found = until(lambda: (d := discover(hasp))["commands"] == 4 and d, "all commands")
    assert {name: found[name] for name in ("patterns", "locks", "values", "harm")} == {
        "patterns": 2, "locks": 1, "values": 0, "harm": 0}
    assert found["seconds"] >= 0


def test_without_discovery_there_is_no_file_and_a_reload_brings_it(start_hasp):
    hasp = start_hasp(HTTP + ";DISCOVER").is_up()
    reply, text = ask(hasp, "/discovered.ini")
    assert reply.status == 404
    assert "hasp does not discover" in text
    assert discover(hasp) is None
    hasp.reload(";DISCOVER", "[discover]")
    assert ask(hasp, "/discovered.ini")[0].status == 200
    until(lambda: discover(hasp), "the status, which is not asked for anew each time")
    hasp.reload("[discover]", ";DISCOVER")
    assert ask(hasp, "/discovered.ini")[0].status == 404


def test_file_is_not_told_to_a_page_of_a_stranger(start_hasp):
    hasp = start_hasp(HTTP + "[discover]\n").is_up()
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", where(hasp), timeout=60)) as c:
        c.request("GET", "/discovered.ini", headers={"Host": "stranger.example"})
        assert c.getresponse().status == 421


# --- the page -------------------------------------------------------------------------------


def test_page_shows_what_was_found_and_how_far_it_is_and_copies_it(start_hasp, browser, show, tmp_path):
    hasp = start_hasp(HTTP + "[discover]\n").is_up()
    show(hasp)
    shows(browser, "#discovered h2", "Proposed rules")
    assert is_hidden(browser, "#next")
    naive(hasp, "lock:first")
    shows(browser, "#discovered-progress", "3 commands, 1 pattern of keys: 1 kind of locks")
    shows(browser, "#discovered-text", "[lock first] pattern = lock:first")
    browser.click("#copy")
    shows(browser, "#copied", "Copied.")
    assert list(accepted(clipboard(browser), tmp_path / "copied.ini").sections) == ["lock first"]


def test_page_of_a_browser_without_a_clipboard_copies_as_well(start_hasp, browser, show):
    """A page from another host, over plain HTTP, has no clipboard either."""
    hasp = start_hasp(HTTP + "[discover]\n").is_up()
    naive(hasp, "lock:plain")
    show(hasp)
    shows(browser, "#discovered-text", "[lock plain]")
    browser.run("navigator.clipboard.writeText = () => Promise.reject(new Error('not here'))")
    browser.click("#copy")
    shows(browser, "#copied", "Copied.")
    assert "[lock plain]" in clipboard(browser)
    assert browser.run("return document.querySelectorAll('textarea').length") == 0


def test_what_is_selected_stays_until_it_is_no_more(start_hasp, browser, show):
    hasp = start_hasp(HTTP + "[discover]\n").is_up()
    naive(hasp, "lock:first")
    show(hasp)
    shows(browser, "#discovered-text", "[lock first]")
    browser.run("getSelection().selectAllChildren(document.querySelector('#discovered-text'))")
    naive(hasp, "lock:second")
    shows(browser, "#discovered-progress", "6 commands")
    rounds = asked(browser)
    until(lambda: asked(browser) > rounds + 3, "it to have asked anew meanwhile")
    assert browser.run("return getSelection().toString()").startswith("; hasp watched")
    assert "[lock second]" not in browser.text("#discovered-text")[0]
    browser.run("getSelection().removeAllRanges()")
    shows(browser, "#discovered-text", "[lock second]")


def test_page_without_discovery_hints_at_it_and_a_reload_shows_it(start_hasp, browser, show):
    hasp = start_hasp(HTTP + ";DISCOVER").is_up()
    show(hasp)
    shows(browser, "#next", "With a section [discover] hasp watches")
    assert is_hidden(browser, "#discovered")
    hasp.reload(";DISCOVER", "[discover]")
    shows(browser, "#discovered-text", "; hasp watched")
    hasp.reload("[discover]", ";DISCOVER")
    until(lambda: is_hidden(browser, "#discovered"), "it to go")


def test_names_are_text_and_it_fits(start_hasp, browser, show):
    hasp = start_hasp(HTTP + "[discover]\n").is_up()
    for key in (f"lock:{HTML}", "mutex:a\u202eb", "long" * 40 + ":lock"):
        naive(hasp, key)
    for width in 360, 1440:
        show(hasp, width)
        shows(browser, "#discovered-text", f"pattern = lock:{HTML}")
        assert "pattern = mutex:a*b" in browser.text("#discovered-text")[0]  # what turns a line around is not written
        assert browser.run("return document.querySelectorAll('main img').length") == 0
        assert browser.run("return document.title") == "hasp"
        assert browser.run("return document.documentElement.scrollWidth") <= width


def test_hasp_that_only_discovers_shows_it_too(redis_server, browser, show):
    hasp = Discovering(redis_server, HTTP)
    try:
        until(lambda: "listening_http address=" in hasp.log, "the page")
        naive(hasp, "lock:first")
        show(hasp)
        shows(browser, "#discovered-text", "[upstream] address = unix:")
        assert "[lock first]" in browser.text("#discovered-text")[0]
    finally:
        hasp.kill()
        hasp.remove()
