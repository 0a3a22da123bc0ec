# SPDX-License-Identifier: BSD-3-Clause
"""The status page in a real browser: its content and look, how it shows hostile data, and the
findings of discovery, on the page and as a file."""

import contextlib
import http.client
import json
import os
import subprocess

import pytest
from harness import until
from harness.browser import browser, show  # noqa: F401: pytest finds them here
from harness.discovering import Discovering, Found
from harness.processes import free_port
from harness.replies import NIL, OK, ONE, ZERO
from harness.resp import encode
from harness.scrape import HTTP, ask, where
from harness.sections import rule, section

JOBS = section("lock jobs", {"pattern": "job:*", "wait": "60s", "lease": "60s"})
HTML = "<img src=x onerror=\"document.title=1\"><script></script>"

# The contrast of two colours of the page, by https://www.w3.org/TR/WCAG21/#dfn-contrast-ratio.
CONTRAST = """
const [text, ground] = [...arguments].map((name) => {
  const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim().slice(1);
  const [r, g, b] = [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255)
    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
});
return (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
"""


def test_locks_and_waiters_appear_and_go(start_hasp, browser, show):
    hasp = start_hasp(JOBS + HTTP, workers=2).is_up(2)
    show(hasp)
    browser.shows("#locks-none", "No lock is held.")
    browser.shows("#waiters-none", "Nobody waits.")
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("CLIENT", "SETNAME", "billing-7") == OK
        assert other.call("CLIENT", "SETNAME", "nightly") == OK
        assert one.call("SETNX", "job:a", "1") == ONE
        other.send(encode("SETNX", "job:a", "2"))
        browser.shows("#locks-rows tr", "job:a jobs billing-7")
        browser.shows("#waiters-rows tr", "nightly")
        browser.shows("#contended-rows tr", "job:a 0 1")
        assert one.call("DEL", "job:a") == ONE
        assert other.read() == ONE
        browser.shows("#waiters-none", "Nobody waits.")
        browser.shows("#locks-rows tr", "job:a jobs nightly")
        assert other.call("DEL", "job:a") == ONE
        browser.shows("#locks-none", "No lock is held.")
    browser.shows("#rules-rows tr", "jobs lock")


def test_held_locks_are_unknown_while_redis_does_not_answer(start_hasp, redis_server, browser, show):
    hasp = start_hasp(JOBS + HTTP).is_up()
    show(hasp)
    browser.shows("#locks-none", "No lock is held.")
    with redis_server.frozen():
        browser.shows("#locks-none", "Held locks are unknown: Redis does not answer.")
        assert "No lock is held" not in "".join(browser.text("#locks"))
    browser.shows("#locks-none", "No lock is held.")


def test_locks_that_hasp_knew_last_are_marked_so_while_redis_does_not_answer(start_hasp, redis_server, browser, show):
    hasp = start_hasp(JOBS + HTTP).is_up()
    with hasp.connect() as one:
        assert one.call("SETNX", "job:a", "1") == ONE
        show(hasp)
        browser.shows("#locks-rows tr", "job:a jobs")
        with redis_server.frozen():
            browser.shows("#locks-more", "as hasp knew them last")
        browser.wait("Redis to answer", "return document.querySelector('#locks-more').innerText == ''")


def test_columns_are_sorted_by_a_click_on_their_titles(start_hasp, browser, show):
    hasp = start_hasp(JOBS + HTTP).is_up()
    with hasp.connect() as one, hasp.connect() as two, hasp.connect() as waiter:
        assert one.call("SETNX", "job:b", "1") == ONE
        assert two.call("SETNX", "job:a", "1") == ONE
        waiter.send(encode("SETNX", "job:a", "2"))
        show(hasp)
        browser.shows("#waiters-rows tr", "job:a")
        for title, order, keys in [("key", "ascending", ["job:a", "job:b"]), ("key", "descending", ["job:b", "job:a"]),
                                   ("waiters", "descending", ["job:a", "job:b"]),
                                   ("waiters", "ascending", ["job:b", "job:a"]),
                                   ("since_ms", "descending", ["job:b", "job:a"])]:
            browser.click(f"#locks th[data-by={title}] button")
            assert [text.split(" ")[0] for text in browser.text("#locks-rows tr")] == keys, (title, order)
            assert browser.run("return [...document.querySelectorAll('#locks th[aria-sort]')]"
                               ".map((n) => [n.dataset.by, n.getAttribute('aria-sort')])") == [[title, order]]


