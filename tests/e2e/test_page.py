# SPDX-License-Identifier: BSD-3-Clause
"""The status page in a real browser: its content, its look, and its distrust of the data that it
shows."""

import pytest
from harness import until
from harness.browser import Browser
from harness.processes import free_port
from harness.replies import NIL, OK, ONE, ZERO
from harness.resp import encode
from harness.scrape import HTTP, where
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


@pytest.fixture(scope="module")
def browser():
    with Browser() as browser:
        yield browser


@pytest.fixture
def show(browser):
    """show(hasp) opens its page. In the end it must have asked nobody else for anything, and have
    complained of nothing."""
    origins = []

    def show(hasp, **how):
        origins.append(f"http://127.0.0.1:{where(hasp)}/")
        browser.emulate(**{"width": 1440, **how})
        browser.open(origins[-1])
        until(lambda: browser.text("#state-text") != ["asking"], "the page to be filled")

    browser.console(), browser.requests()
    yield show
    complaints = browser.console()
    asked = browser.requests()
    browser.open("about:blank")
    assert complaints == []
    assert [url for url in asked if not url.startswith(tuple(origins))] == []
    assert asked


def shows(browser, selector, text):
    until(lambda: text in "\n".join(browser.text(selector)), f"{selector} to show {text}")


def test_locks_and_waiters_appear_and_go(start_hasp, browser, show):
    hasp = start_hasp(JOBS + HTTP, workers=2).is_up(2)
    show(hasp)
    shows(browser, "#locks-none", "No lock is held.")
    shows(browser, "#waiters-none", "Nobody waits.")
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("CLIENT", "SETNAME", "billing-7") == OK
        assert other.call("CLIENT", "SETNAME", "nightly") == OK
        assert one.call("SETNX", "job:a", "1") == ONE
        other.send(encode("SETNX", "job:a", "2"))
        shows(browser, "#locks-rows tr", "job:a jobs billing-7")
        shows(browser, "#waiters-rows tr", "nightly")
        shows(browser, "#contended-rows tr", "job:a 0 1")
        assert one.call("DEL", "job:a") == ONE
        assert other.read() == ONE
        shows(browser, "#waiters-none", "Nobody waits.")
        shows(browser, "#locks-rows tr", "job:a jobs nightly")
        assert other.call("DEL", "job:a") == ONE
        shows(browser, "#locks-none", "No lock is held.")
    shows(browser, "#rules-rows tr", "jobs lock")


def test_held_locks_are_unknown_while_redis_does_not_answer(start_hasp, redis_server, browser, show):
    hasp = start_hasp(JOBS + HTTP).is_up()
    show(hasp)
    shows(browser, "#locks-none", "No lock is held.")
    with redis_server.frozen():
        shows(browser, "#locks-none", "Held locks are unknown: Redis does not answer.")
        assert "No lock is held" not in "".join(browser.text("#locks"))
    shows(browser, "#locks-none", "No lock is held.")


def test_locks_that_hasp_knew_last_are_marked_so_while_redis_does_not_answer(start_hasp, redis_server, browser, show):
    hasp = start_hasp(JOBS + HTTP).is_up()
    with hasp.connect() as one:
        assert one.call("SETNX", "job:a", "1") == ONE
        show(hasp)
        shows(browser, "#locks-rows tr", "job:a jobs")
        with redis_server.frozen():
            shows(browser, "#locks-more", "as hasp knew them last")
        until(lambda: browser.text("#locks-more") == [""], "Redis to answer")


def test_columns_are_sorted_by_a_click_on_their_titles(start_hasp, browser, show):
    hasp = start_hasp(JOBS + HTTP).is_up()
    with hasp.connect() as one, hasp.connect() as two, hasp.connect() as waiter:
        assert one.call("SETNX", "job:b", "1") == ONE
        assert two.call("SETNX", "job:a", "1") == ONE
        waiter.send(encode("SETNX", "job:a", "2"))
        show(hasp)
        shows(browser, "#waiters-rows tr", "job:a")
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
            shows(browser, "#waiters-rows tr", "held by billing-7")
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
        shows(browser, "#locks-rows tr", "renewed for 59 min at most")
        bars = browser.run("return Object.fromEntries([...document.querySelectorAll('#locks-rows tr')].map((tr) => "
                           "[tr.querySelector('.key').innerText, [tr.querySelector('.lease').innerText,"
                           " Number(tr.querySelector('rect').getAttribute('width'))]]))")
        assert "renewed for" not in bars["ever:a"][0] and bars["ever:a"][1] == 100
        assert "renewed" not in bars["short:a"][0] and 90 < bars["short:a"][1] <= 100
        assert 90 < bars["job:a"][1] <= 100


