"""Pages in a real browser, its network off: drawn, quiet, read by keyboard, light and dark, narrow and on paper."""

from __future__ import annotations

from pathlib import Path

import pytest
from chromium import HOW_TO_GET_IT, Page, browsing
from made_up_pages import CHARTS, HOSTILE, ODD, PAGE, QUOTED

from boundby.report.html import render_html

ITEMS = [sum(len(line.x) for line in chart.lines) + len(chart.marks) + len(chart.bars) for chart in CHARTS]
COLORS_DRAWN = """
(() => {
  const canvas = boundby.charts[%d].view.canvas_view.primary.canvas;
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const found = {};
  for (let place = 0; place < data.length; place += 4) {
    if (data[place + 3] > 250) {
      const color = "#" + [0, 1, 2].map(at => data[place + at].toString(16).padStart(2, "0")).join("");
      found[color] = (found[color] ?? 0) + 1;
    }
  }
  return found;
})()
"""


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / 'it\'s a "page" & more.html'
    path.write_text(render_html(PAGE), encoding="utf-8")
    return path


@pytest.fixture
def page(browser: Page, page_file: Path) -> Page:
    browser.open(page_file)
    return browser


def said(page: Page, chart: int) -> list[str]:
    """What a chart shows beside the mark that one is at; empty where it shows nothing."""
    lines = page.run(
        f"(tip => tip.hidden ? [] : [...tip.children].map(x => x.innerText))(boundby.charts[{chart}].reader.tip)"
    )
    assert isinstance(lines, list)
    return lines


def enter(page: Page, chart: int) -> None:
    page.run(f"boundby.charts[{chart}].element.focus()")


def test_a_page_is_drawn_without_a_network_and_without_complaint(page: Page, page_file: Path) -> None:
    assert page.run("boundby.charts.length") == len(CHARTS)
    assert page.run("boundby.charts.map(chart => chart.items.length)") == ITEMS
    assert page.problems == []
    assert page.requests == [page_file.as_uri()]
    # Everything is in the file, and a table that nobody needs is closed.
    assert page.run("[...document.querySelectorAll('details')].map(each => each.open)") == [False] * len(CHARTS)


def test_the_policy_forbids_what_the_page_does_not_do(page: Page) -> None:
    assert page.run("fetch('https://example.org').then(() => 'reached', () => 'refused')") == "refused"
    assert page.run("(() => { try { return new Function('return 1')() } catch { return 'refused' } })()") == "refused"
    injected = "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.got = 1'}))"
    page.run(f"{injected}; 1")
    assert page.run("window.got") is None
    assert page.problems != []


def test_names_of_a_users_code_stay_text(page: Page) -> None:
    assert page.run("document.querySelectorAll('img, [onerror]').length") == 0
    assert HOSTILE in page.run("document.querySelector('header').innerText")
    enter(page, 0)
    page.press("Home")
    page.press("ArrowDown", times=2)
    told = said(page, 0)
    assert told[0] == f"{HOSTILE} 0"
    assert QUOTED in told
    assert page.run("document.querySelectorAll('.tip img, .tip script').length") == 0


def test_one_stop_a_chart_and_every_mark_by_the_arrows(page: Page) -> None:
    stops = []
    for _ in range(2 * len(CHARTS)):
        page.press("Tab")
        stops.append(page.run("document.activeElement.className || document.activeElement.tagName"))
    # The drawing and its table's switch, and none of the drawing's own buttons.
    assert stops == ["plot", "SUMMARY"] * len(CHARTS)
    for number, chart in enumerate(CHARTS):
        enter(page, number)
        reached = set()
        series = page.run(f"new Set(boundby.charts[{number}].items.map(item => item.series)).size")
        page.press("Home")
        for _ in range(series):
            page.press("Home")
            for _ in range(ITEMS[number]):
                reached.add(page.run(f"boundby.charts[{number}].reader.at"))
                page.press("ArrowRight")
            page.press("Home")
            page.press("ArrowDown")
        assert reached == set(range(ITEMS[number])), chart.name
        page.press("Escape")
        assert said(page, number) == []


def test_a_mark_says_the_same_to_pointer_keyboard_and_screen_reader(page: Page) -> None:
    page.run("boundby.charts[1].element.scrollIntoView({block: 'center'})")
    x, y = page.run(
        "(() => { const chart = boundby.charts[1], box = chart.element.getBoundingClientRect(), item = chart.items[3],"
        " [x, y] = chart.pixel(item.x, item.y); return [box.left + x + 2, box.top + y - 2] })()"
    )
    page.point(x, y)
    page.until("boundby.charts[1].reader.at === 3")
    pointed = said(page, 1)
    assert pointed == ["seen", "batch: 8", "time of a call: 3.40 ms (3.20 ms to 3.60 ms)", "measured"]
    page.point(1, 1)
    page.until("boundby.charts[1].reader.at === null")
    enter(page, 1)
    page.press("Home")
    page.press("ArrowRight", times=3)
    assert said(page, 1) == pointed
    assert page.run("boundby.charts[1].reader.live.textContent").startswith(". ".join(pointed))
    assert page.run("boundby.charts[1].reader.live.getAttribute('aria-live')") == "polite"
    assert page.run("boundby.charts[1].element.getAttribute('aria-label')").startswith("Time by batch. Time grows")