def test_waiter_has_a_link_to_the_holder_of_its_lock(start_hasp, browser, show):
    hasp = start_hasp(JOBS + HTTP).is_up()
    with hasp.connect() as one, hasp.connect() as other:
        one.call("CLIENT", "SETNAME", "billing-7")
        assert one.call("SETNX", "job:b", "1") == ONE and one.call("SETNX", "job:a", "1") == ONE
        other.send(encode("SETNX", "job:a", "2"))
        for width in 360, 1440:
            show(hasp, width=width)
            browser.shows("#waiters-rows tr", "held by billing-7")
            browser.click("#waiters-rows a")
            assert browser.run("return document.activeElement.innerText").startswith("job:a")
            assert [text.split(" ")[0] for text in browser.text("#locks-rows tr.marked")] == ["job:a"]


def test_bar_of_a_renewed_lock_is_what_is_left_of_max_hold(start_hasp, browser, show):
    hasp = start_hasp(section("lock jobs", {"pattern": "job:*", "lease": "60s", "max_hold": "1h", "renew": "yes"}) +
                      section("lock for-ever", {"pattern": "ever:*", "max_hold": "0", "renew": "yes"}) +
                      section("lock short", {"pattern": "short:*", "lease": "1h", "renew": "no"}) + HTTP)
    with hasp.connect() as one:
        for key in "job:a", "ever:a", "short:a":
            assert one.call("SETNX", key, "1") == ONE
        show(hasp)
        browser.shows("#locks-rows tr", "renewed for 59 min at most")
        bars = browser.run("return Object.fromEntries([...document.querySelectorAll('#locks-rows tr')].map((tr) => "
                           "[tr.querySelector('.key').innerText, [tr.querySelector('.lease').innerText,"
                           " Number(tr.querySelector('rect').getAttribute('width'))]]))")
        assert "renewed for" not in bars["ever:a"][0] and bars["ever:a"][1] == 100
        assert "renewed" not in bars["short:a"][0] and 90 < bars["short:a"][1] <= 100
        assert 90 < bars["job:a"][1] <= 100


def test_graphs_move(start_hasp, browser, show):
    hasp = start_hasp(rule() + HTTP)
    show(hasp)

    lines = "[...document.querySelectorAll('path.line')].map((n) => n.getAttribute('d'))"
    before = browser.wait("each graph but that of waiting to have a line",
                          f"const lines = {lines}; return lines.filter(Boolean).length >= 6 && lines")
    with hasp.connect() as one:
        for _ in range(20):
            assert one.call("SET", "lock:a", "1", "NX") in (OK, NIL)
        browser.wait("all lines to move", f"const lines = {lines};"
                     " return arguments[0].every((line, n) => !line || line != lines[n])", before)
        assert "taken" in browser.run("return document.querySelectorAll('.plot svg')[1].getAttribute('aria-label')")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_fits_narrow_and_wide_screens_and_can_be_read(start_hasp, browser, show, theme):
    hasp = start_hasp(JOBS + rule("a-rule-with-a-name-that-is-long") + HTTP).is_up()
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("CLIENT", "SETNAME", "x" * 300) == OK
        assert one.call("SET", "lock:" + "long" * 100, "1", "NX") == OK
        assert one.call("SETNX", "job:" + "long" * 100, "1") == ONE
        other.send(encode("SETNX", "job:" + "long" * 100, "2"))
        for width in 1440, 360:
            show(hasp, width=width, theme=theme)
            browser.shows("#waiters-rows tr", "longlong")
            assert browser.run("return document.documentElement.scrollWidth") <= width
            assert browser.run("return [...document.querySelectorAll('.panel')].every("
                               "(n) => n.hidden || n.getBoundingClientRect().right <= innerWidth)")
        is_dark = browser.run("return matchMedia('(prefers-color-scheme: dark)').matches")
        assert is_dark == (theme == "dark")
        for text in "--ink", "--dim", "--blue", "--red", "--amber", "--green":
            for ground in "--panel", "--bg", "--soft":
                assert (text, ground, browser.run(CONTRAST, text, ground)) > (text, ground, 4.5)


