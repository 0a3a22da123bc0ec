// SPDX-License-Identifier: BSD-3-Clause
//
// Asks for /status.json every two seconds and shows it. All of it is shown as text: keys and names
// are bytes from other clients, and may contain HTML.
"use strict";
(() => {
  const EVERY_MS = 2000, PATIENCE_MS = 6000, MINUTES = 5;
  const SVG = "http://www.w3.org/2000/svg";
  const $ = (id) => document.getElementById(id);

  // --- texts ---------------------------------------------------------------------------------

  const count = (n) => n.toLocaleString("en-US");
  const whole = (n) => count(Math.round(n));
  const rate = (n) => n >= 100 ? count(Math.round(n)) : n >= 10 ? n.toFixed(0) : n > 0 ? n.toFixed(1) : "0";

  function duration(ms) {
    if (ms === null)
      return "–";
    if (ms < 1000)
      return ms > 0 && ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms)} ms`;
    const s = ms / 1000;
    if (s < 10)
      return `${s.toFixed(1)} s`;
    if (s < 120)
      return `${Math.floor(s)} s`;
    if (s < 7200)
      return `${Math.floor(s / 60)} min`;
    return s < 172800 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} days`;
  }

  // Escapes invisible characters, and those that reverse the line, as redis-cli does.
  function visible(text) {
    return text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (c) => {
      const code = c.charCodeAt(0);
      return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16)}`;
    });
  }

  // Long keys are cut in the middle, because keys often differ at their ends.
  const narrow = matchMedia("(max-width: 700px)");

  function keyText(row) {
    const cut = row.key_bytes > new TextEncoder().encode(row.key).length && row.key.length > 100;
    const text = visible(row.key) + (cut ? "…" : "");
    const [head, tail] = narrow.matches ? [36, 20] : [40, 24];
    return text.length > head + tail + 1 ? `${text.slice(0, head)}…${text.slice(-tail)}` : text;
  }

  const keyNote = (row) => row.db > 0 ? `database ${row.db}` : "";
  const hasEnd = (text, at) => at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];

  // "127.0.0.1:4711 name" as [name or address, address]
  function holder(row) {
    const [address, name] = hasEnd(row.client, row.client.indexOf(" "));
    return name ? [visible(name), address] : [address, ""];
  }

  const rule = (row) => row.section === null ? "–" : row.section;

  // --- nodes ---------------------------------------------------------------------------------

  function setText(node, text) {
    if (node.textContent !== text)
      node.textContent = text;
  }

  function setClass(node, name) {
    if (node.className !== name)
      node.className = name;
  }

  function make(tag, name, parent) {
    const node = document.createElement(tag);
    if (name)
      node.className = name;
    if (parent)
      parent.append(node);
    return node;
  }

  function draw(tag, attributes, parent) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes))
      node.setAttribute(name, value);
    parent.append(node);
    return node;
  }

  // Makes as many rows as there are items. Uses existing rows again, so that the selection and the
  // focus stay.
  function fill(body, items, create, update) {
    while (body.rows.length > items.length)
      body.lastChild.remove();
    items.forEach((item, i) => {
      if (!body.rows[i])
        body.append(create());
      update(body.rows[i].parts, item);
    });
  }

  // Adds a node beside the present ones, after a blank for screen readers and for copying.
  function beside(tag, name, parent) {
    parent.append(" ");
    return make(tag, name, parent);
  }

  function newRow(cells) {
    const tr = make("tr");
    tr.parts = {};
    cells(tr, tr.parts);
    return tr;
  }

  // --- tables --------------------------------------------------------------------------------

  function keyCell(tr, parts) {
    const td = make("td", "", tr);
    parts.key = make("span", "key", td);
    parts.note = beside("span", "note", td);
    parts.sub = beside("span", "sub", td);
  }

  function setKey(parts, row, sub) {
    setText(parts.key, keyText(row));
    parts.key.title = row.key.length > 60 ? visible(row.key) : "";
    setText(parts.note, keyNote(row));
    setText(parts.sub, sub);
  }

  function holderCell(tr, parts, name) {
    const td = make("td", name, tr);
    parts.holder = make("span", "", td);
    parts.address = beside("span", "note", td);
  }

  function setHolder(parts, row) {
    const [name, address] = holder(row);
    setText(parts.holder, name);
    setText(parts.address, address);
  }

  const lockRow = () => newRow((tr, parts) => {
    tr.tabIndex = -1;
    parts.row = tr;
    keyCell(tr, parts);
    parts.rule = make("td", "wide", tr);
    holderCell(tr, parts, "wide");
    parts.held = make("td", "num", tr);
    const lease = make("td", "lease wide", tr);
    parts.left = make("span", "left", lease);
    parts.renewed = beside("span", "note", lease);
    parts.bar = draw("svg", { class: "lease-bar", viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" }, lease);
    parts.filled = draw("rect", { height: 4, width: 0 }, parts.bar);
    parts.waiters = make("td", "num", tr);
  });

  function setLock(parts, row) {
    const [name] = holder(row);
    setClass(parts.row, marked === lockName(row) ? "marked" : "");
    setKey(parts, row, `${name} · ${rule(row)}`);
    setText(parts.rule, rule(row));
    setHolder(parts, row);
    setText(parts.held, duration(row.since_ms));
    setText(parts.left, duration(row.left_ms));
    // A lock that is renewed ends with max_hold, any other with its lease.
    const most = row.renewed ? maxHold(row) : row.left_ms + row.since_ms;
    const left = row.renewed ? Math.max(0, most - row.since_ms) : row.left_ms;
    const share = row.left_ms === null ? 0 : most ? 100 * left / most : 100;
    setText(parts.renewed, most ? `renewed for ${duration(left)} at most` : "renewed");
    parts.renewed.hidden = !row.renewed;
    parts.filled.setAttribute("width", Math.min(100, share).toFixed(1));
    parts.bar.setAttribute("class", share < 25 ? "lease-bar short" : "lease-bar");
    setText(parts.waiters, count(row.waiters));
    setClass(parts.waiters, row.waiters ? "num hot" : "num zero");
  }

  // Returns the section's max_hold in ms; 0: none, or not known.
  function maxHold(row) {
    const section = last.sections.find((s) => s.kind === row.kind && s.name === row.section);
    return section ? section.max_hold_ms : 0;
  }

  // The lock to which the last clicked link of a waiter leads.
  let marked = "";
  const lockName = (row) => `${row.db} ${row.key_bytes} ${row.key}`;

  function markLock(row) {
    marked = lockName(row);
    if (!matches(row))
      $("filter").value = "";
    show();
    const tr = $("locks-rows").querySelector(".marked");
    if (tr)
      tr.focus();
  }

  const waiterRow = () => newRow((tr, parts) => {
    holderCell(tr, parts, "");
    keyCell(tr, parts);
    parts.by = beside("a", "by", parts.sub.parentNode);
    parts.by.href = "#locks";
    parts.by.addEventListener("click", (e) => {
      e.preventDefault();
      markLock(parts.lock);
    });
    parts.since = make("td", "num", tr);
  });

  function setWaiter(parts, row) {
    setHolder(parts, row);
    setKey(parts, row, "");
    const locks = last.locks.rows.filter((lock) => lockName(lock) === lockName(row));
    [parts.lock] = locks;
    parts.by.hidden = !locks.length;
    setText(parts.by, locks.length ? `held by ${holder(locks[0])[0]}${locks.length > 1 ? ` and ${locks.length - 1} more` : ""}` : "");
    setText(parts.since, duration(row.since_ms));
    setClass(parts.since, row.since_ms > 5000 ? "num hot" : "num");
  }

  const contendedRow = () => newRow((tr, parts) => {
    keyCell(tr, parts);
    parts.refused = make("td", "num", tr);
    parts.waited = make("td", "num", tr);
  });

  function setContended(parts, row) {
    setKey(parts, row, "");
    setText(parts.note, [keyNote(row), row.missed ? `and up to ${count(row.missed)} more` : ""].filter(Boolean).join(" · "));
    for (const what of ["refused", "waited"]) {
      setText(parts[what], count(row[what]));
      setClass(parts[what], row[what] ? "num" : "num zero");
    }
  }

  const TOTALS = ["held", "taken", "refused", "prevented", "waited", "timed", "lost", "wait", "hold"];
  const ruleRow = () => newRow((tr, parts) => {
    const td = make("td", "", tr);
    parts.name = make("span", "", td);
    parts.kind = beside("span", "tag", td);
    parts.mode = beside("span", "tag", td);
    parts.sub = beside("span", "sub key", td);
    parts.keys = make("td", "wide key", tr);
    parts.owner = make("td", "wide", tr);
    for (const what of TOTALS)
      parts[what] = make("td", "num", tr);
  });

  function setRule(parts, section) {
    const t = section.totals || {};
    const keys = section.patterns.map(visible).join("  ") || "any";
    const o = section.observed;  // of a rule in mode observe
    const values = {
      held: section.held, taken: t.acquired, refused: t.refused,
      prevented: (t.writes_refused || 0) + (t.deletes_refused || 0) + (t.updates_refused || 0) +
        Object.keys(o || {}).reduce((sum, event) => sum + (event === "lock_lost" ? 0 : o[event]), 0),
      waited: t.waited, timed: t.timed_out, lost: t.lost,
    };
    setText(parts.name, section.name);
    setText(parts.kind, section.kind);
    setText(parts.mode, "observing");
    parts.mode.hidden = section.mode !== "observe";
    setText(parts.keys, keys);
    setText(parts.sub, keys);
    setText(parts.owner, section.owner);
    for (const what of TOTALS) {
      const wide = what === "taken" || what === "prevented" || what === "lost" ? "" : " wide";
      const value = section.totals || (o && what === "prevented") ? values[what] : undefined;
      const alarm = value > 0 && what === "lost" ? " alarm" : "";
      const text = value === undefined ? "–" : count(value);
      setText(parts[what], o && what === "prevented" ? `(${text})` : text);
      setClass(parts[what], `num${wide}${value ? alarm : " zero"}`);
    }
    parts.prevented.title = o ? "mode = enforce would have prevented these events" : "";
    for (const [what, ms] of [["wait", section.mean_wait_ms], ["hold", section.mean_hold_ms]]) {
      setText(parts[what], duration(ms === undefined ? null : ms));
      setClass(parts[what], ms ? "num wide" : "num wide zero");
    }
  }

  // --- graphs --------------------------------------------------------------------------------

  const WIDTH = 300, HEIGHT = 72;
  const graphs = [
    { title: "Commands", unit: "/s", show: rate, series: [["commands", "", "blue"]] },
    { title: "Locks and guards", unit: "/s", show: rate, series: [["acquired", "taken", "blue"], ["refused", "refused", "red"]] },
    { title: "Held and waited for", unit: "", show: whole, series: [["held", "held", "blue"], ["waiting", "waiting", "amber"]] },
    { title: "Mean time waited", unit: "", show: duration, series: [["mean_wait_ms", "", "amber"]] },
    { title: "Clients", unit: "", show: whole, series: [["clients", "", "green"]] },
  ];

  function makeGraph(g) {
    g.node = make("div", "panel graph", $("graphs"));
    make("h2", "", g.node).textContent = g.title;
    g.now = make("p", "now", g.node);
    g.values = g.series.map(([, label, color]) => {
      const span = make("span", "", g.now);
      if (g.series.length > 1)
        make("i", color, span).setAttribute("aria-hidden", "true");
      const value = make("b", "", span), unit = make("small", "", span);
      unit.textContent = ` ${g.unit}${label ? ` ${label}` : ""}`;
      return value;
    });
    g.plot = make("div", "plot", g.node);
    g.svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" }, g.plot);
    for (const y of [0, HEIGHT / 2, HEIGHT])
      draw("line", { class: "grid", x1: 0, x2: WIDTH, y1: y, y2: y }, g.svg);
    g.paths = g.series.map(([, , color]) => [draw("path", { class: `area ${color}` }, g.svg), draw("path", { class: `line ${color}` }, g.svg)]);
    g.cursor = draw("line", { class: "cursor", y1: 0, y2: HEIGHT, visibility: "hidden" }, g.svg);
    g.top = make("span", "top", g.plot);
    const axis = make("div", "axis", g.node);
    make("span", "", axis).textContent = `${MINUTES} min ago`;
    g.when = make("span", "", axis);
    g.plot.addEventListener("pointermove", (e) => {
      const box = g.plot.getBoundingClientRect();
      g.at = (1 - (e.clientX - box.left) / box.width) * MINUTES * 60;
      drawGraph(g);
    });
    g.plot.addEventListener("pointerleave", () => {
      g.at = undefined;
      drawGraph(g);
    });
  }

  // Returns the least of 1, 2, 5, 10, 20 ... that is not less than `most`.
  function niceTop(most) {
    const unit = 10 ** Math.floor(Math.log10(Math.max(most, 1)));
    return [1, 2, 5, 10].map((n) => n * unit).find((n) => n >= most);
  }

  const x = (age) => (1 - age / (MINUTES * 60)) * WIDTH;

  // Draws a line, with a gap for each missing value.
  function trace(ages, values, top, path, area) {
    let line = "", filled = "", begin = null, before = null;
    const y = (v) => (HEIGHT - v / top * HEIGHT).toFixed(1);
    const close = () => {
      if (begin !== null)
        filled += `L${before} ${HEIGHT}L${begin} ${HEIGHT}Z`;
      begin = null;
    };
    values.forEach((v, i) => {
      if (v === null) {
        close();
        return;
      }
      const at = x(ages[i]).toFixed(1);
      line += `${begin === null ? "M" : "L"}${at} ${y(v)}`;
      filled += `${begin === null ? "M" : "L"}${at} ${y(v)}`;
      // (A single point becomes a short line.)
      if (begin === null && (i + 1 === values.length || values[i + 1] === null))
        line += `h1.5`;
      begin = begin === null ? at : begin;
      before = at;
    });
    close();
    path.setAttribute("d", line);
    area.setAttribute("d", filled);
  }

  function drawGraph(g) {
    const h = last && last.history;
    const known = h && g.series.every(([name]) => h[name]);
    g.node.hidden = !known && Boolean(h);
    if (!known)
      return;
    const ages = h.age_s;
    const all = g.series.flatMap(([name]) => h[name].filter((v) => v !== null));
    const top = niceTop(Math.max(0, ...all));
    let index = ages.length - 1;
    if (g.at !== undefined)
      index = ages.reduce((best, age, i) => Math.abs(age - g.at) < Math.abs(ages[best] - g.at) ? i : best, index);
    g.series.forEach(([name], i) => {
      const value = index >= 0 ? h[name][index] : null;
      trace(ages, h[name], top, g.paths[i][1], g.paths[i][0]);
      setText(g.values[i], value === null ? "–" : g.show(value));
    });
    setText(g.top, g.show(top));
    setText(g.when, g.at === undefined || index < 0 ? "now" : `${Math.round(ages[index])} s ago`);
    g.cursor.setAttribute("visibility", g.at === undefined || index < 0 ? "hidden" : "visible");
    if (index >= 0)
      for (const end of ["x1", "x2"])
        g.cursor.setAttribute(end, x(ages[index]).toFixed(1));
    const said = g.series.map(([, label], i) => `${label} ${g.values[i].textContent} ${g.unit}`).join(", ");
    g.svg.setAttribute("aria-label", `${g.title}: ${said}; at most ${g.show(Math.max(0, ...all))} in the last ${MINUTES} minutes`);
  }

  // --- what was discovered -------------------------------------------------------------------

  const FOUND_EVERY_MS = 4000;
  let found = "", foundAt = -Infinity;

  const countOf = (n, what) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;

  function progressText(d) {
    return `${duration(d.seconds * 1000)}, ${countOf(d.commands, "command")}, ${countOf(d.patterns, "pattern")} of keys: ` +
      `${countOf(d.locks, "kind")} of locks, ${countOf(d.values, "kind")} of values written back, harm seen ${countOf(d.harm, "time")}`;
  }

  // True if the user has selected a part of the node, which must not be replaced then.
  function isSelected(node) {
    const selection = getSelection();
    return !selection.isCollapsed && selection.containsNode(node, true);
  }

  function showDiscovered(d) {
    $("discovered").hidden = !d;
    if (d)
      setText($("discovered-progress"), progressText(d));
  }

  async function askFound() {
    if (!last.discover || isSelected($("discovered-text")) || performance.now() - foundAt < FOUND_EVERY_MS)
      return;
    const reply = await fetch("/discovered.ini", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
    if (!reply.ok)
      return;
    found = await reply.text();
    foundAt = performance.now();
    setText($("discovered-text"), found.split("\n").map(visible).join("\n"));
  }

  // Copies the text as hasp wrote it. Over plain HTTP browsers offer no other way to the clipboard.
  function copySelected(text) {
    const area = make("textarea", "away", document.body);
    area.value = text;
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    $("copy").focus();
    return done;
  }

  async function copyFound() {
    let done = true;
    try {
      await navigator.clipboard.writeText(found);
    } catch {
      done = copySelected(found);
    }
    setText($("copied"), done ? "Copied." : "Not copied: save it.");
    setTimeout(() => setText($("copied"), ""), 5000);
  }

  // --- the page ------------------------------------------------------------------------------

  let last = null, lastAt = null, paused = false, failed = false;

  const clock = (date) => date.toLocaleTimeString([], { hour12: false });

  function showState() {
    let name = "state", text = "asking";
    if (failed) {
      name += " bad";
      text = lastAt ? `no answer since ${clock(lastAt)}` : "no answer";
    } else if (last && last.not_ready) {
      name += " bad";
      text = last.not_ready;
    } else if (paused) {
      name += " paused";
      text = `view frozen at ${clock(lastAt || new Date())}`;
    } else if (last) {
      name += " ok";
      text = "serving";
    }
    setClass($("state"), name);
    setText($("state-text"), text);
    document.body.classList.toggle("stale", failed && Boolean(last));
  }

  function matches(row) {
    const wanted = $("filter").value.toLowerCase();
    return !wanted || [row.key, row.section || "", row.client, row.owner || ""].some((s) => s.toLowerCase().includes(wanted));
  }

  // --- sorting: of each table by the column whose title was clicked last; a second time turns it

  const sortings = {};
  const VALUES = { rule, holder: (row) => holder(row)[0] };

  function sorted(name, rows) {
    const { by, down } = sortings[name] || {};
    const value = VALUES[by] || ((row) => row[by]);
    const compare = (a, b) => typeof a === "string" ? a.localeCompare(b) : (a ?? Infinity) - (b ?? Infinity);
    return by ? [...rows].sort((a, b) => compare(value(a), value(b)) * (down ? -1 : 1)) : rows;
  }

  function makeSortable(name) {
    const titles = $(`${name}-rows`).parentNode.querySelectorAll("th[data-by]");
    for (const th of titles) {
      const button = make("button");
      button.type = "button";
      button.append(...th.childNodes);
      th.append(button);
      button.addEventListener("click", () => {
        const { by } = th.dataset, before = sortings[name] || {};
        const down = before.by === by ? !before.down : th.classList.contains("num");
        sortings[name] = { by, down };
        titles.forEach((other) => other.removeAttribute("aria-sort"));
        th.setAttribute("aria-sort", down ? "descending" : "ascending");
        show();
      });
    }
  }

  function showList(name, list, noun, none, create, update, filtered) {
    const found = sorted(name, filtered ? list.rows.filter(matches) : list.rows);
    fill($(`${name}-rows`), found, create, update);
    $(`${name}-rows`).parentNode.hidden = !found.length;
    setText($(`${name}-none`), found.length ? "" : list.rows.length ? "None of them matches." : none);
    if (noun === null)
      return;
    setText($(`${name}-count`), count(list.total));
    setText($(`${name}-more`), list.total > list.rows.length ? `the ${count(list.rows.length)} ${noun}` : "");
  }

  // Returns the servers' present states; until hasp knows a server, the configured addresses.
  function upstreamText(u) {
    const nodes = u.nodes.map((n) => visible(n.name) + (n.up ? "" : " (down)") +
      (n.evicts ? ` (may evict locks: ${visible(n.evicts)})` : ""));
    const text = nodes.slice(0, 6).join(", ") || u.addresses.filter(Boolean).map(visible).join(", ");
    const more = nodes.length > 6 ? ` and ${nodes.length - 6} more` : "";
    return (u.kind === "sentinels" ? `${visible(u.master)} at ` : u.kind === "cluster" ? "cluster " : "") + text + more;
  }

  function latencyText(u) {
    const known = u.nodes.map((n) => n.mean_latency_ms).filter((ms) => ms !== null);
    return known.length ? `${Math.max(...known).toFixed(1)} ms` : "–";
  }

  function show() {
    showState();
    if (!last)
      return;
    const hasRules = last.sections.length > 0;
    setText($("version"), last.version);
    setText($("upstream"), upstreamText(last.upstream));
    setText($("latency"), latencyText(last.upstream));
    setText($("uptime"), duration(last.uptime_s * 1000));
    setText($("workers"), count(last.workers));
    $("next").hidden = hasRules || Boolean(last.discover);
    showDiscovered(last.discover);
    $("rules").hidden = $("live").hidden = !hasRules;
    fill($("rules-rows"), last.sections, ruleRow, setRule);
    const { trouble } = last.upstream;
    showList("locks", last.locks, "held longest", trouble ? `Held locks are unknown: ${trouble}.` : "No lock is held.", lockRow, setLock, true);
    if (trouble && last.locks.rows.length)
      setText($("locks-more"), "as hasp knew them last");
    showList("waiters", last.waiters, "that wait longest", "Nobody waits.", waiterRow, setWaiter, true);
    showList("contended", { rows: last.contended.rows.slice(0, 12) }, null, "No key was refused to anybody, or waited for.", contendedRow, setContended, false);
    setText($("contended-more"), `in the last ${Math.round(last.contended.window_s / 60)} minutes`);
    setText($("asked"), `as of ${clock(lastAt)}${last.whole ? "" : "; a worker did not answer in time"}`);
    graphs.forEach(drawGraph);
    document.title = last.waiters.total ? `(${count(last.waiters.total)}) hasp` : "hasp";
  }

  async function ask() {
    const reply = await fetch("/status.json", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
    if (!reply.ok)
      throw new Error(await reply.text());
    return reply.json();
  }

  async function round() {
    if (!paused && !document.hidden) {
      try {
        last = await ask();
        lastAt = new Date();
        failed = false;
        await askFound();
      } catch {
        failed = true;
      }
      show();
    }
    setTimeout(round, EVERY_MS);
  }

  $("pause").addEventListener("click", () => {
    paused = !paused;
    $("pause").setAttribute("aria-pressed", String(paused));
    setText($("pause"), paused ? "Go on" : "Freeze view");
    showState();
  });
  $("copy").addEventListener("click", copyFound);
  $("filter").addEventListener("input", show);
  graphs.forEach(makeGraph);
  ["locks", "waiters", "contended"].forEach(makeSortable);
  round();
})();
