"""The report in a browser: hostile logs do nothing, the keyboard reaches everything, and it can be read in light and dark."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec
import pytest
from browser import CHROMIUM, Page, browsing
from report_campaigns import plan, point
from report_samples import sample

from undermine.model.faults import Crash
from undermine.model.finding import Finding
from undermine.model.run import Verdict
from undermine.report.html import write_report
from undermine.store.database import CampaignStore

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="needs a Chromium")

HOSTILE = "</pre></title></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'\x00\x1b[31m\u202e"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report with hostile texts, logs and source."""
    folder = tmp_path_factory.mktemp("report")
    campaign = sample(folder / "c")
    (folder / "granary").mkdir()
    for name in ("shard_disk", "rpc", "assignment"):
        (folder / "granary" / f"{name}.py").write_text("".join(f"line_{n} = '{HOSTILE}'\n" for n in range(200)))
    store = CampaignStore(campaign)
    store.set_meta("identity", {**store.meta("identity"), "config": str(folder / "undermine.toml")})
    where = point("s2", "file.write", f"granary.rpc:{HOSTILE}#1", HOSTILE)
    verdict = Verdict("fail", HOSTILE, "hostile", (HOSTILE,), "ledger")
    bad = Finding("F9", "hostile", HOSTILE, plan(Crash(), where), (7,), ("random",), (verdict,), 3, 3)
    store.write_findings([*store.findings(), msgspec.structs.replace(bad, shown_by=7)])
    store.close()
    for log in (campaign / "runs").glob("*/logs/*"):
        log.write_bytes(HOSTILE.encode() * 50 + b"\xff\n" + log.read_bytes())
    return write_report(campaign).as_uri()


def opened(page: Page) -> Page:
    page.until("document.readyState === 'complete' && location.protocol === 'file:'")
    page.ask("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.frames()
    return page


FAINT = """(() => {
  const rgb = (text) => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const light = (c) => [0, 1, 2].map((i) => c[i] / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (box) => {
    for (; box; box = box.parentElement) {
      const color = rgb(getComputedStyle(box).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const found = new Set();
  const walk = document.createTreeWalker(document.querySelector("body"), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const box = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || box.closest("svg, script, style, .unseen, .spacetime, .skip")) continue;
    const style = getComputedStyle(box), [a, b] = [light(rgb(style.color)), light(behind(box))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.add(box.tagName + "." + box.className + " " + ratio.toFixed(1));
  }
  return [...found];
})()"""
"""Texts with less contrast than the 4.5 that WCAG asks for."""


def test_hostile_texts_do_nothing_and_everything_can_be_read(report: str, tmp_path: Path) -> None:
    with browsing(report, tmp_path / "profile") as shown:
        page = opened(shown)
        for width, scheme in itertools.product((1400, 360), ("light", "dark")):
            page.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
            page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            page.frames()
            assert page.ask(f"matchMedia('(prefers-color-scheme: {scheme})').matches && innerWidth === {width}")
            assert page.ask(FAINT) == [], (width, scheme)
            assert page.ask("document.documentElement.scrollWidth <= innerWidth"), "only tables and code scroll sideways"
            styles = "[...document.querySelectorAll('table.source li, table.source .mark')].map((box) => getComputedStyle(box))"
            kinds = page.ask(f"[...new Set({styles}.map((style) => style.display + ' ' + style.whiteSpace))].sort()")
            assert kinds == ["list-item normal", "table-cell normal"], "notes wrap, and marks fill their cells"
        assert not page.errors
        assert page.ask("document.querySelectorAll('img, iframe, object, embed, form, body script ~ script').length") == 0
        page.ask("document.querySelector('.sentence').style.color = '#555'")
        assert [each.split()[0] for each in page.ask(FAINT)] == ["P.sentence"], "faint text would be seen"


def test_the_keyboard_and_screen_readers_reach_everything(report: str, tmp_path: Path) -> None:
    with browsing(report, tmp_path / "profile", 500, 900) as shown:
        page = opened(shown)
        key = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
        page.call("Input.dispatchKeyEvent", type="rawKeyDown", **key)
        assert page.ask("document.activeElement.getAttribute('href')") == "#findings"
        assert page.ask("document.activeElement.getBoundingClientRect().left >= 0"), "a link in focus can be seen"
        scrolling = (
            "[...document.querySelectorAll('main *')].filter((box) => (box.scrollWidth > box.clientWidth + 1 && "
            "['auto', 'scroll'].includes(getComputedStyle(box).overflowX) || box.scrollHeight > box.clientHeight + 1 && "
            "['auto', 'scroll'].includes(getComputedStyle(box).overflowY)) && "
            "!(box.tabIndex === 0 && box.getAttribute('role') && (box.ariaLabel || box.getAttribute('aria-labelledby'))))"
            ".map((box) => box.outerHTML.slice(0, 80))"
        )
        assert page.ask(scrolling) == [], "every box that scrolls can be focused and has a name"
        assert page.ask("[...document.querySelectorAll('thead th')].every((head) => head.scope === 'col')")
        links = "[...document.querySelectorAll('a[href^=\"#\"]')].filter((a) => !document.getElementById(a.hash.slice(1))).length"
        assert page.ask(links) == 0, "every link leads somewhere"
        named = "every((part) => document.getElementById(part.getAttribute('aria-labelledby')))"
        assert page.ask(f"[...document.querySelectorAll('main > section')].{named}"), "every section has a heading"