def test_prevented_harm_has_a_column_of_its_own(start_hasp, browser, show):
    hasp = start_hasp(rule() + HTTP)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", "lock:a", "1", "NX") == OK
        assert other.call("SET", "lock:a", "1", "NX") == NIL
        assert other.call("DEL", "lock:a") == ZERO
        assert other.call("SET", "lock:a", "2").startswith(b"-LOCKED ")
    show(hasp)
    titles = browser.run("return [...document.querySelectorAll('#rules thead th')].map((n) => n.textContent)")
    browser.shows("#rules-rows tr", "locks")
    cells = browser.run("return [...document.querySelectorAll('#rules-rows tr')[0].cells].map((n) => n.textContent.trim())")
    assert [cells[titles.index(title)] for title in ("Taken", "Refused", "Prevented", "Lost")] == ["1", "1", "2", "0"]


def test_observed_rules_show_in_brackets_what_would_have_been_prevented(start_hasp, browser, show):
    hasp = start_hasp(rule(mode="observe") + HTTP)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", "lock:a", "1", "NX", "PX", "60000") == OK
        assert other.call("SET", "lock:a", "2", "PX", "60000") == OK
    show(hasp)
    browser.shows("#rules-rows tr", "observing")
    prevented, title = browser.run("const td = [...document.querySelectorAll('#rules-rows td')]"
                                   ".find((n) => n.title); return [td.textContent, td.title]")
    assert (prevented, title) == ("(1)", "mode = enforce would have prevented these events")


def test_locks_come_first_on_a_narrow_screen_and_keys_are_cut_in_the_middle(start_hasp, browser, show):
    hasp = start_hasp(JOBS + HTTP)
    key = "job:" + "long" * 40 + ":the-end"
    with hasp.connect() as one:
        assert one.call("SETNX", key, "1") == ONE
        for width in 1440, 360:
            show(hasp, width=width)
            browser.shows("#locks-rows tr", ":the-end")
            browser.shows("#locks-rows tr", "job:long")
            browser.shows("#locks-rows tr", "long…")
            # The cell is high enough for the whole key.
            assert browser.run("const n = document.querySelector('#locks-rows .key');"
                               " return n.scrollHeight <= n.clientHeight")
        first = browser.run("return [...document.querySelectorAll('main > :not([hidden])')]"
                            ".sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)[0].id")
        assert first == "live"


def test_html_in_a_key_or_a_name_is_text(start_hasp, browser, show):
    hasp = start_hasp(rule() + HTTP)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("CLIENT", "SETNAME", HTML.replace(" ", "/")) == OK
        assert one.call("SET", "lock:" + HTML, "1", "NX") == OK
        assert other.call("SET", "lock:" + HTML, "1", "NX") == NIL
        show(hasp)
        browser.shows("#locks-rows tr", "lock:" + HTML)
        browser.shows("#locks-rows tr", HTML.replace(" ", "/"))
        browser.shows("#contended-rows tr", "lock:" + HTML)
        assert browser.run("return document.querySelectorAll('main img, main script').length") == 0
        assert browser.run("return document.title") == "hasp"


def test_bytes_that_cannot_be_seen_are_shown(start_hasp, browser, show):
    hasp = start_hasp(rule() + HTTP)
    with hasp.connect() as one:
        assert one.call("SET", b"lock:\0\n\xff\xe2\x80\xae\xe9\x8d\xb5", "1", "NX") == OK
        show(hasp)
        browser.shows("#locks-rows tr", "lock:\\x00\\x0a�\\u202e鍵")


def test_without_rules_it_says_what_to_do_and_that_helps(start_hasp, browser, show):
    hasp = start_hasp(HTTP)
    for width in 360, 1440:
        show(hasp, width=width)
        browser.shows("#next h2", "No rules yet")
        assert browser.run("return document.documentElement.scrollWidth") <= width
    advice = browser.run("return [...document.querySelectorAll('#next pre')].map((n) => n.textContent).join('\\n')")
    assert browser.run("return document.querySelector('#rules').hidden")
    hasp.reload(HTTP, f"{HTTP}{advice}\n")
    browser.shows("#rules-rows tr", "orders")
    browser.shows("#rules-rows tr", "stock")
    assert browser.run("return document.querySelector('#next').hidden")


