# SPDX-License-Identifier: BSD-3-Clause
"""Writes results of benchmarks as Markdown tables, and those of tests/bench/run also as an SVG plot."""

from html import escape

COLOURS = ("#b8b8b8", "#8ab4d8", "#d9a86c", "#2f7d4f", "#7cbf8f", "#9a7fc0")


def number(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}"


def ratio_text(pair):
    """Returns the text of a ratio and its standard error."""
    return "-" if pair is None else f"{pair[0]:.2f} +- {pair[1]:.2f}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def targets_text(head, targets):
    """Returns the text of a target, given as (what, value, sign, target)."""
    rows = []
    for what, value, sign, target in targets:
        good = {">=": value >= target, "<=": value <= target, "<": value < target}[sign]
        rows.append([what, number(value), f"{sign} {target:g}",
                     "" if good else "**short of it**"])
    return "## Targets\n\n" + table([head, "", "target", ""], rows)


def markdown(title, cells, subjects, results):
    """Returns the report in Markdown. `results`: a Results of tests/bench/run, with tables keyed by
    (cell, subject)."""
    proxies = [s for s in subjects if s != "direct"]
    parts = [f"# {title}", "## Throughput, as a ratio to direct (median of the rounds)"]
    parts.append(table(
        ["cell", "direct, requests/s", *proxies, "target", ""],
        [[cell, number(results.rps.get((cell, "direct")), 0),
          *[number(results.ratios.get((cell, s))) for s in proxies],
          number(results.targets.get(cell)), results.flags.get(cell, "")] for cell in cells]))
    short = [f"- {cell}: {ratio:.2f} at best, of {results.targets[cell]:.2f}"
             for cell, ratio in results.short()]
    if results.ratios and results.targets:
        parts.append("\n".join(["Short of the target with any number of workers:", "", *short])
                     if short else "Every target is reached by some number of workers.")
    ours = [s for s in subjects if any(results.haproxy.get((cell, s)) for cell in cells)]
    if ours:
        parts.append("## hasp / haproxy, round by round (geometric mean +- standard error)")
        parts.append(table(["cell", *ours], [
            [cell, *[ratio_text(results.haproxy.get((cell, s))) for s in ours]] for cell in cells]))
    beside = {(cell, s): [results.beside.get((cell, s, peer)) for peer in results.peers]
              for cell in cells for s in subjects}
    if any(any(pairs) for pairs in beside.values()):
        parts.append("## hasp / peer, CPU per request, round by round (less than 1: hasp is cheaper)")
        parts.append(table(["cell", "subject", *results.peers], [
            [cell, s, *map(ratio_text, pairs)] for (cell, s), pairs in beside.items() if any(pairs)]))
    parts.append("## Latency, ms: median / 99th percentile")
    parts.append(table(
        ["cell", *subjects],
        [[cell, *[" / ".join(number(x, 3) for x in results.latency.get((cell, s), (None, None)))
                  for s in subjects]] for cell in cells]))
    parts.append("## CPU-seconds per million requests (proxy + Redis)")
    parts.append(table(
        ["cell", *subjects],
        [[cell, *[" + ".join(number(x, 1) for x in results.cpu.get((cell, s), (None, None)))
                  for s in subjects]] for cell in cells]))
    return "\n\n".join(parts) + "\n"


def svg(title, cells, subjects, results):
    """Bars from left to right, one group for each cell; a line where direct Redis is, and
    in each group a red mark at the target."""
    ratios = results.ratios
    subjects = [s for s in subjects if s != "direct"]
    bar, gap, left, top, unit = 11, 14, 230, 56, 380
    group = bar * len(subjects) + gap
    longest = max([1.25, *[r for r in ratios.values() if r]])
    width, height = left + int(unit * longest) + 60, top + group * len(cells) + 30
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
           ' font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="white"/>',
           f'<text x="10" y="18" font-size="14">{escape(title)}</text>']
    for i, subject in enumerate(subjects):
        x = 10 + i * 150
        out.append(f'<rect x="{x}" y="28" width="11" height="11" fill="{colour(i)}"/>'
                   f'<text x="{x + 16}" y="38">{escape(subject)}</text>')
    for c, cell in enumerate(cells):
        y = top + c * group
        out.append(f'<text x="{left - 8}" y="{y + (group - gap) / 2 + 4}"'
                   f' text-anchor="end">{escape(cell)}</text>')
        for i, subject in enumerate(subjects):
            ratio = ratios.get((cell, subject))
            at = y + i * bar
            if ratio is None:
                continue
            out.append(f'<rect x="{left}" y="{at}" width="{unit * ratio:.1f}"'
                       f' height="{bar - 1}" fill="{colour(i)}"/>'
                       f'<text x="{left + unit * ratio + 4:.1f}" y="{at + 9}">{ratio:.2f}</text>')
        if cell in results.targets:
            x = left + unit * results.targets[cell]
            out.append(f'<line x1="{x:.1f}" y1="{y - 2}" x2="{x:.1f}" y2="{y + group - gap + 1}"'
                       ' stroke="#c22" stroke-width="2"/>')
    bottom = top + group * len(cells)
    out.append(f'<line x1="{left + unit}" y1="{top - 6}" x2="{left + unit}" y2="{bottom}"'
               ' stroke="#333" stroke-dasharray="4 3"/>'
               f'<text x="{left + unit}" y="{bottom + 14}" text-anchor="middle">direct</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def colour(i):
    return COLOURS[(i + 1) % len(COLOURS)]