def test_keys_zoom_and_a_mark_out_of_sight_is_brought_back(page: Page) -> None:
    enter(page, 1)
    page.press("Home")
    before = page.run("boundby.charts[1].plot.x_range.end")
    page.press("+", times=4)
    assert page.run("boundby.charts[1].plot.x_range.end") < before
    page.press("End")
    page.until(f"Math.abs(boundby.charts[1].plot.x_range.end - {before}) < 1e-9")
    assert said(page, 1)[1] == "batch: 16"


def test_light_and_dark_are_followed_when_they_change(page: Page) -> None:
    assert "#0072b2" in page.run(COLORS_DRAWN % 1)
    page.prefer("dark")
    page.until(f"'#4aa8e8' in {COLORS_DRAWN % 1}")
    assert "#0072b2" not in page.run(COLORS_DRAWN % 1)
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 28)"


@pytest.mark.parametrize("width", [360, 1600])
def test_no_width_makes_the_page_scroll_sideways(browser: Page, page_file: Path, width: int) -> None:
    browser.open(page_file, width=width)
    assert browser.run("document.documentElement.scrollWidth") == width
    enter(browser, 0)
    browser.press("End")
    browser.press("ArrowDown", times=20)
    left, right = browser.run("(b => [b.left, b.right])(boundby.charts[0].reader.tip.getBoundingClientRect())")
    assert left >= 0
    assert right <= width
    # A window that is made narrow later, too.
    browser.resize(360, 900)
    browser.until("boundby.charts.every(chart => chart.view.canvas_view.primary.canvas.clientWidth <= 360)")
    # Names over the drawing follow it a moment later.
    browser.until("document.documentElement.scrollWidth === 360")
    assert browser.run("document.documentElement.scrollWidth") == 360


def test_paper_is_light_whatever_the_screen(browser: Page, page_file: Path, tmp_path: Path) -> None:
    browser.open(page_file, scheme="dark")
    printed = COLORS_DRAWN.replace(
        "boundby.charts[%d].view.canvas_view.primary.canvas", "document.querySelector('#times .printed')"
    )
    browser.run("dispatchEvent(new Event('beforeprint'))")
    colors = browser.run(printed)
    assert "#0072b2" in colors
    assert "#4aa8e8" not in colors
    browser.run("dispatchEvent(new Event('afterprint'))")
    browser.until(f"'#4aa8e8' in {COLORS_DRAWN % 1}")
    assert browser.run("document.querySelectorAll('.printed').length") == 0
    browser.print_to(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    assert browser.problems == []


@pytest.mark.parametrize("width", [360, 1100])
def test_odd_charts_are_drawn_too(browser: Page, tmp_path: Path, width: int) -> None:
    path = tmp_path / "odd.html"
    path.write_text(render_html(ODD), encoding="utf-8")
    browser.open(path, width=width)
    assert browser.problems == []
    assert browser.run("document.documentElement.scrollWidth") == width
    # What has no place has no words either; all else has, at a place that is shown.
    assert browser.run("boundby.charts.map(chart => chart.items.length)") == [0, 0, 1, 1, 3, 2, 25]
    assert browser.run(
        "boundby.charts.every(chart => chart.items.every(item => chart.visible(chart.pixel(item.x, item.y))))"
    )


def test_where_charts_cannot_be_drawn_their_tables_stand_open(browser: Page, page_file: Path, tmp_path: Path) -> None:
    html = page_file.read_text(encoding="utf-8")
    start = html.index('id="library">') + len('id="library">')
    broken = tmp_path / "broken.html"
    broken.write_text(f"{html[:start]}AAAA{html[start + 4 :]}", encoding="utf-8")
    browser.open(broken)
    assert browser.run("[...document.querySelectorAll('details')].every(each => each.open)")
    assert "could not be drawn" in browser.run("document.querySelector('.plot').innerText")
    assert browser.problems != []


def test_without_a_browser_the_tests_say_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMIUM", "no-such-browser")
    with pytest.raises(AssertionError, match="apt-get install chromium"), browsing(tmp_path):
        pass
    assert "CHROMIUM" in HOW_TO_GET_IT