def test_it_goes_on_when_hasp_is_there_again(start_hasp, browser, show):
    text = rule() + f"[http]\nlisten = 127.0.0.1:{free_port()}\n"
    hasp = start_hasp(text)
    show(hasp)
    browser.shows("#state-text", "serving")
    hasp.signal(15)
    until(lambda: not hasp.running(), "hasp to leave")
    browser.shows("#state-text", "no answer since")
    browser.shows("#rules-rows tr", "locks")
    start_hasp(text)
    browser.shows("#state-text", "serving")
    assert all("ERR_CONNECTION" in line for line in browser.console())


def test_it_can_be_paused_and_filtered_by_the_keyboard(start_hasp, browser, show):
    hasp = start_hasp(rule() + HTTP)
    with hasp.connect() as one:
        assert one.call("SET", "lock:a", "1", "NX") == OK
        assert one.call("SET", "lock:b", "1", "NX") == OK
        show(hasp)
        browser.shows("#locks-rows tr", "lock:b")
        browser.run("const f = document.querySelector('#filter'); f.value = 'LOCK:B'; f.dispatchEvent(new Event('input'))")
        assert [text.split(" ")[0] for text in browser.text("#locks-rows tr")] == ["lock:b"]
        browser.run("const b = document.querySelector('#pause'); b.focus(); b.click()")
        browser.shows("#state-text", "view frozen")
        assert browser.run("return document.activeElement.getAttribute('aria-pressed')") == "true"


# --- what hasp discovers --------------------------------------------------------------------

NAME = "<img/src=x/onerror=document.title=name>"


def naive(hasp, key):
    one, other = hasp.client(), hasp.client()
    assert one.set(key, "v", nx=True, ex=10)
    assert not other.set(key, "v", nx=True, ex=10)
    assert one.delete(key)


def accepted(text, path):
    """Checks that hasp -t accepts the configuration `text`, and returns it parsed."""
    path.write_text(text)
    subprocess.run([os.environ["HASP"], "-t", "-q", path], check=True)
    return Found(text)


def discovered(hasp):
    return json.loads(ask(hasp, "/status.json")[1])["discover"]


def test_file_has_what_was_found_so_far_and_is_not_older_than_what_it_took(start_hasp, tmp_path):
    hasp = start_hasp(HTTP + "[discover]\n").is_up()
    naive(hasp, "lock:first")
    reply, text = ask(hasp, "/discovered.ini")
    assert (reply.status, reply.getheader("Content-Type")) == (200, "text/plain; charset=utf-8")
    assert list(accepted(text, tmp_path / "found.ini").sections) == ["lock first"]
    naive(hasp, "lock:second")
    until(lambda: "[lock second]" in ask(hasp, "/discovered.ini")[1], "the new section in a newer file")


def test_status_tells_how_far_it_is(start_hasp):
    hasp = start_hasp(HTTP + "[discover]\n").is_up()
    naive(hasp, "lock:first")
    hasp.client().set("page:7", "text")
    found = until(lambda: (d := discovered(hasp))["commands"] == 4 and d, "hasp to count four commands")
    assert {name: found[name] for name in ("patterns", "locks", "values", "harm")} == {
        "patterns": 2, "locks": 1, "values": 0, "harm": 0}
    assert found["seconds"] >= 0


def test_without_discovery_there_is_no_file_and_a_reload_brings_it(start_hasp):
    hasp = start_hasp(HTTP + ";DISCOVER").is_up()
    reply, text = ask(hasp, "/discovered.ini")
    assert reply.status == 404
    assert "hasp does not discover" in text
    assert discovered(hasp) is None
    hasp.reload(";DISCOVER", "[discover]")
    assert ask(hasp, "/discovered.ini")[0].status == 200
    until(lambda: discovered(hasp), "a status that is not older than a second")
    hasp.reload("[discover]", ";DISCOVER")
    assert ask(hasp, "/discovered.ini")[0].status == 404


def test_file_is_not_told_to_a_page_of_a_stranger(start_hasp):
    hasp = start_hasp(HTTP + "[discover]\n").is_up()
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", where(hasp), timeout=60)) as c:
        c.request("GET", "/discovered.ini", headers={"Host": "stranger.example"})
        assert c.getresponse().status == 421


def is_hidden(browser, selector):
    return browser.run("return document.querySelector(arguments[0]).hidden", selector)


