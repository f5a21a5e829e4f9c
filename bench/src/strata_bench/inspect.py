"""What a reader can see of a page: found out by the browser, for the tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from strata_bench.browser import Browser

SMALLEST_TEXT = 11.5
"""In CSS pixels."""
LEAST_CONTRAST = 4.5
"""WCAG 2, level AA."""

LOOK = """
const visible = e => {
  const r = e.getBoundingClientRect(), s = getComputedStyle(e);
  const inside = r.left >= -1 && r.right <= document.documentElement.clientWidth + 1;
  return r.width > 1 && r.height > 1 && s.visibility === 'visible' && s.display !== 'none' && inside;
};
const channel = c => { c /= 255; return c <= 0.03928 ? c / 12.92 : Math.pow((c + 0.055) / 1.055, 2.4); };
const luminance = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
const rgb = t => t.match(/[\\d.]+/g).map(Number);
const behind = e => {
  for (; e; e = e.parentElement) {
    const c = rgb(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c;
  }
  return [255, 255, 255];
};
const hidden = [], small = [], faint = [];
for (const e of document.querySelectorAll('[data-node],[data-card],h2,.layer')) {
  if (!visible(e)) hidden.push(e.outerHTML.slice(0, 120));
}
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let n = walker.nextNode(); n; n = walker.nextNode()) {
  const e = n.parentElement;
  if (!n.data.trim() || !e.checkVisibility() || e.closest('svg')) continue;
  const s = getComputedStyle(e);
  if (parseFloat(s.fontSize) < arguments[0]) small.push(n.data.trim() + ': ' + s.fontSize);
  const a = luminance(rgb(s.color)), b = luminance(behind(e));
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < arguments[1]) faint.push(n.data.trim() + ': ' + contrast.toFixed(2));
}
const names = (selector, key) => [...document.querySelectorAll(selector)].map(e => e.dataset[key]);
return {
  nodes: names('[data-node]', 'node'), cards: names('#picture ~ .place [data-card]', 'card'),
  hidden, small, faint,
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  resources: performance.getEntriesByType('resource').map(e => e.name),
};
"""


@dataclass(frozen=True)
class Seen:
    """What the browser shows of a page.

    Args:
        nodes: names of the nodes in the picture.
        cards: each card's address, or kind where it has none.
        problems: everything in the way of a reader; empty for a good page.
    """

    nodes: list[str]
    cards: list[str]
    problems: list[str] = field(default_factory=list)


def look_at(window: Browser, file: Path, *, width: int, dark: bool = False) -> Seen:
    """Opens a page and looks for what is hidden, too small, too faint, too wide, loaded, or an error.

    Args:
        window: the browser.
        file: the page.
        width: of the window's inside in CSS pixels.
        dark: as a user who prefers a dark page.
    """
    window.messages(), window.requests()
    window.open(file, width=width, dark=dark)
    report: dict[str, Any] = window.run(LOOK, SMALLEST_TEXT, LEAST_CONTRAST)
    problems = [f"console: {m}" for m in window.messages()]
    problems += [f"asked for: {url}" for url in (*window.requests(), *report["resources"])]
    problems += [f"cannot be seen: {e}" for e in report["hidden"]]
    problems += [f"text is too small: {t}" for t in report["small"]]
    problems += [f"text is too faint: {t}" for t in report["faint"]]
    if report["wide"] > 0:
        problems.append(f"{report['wide']} pixels wider than the window")
    return Seen(report["nodes"], report["cards"], problems)
