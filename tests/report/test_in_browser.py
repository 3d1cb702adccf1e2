"""The page in a browser: it asks nobody for anything, fits a phone, and is light or dark as its reader is."""

from __future__ import annotations

import pytest

from tests.chromium import chromium


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


def test_no_request_leaves_the_page_and_it_fits_every_width(browser, html, tmp_path):
    (tmp_path / "report.html").write_text(html, encoding="utf-8")
    asked, troubles, papers = [], [], set()
    for width, scheme, shown in ((390, "light", "phone"), (820, "dark", "desk"), (1440, "light", "desk")):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda said: troubles.append(said.text))
        page.on("dialog", lambda dialog: (troubles.append(dialog.message), dialog.dismiss()))
        page.goto((tmp_path / "report.html").as_uri())
        page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.locator(f"svg.{shown}").first.is_visible()
        assert page.locator("svg:visible").count() == page.locator(f"svg.{shown}").count() > 5
        papers.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.close()
    assert asked == [(tmp_path / "report.html").as_uri()] * 3
    assert troubles == [] and len(papers) == 2