def asked(browser):
    """Returns how often the page has requested /status.json, which it does twice as often as
    findings."""
    return browser.run("return performance.getEntriesByType('resource').filter((e) => e.name.endsWith('/status.json')).length")


def clipboard(browser):
    browser.devtools("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    return browser.run("return navigator.clipboard.readText()")


def test_page_shows_what_was_found_and_how_far_it_is_and_copies_it(start_hasp, browser, show, tmp_path):
    hasp = start_hasp(HTTP + "[discover]\n").is_up()
    show(hasp)
    browser.shows("#discovered h2", "Proposed rules")
    assert is_hidden(browser, "#next")
    naive(hasp, "lock:first")
    browser.shows("#discovered-progress", "3 commands, 1 pattern of keys: 1 kind of locks")
    browser.shows("#discovered-text", "[lock first] pattern = lock:first")
    browser.click("#copy")
    browser.shows("#copied", "Copied.")
    assert list(accepted(clipboard(browser), tmp_path / "copied.ini").sections) == ["lock first"]


def test_page_of_a_browser_without_a_clipboard_copies_as_well(start_hasp, browser, show):
    """Browsers offer navigator.clipboard only to HTTPS and localhost."""
    hasp = start_hasp(HTTP + "[discover]\n").is_up()
    naive(hasp, "lock:plain")
    show(hasp)
    browser.shows("#discovered-text", "[lock plain]")
    browser.run("navigator.clipboard.writeText = () => Promise.reject(new Error('not here'))")
    browser.click("#copy")
    browser.shows("#copied", "Copied.")
    assert "[lock plain]" in clipboard(browser)
    assert browser.run("return document.querySelectorAll('textarea').length") == 0


def test_what_is_selected_stays_until_it_is_no_more(start_hasp, browser, show):
    hasp = start_hasp(HTTP + "[discover]\n").is_up()
    naive(hasp, "lock:first")
    show(hasp)
    browser.shows("#discovered-text", "[lock first]")
    browser.run("getSelection().selectAllChildren(document.querySelector('#discovered-text'))")
    naive(hasp, "lock:second")
    browser.shows("#discovered-progress", "6 commands")
    rounds = asked(browser)
    until(lambda: asked(browser) > rounds + 3, "the page to request the status several times")
    assert browser.run("return getSelection().toString()").startswith("; hasp watched")
    assert "[lock second]" not in browser.text("#discovered-text")[0]
    browser.run("getSelection().removeAllRanges()")
    browser.shows("#discovered-text", "[lock second]")


def test_page_without_discovery_hints_at_it_and_a_reload_shows_it(start_hasp, browser, show):
    hasp = start_hasp(HTTP + ";DISCOVER").is_up()
    show(hasp)
    browser.shows("#next", "With a section [discover] hasp watches")
    assert is_hidden(browser, "#discovered")
    hasp.reload(";DISCOVER", "[discover]")
    browser.shows("#discovered-text", "; hasp watched")
    hasp.reload("[discover]", ";DISCOVER")
    browser.wait("the findings to disappear", "return document.querySelector('#discovered').hidden")


def test_names_are_text_and_it_fits(start_hasp, browser, show):
    hasp = start_hasp(HTTP + "[discover]\n").is_up()
    for key in (f"lock:{NAME}", "mutex:a\u202eb", "long" * 40 + ":lock"):
        naive(hasp, key)
    for width in 360, 1440:
        show(hasp, width=width)
        browser.shows("#discovered-text", f"pattern = lock:{NAME}")
        # hasp replaces the control character that reverses the text's direction.
        assert "pattern = mutex:a*b" in browser.text("#discovered-text")[0]
        assert browser.run("return document.querySelectorAll('main img').length") == 0
        assert browser.run("return document.title") == "hasp"
        assert browser.run("return document.documentElement.scrollWidth") <= width


def test_hasp_that_only_discovers_shows_it_too(redis_server, browser, show):
    hasp = Discovering(redis_server, HTTP)
    try:
        until(lambda: "listening_http address=" in hasp.log, "hasp to serve the page")
        naive(hasp, "lock:first")
        show(hasp)
        browser.shows("#discovered-text", "[upstream] address = unix:")
        assert "[lock first]" in browser.text("#discovered-text")[0]
    finally:
        hasp.kill()
        hasp.remove()