def test_graphs_move(start_hasp, browser, show):
    hasp = start_hasp(rule() + HTTP)
    show(hasp)

    def lines():
        return browser.run("return [...document.querySelectorAll('path.line')].map((n) => n.getAttribute('d'))")

    until(lambda: sum(bool(line) for line in lines()) >= 6, "each graph but that of waiting to have a line")
    before = lines()
    with hasp.connect() as one:
        for _ in range(20):
            assert one.call("SET", "lock:a", "1", "NX") in (OK, NIL)
        until(lambda: all(a != b for a, b in zip(before, lines(), strict=True) if a), "all of them to move")
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
            shows(browser, "#waiters-rows tr", "longlong")
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
    shows(browser, "#rules-rows tr", "locks")
    cells = browser.run("return [...document.querySelectorAll('#rules-rows tr')[0].cells].map((n) => n.textContent.trim())")
    assert [cells[titles.index(title)] for title in ("Taken", "Refused", "Prevented", "Lost")] == ["1", "1", "2", "0"]


def test_observed_rules_show_in_brackets_what_would_have_been_prevented(start_hasp, browser, show):
    hasp = start_hasp(rule(mode="observe") + HTTP)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", "lock:a", "1", "NX", "PX", "60000") == OK
        assert other.call("SET", "lock:a", "2", "PX", "60000") == OK
    show(hasp)
    shows(browser, "#rules-rows tr", "observing")
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
            shows(browser, "#locks-rows tr", ":the-end")
            shows(browser, "#locks-rows tr", "job:long")
            shows(browser, "#locks-rows tr", "long…")
            # The cell shows all of it.
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
        shows(browser, "#locks-rows tr", "lock:" + HTML)
        shows(browser, "#locks-rows tr", HTML.replace(" ", "/"))
        shows(browser, "#contended-rows tr", "lock:" + HTML)
        assert browser.run("return document.querySelectorAll('main img, main script').length") == 0
        assert browser.run("return document.title") == "hasp"


def test_bytes_that_cannot_be_seen_are_shown(start_hasp, browser, show):
    hasp = start_hasp(rule() + HTTP)
    with hasp.connect() as one:
        assert one.call("SET", b"lock:\0\n\xff\xe2\x80\xae\xe9\x8d\xb5", "1", "NX") == OK
        show(hasp)
        shows(browser, "#locks-rows tr", "lock:\\x00\\x0a�\\u202e鍵")


def test_without_rules_it_says_what_to_do_and_that_helps(start_hasp, browser, show):
    hasp = start_hasp(HTTP)
    for width in 360, 1440:
        show(hasp, width=width)
        shows(browser, "#next h2", "No rules yet")
        assert browser.run("return document.documentElement.scrollWidth") <= width
    advice = browser.run("return [...document.querySelectorAll('#next pre')].map((n) => n.textContent).join('\\n')")
    assert browser.run("return document.querySelector('#rules').hidden")
    hasp.reload(HTTP, f"{HTTP}{advice}\n")
    shows(browser, "#rules-rows tr", "orders")
    shows(browser, "#rules-rows tr", "stock")
    assert browser.run("return document.querySelector('#next').hidden")


def test_it_goes_on_when_hasp_is_there_again(start_hasp, browser, show):
    text = rule() + f"[http]\nlisten = 127.0.0.1:{free_port()}\n"
    hasp = start_hasp(text)
    show(hasp)
    shows(browser, "#state-text", "serving")
    hasp.signal(15)
    until(lambda: not hasp.running(), "hasp to leave")
    shows(browser, "#state-text", "no answer since")
    shows(browser, "#rules-rows tr", "locks")
    start_hasp(text)
    shows(browser, "#state-text", "serving")
    assert all("ERR_CONNECTION" in line for line in browser.console())


def test_it_can_be_paused_and_filtered_by_the_keyboard(start_hasp, browser, show):
    hasp = start_hasp(rule() + HTTP)
    with hasp.connect() as one:
        assert one.call("SET", "lock:a", "1", "NX") == OK
        assert one.call("SET", "lock:b", "1", "NX") == OK
        show(hasp)
        shows(browser, "#locks-rows tr", "lock:b")
        browser.run("const f = document.querySelector('#filter'); f.value = 'LOCK:B'; f.dispatchEvent(new Event('input'))")
        assert [text.split(" ")[0] for text in browser.text("#locks-rows tr")] == ["lock:b"]
        browser.run("const b = document.querySelector('#pause'); b.focus(); b.click()")
        shows(browser, "#state-text", "view frozen")
        assert browser.run("return document.activeElement.getAttribute('aria-pressed')") == "true"
