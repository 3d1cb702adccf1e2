"""The page in a real browser, as a user: log in, look around, trace, compare, ask, be refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from airflow_web import ASK, PASSWORD, TITLE, Server

from tests.chromium import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with chromium() as found:
        yield found


@pytest.fixture
def troubles() -> list[str]:
    """What the browser complained of."""
    return []


def log_in(browser, server: Server, user: str, troubles: list[str]):
    page = browser.new_page(viewport={"width": 1440, "height": 860})
    page.set_default_timeout(20_000)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda said: troubles.append(said.text) if "Content Security Policy" in said.text else None)
    page.on("dialog", lambda dialog: (troubles.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.goto(f"{server.url}/lineage/")
    page.wait_for_url("**/auth/login**")
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", PASSWORD)
    page.click("button[type=submit]")
    page.wait_for_url("**/lineage/")
    return page


@pytest.fixture
def page(browser, server: Server, troubles: list[str]) -> Iterator:
    found = log_in(browser, server, "ada", troubles)
    yield found
    found.context.close()
    assert troubles == []


def test_it_leads_to_where_the_corpus_is_asked(page):
    assert page.locator("nav a:text-is('Ask')").get_attribute("href") == ASK


def test_a_busy_server_is_asked_again(page):
    busy = [503]

    def once(route):
        if not busy:
            return route.continue_()
        route.fulfill(status=busy.pop(), headers={"Retry-After": "0.1"}, json={"detail": "others are answered"})

    page.route("**/api/version?*", once)
    page.click(".node[aria-label^='documents,'][aria-label$='latest']")
    page.wait_for_selector(".panel h2:text-is('documents')")
    assert not busy


def test_the_graph_opens_versions_and_follows_the_keyboard(page):
    page.click(".node[aria-label^='documents,'][aria-label$='latest']")
    page.wait_for_selector(".panel h2:text-is('documents')")
    assert page.locator(".node.selected").count() == 1
    assert "toy_documents code version 1" in page.inner_text(".panel")
    page.click(".toolbar button:has-text('Only what it touches')")
    page.wait_for_selector(".toolbar button:has-text('The newest of everything')")
    page.locator(".node.selected").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.wait_for_selector(".panel h2:has-text('urls')")
    page.go_back()
    page.wait_for_selector(".panel h2:text-is('documents')")
    page.fill("input[list=versions]", "labelled")
    page.keyboard.press("Enter")
    page.wait_for_selector(".panel h2:has-text('labelled')")


@pytest.mark.parametrize("name", ["documents@latest", "documents"])
def test_a_link_to_the_latest_version_selects_it_in_the_first_graph(page, server: Server, name):
    latest = "[aria-label^='documents,'][aria-label$='latest']"
    page.goto(f"{server.url}/lineage/#/graph/{name}")
    page.wait_for_selector(".panel h2:text-is('documents')")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/api/graph" in request.url else None)
    page.reload()
    page.wait_for_selector(f".node.selected{latest}")
    page.wait_for_selector(".panel h2:text-is('documents')")
    assert len(asked) == 1
    page.click(".toolbar button:has-text('Only what it touches')")
    page.wait_for_selector(".toolbar button:has-text('The newest of everything')")
    assert page.locator(".node.selected").count() == page.locator(f".node.selected{latest}").count() == 1


def test_a_version_is_found_that_is_typed_before_the_list_is_there(page):
    held = []
    page.route("**/api/versions*", lambda route: held.append(route))
    page.reload()
    page.wait_for_selector(".node")
    page.fill("input[list=versions]", "labelled")
    page.keyboard.press("Enter")
    held.pop().continue_()
    page.wait_for_selector(".panel h2:has-text('labelled')")


def test_titles_ids_and_rejects_are_text_only(page, server: Server):
    page.goto(f"{server.url}/lineage/#/graph/documents")
    page.wait_for_selector(".panel h3:has-text('First rows')")
    assert f"Title {TITLE}" in page.inner_text(".panel")
    page.goto(f"{server.url}/lineage/#/trace")
    page.click(f".results a:has-text('{TITLE[:8]}')")
    page.wait_for_selector(".steps")
    assert f"Title {TITLE}" in page.inner_text(".steps")
    page.goto(f"{server.url}/lineage/#/sql")
    page.fill("textarea", "SELECT '<script>alert(2)</script>' AS \"<img src=x onerror=alert(1)>\"")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("td:has-text('alert(2)')")
    assert page.title() == "Lineage"
    assert page.locator("main script, main img").count() == 0


def test_an_address_that_is_a_program_is_no_link(page):
    urls = ["javascript:alert(1)", " JavaScript:alert(1)", "data:text/html,x", "https://example.org"]
    tags = page.evaluate("urls => import('./static/dom.js').then(m => urls.map(u => m.outside(u).tagName))", urls)
    assert tags == ["SPAN", "SPAN", "SPAN", "A"]


def test_inline_programs_do_not_run(page, troubles: list[str]):
    script = "Object.assign(document.createElement('script'), { textContent: 'document.title = 1' })"
    page.evaluate(f"document.body.append({script})")
    assert page.title() == "Lineage"
    assert troubles and "Content Security Policy" in troubles.pop()
    troubles.clear()


def test_a_query_is_traced_to_its_page(page, server: Server):
    page.goto(f"{server.url}/lineage/#/trace/q-n-p-d-a")
    page.wait_for_selector(".steps")
    story = page.inner_text(".story")
    unpaid = "The paid answer 1111111111111111 is not in the store."
    for words in ("https://example.org/a.pdf", "On page 3", "passage of d-a", unpaid, "accepted", "mtt/0.75"):
        assert words in story
    page.goto(f"{server.url}/lineage/#/trace/nothing")
    page.wait_for_selector("[role=alert]:has-text('no query and no passage')")


def test_two_versions_are_compared(page, server: Server):
    page.goto(f"{server.url}/lineage/#/graph/documents")
    page.click(".panel a:has-text('compare')")
    page.wait_for_selector(".tile.good")
    assert page.locator(".tile.good strong").inner_text() == "1"
    assert page.locator(".tile.bad strong").inner_text() == "1"


def test_the_latest_version_is_chosen_where_the_address_says_latest(page, server: Server):
    page.goto(f"{server.url}/lineage/#/compare/documents@latest/documents")
    page.wait_for_selector(".tile.good")
    for label in ("old version", "new version"):
        chosen = page.locator(f"select[aria-label='{label}'] option:checked").inner_text()
        assert chosen.startswith("documents ") and chosen.endswith(" (latest)")


def test_versions_are_gone_through_with_the_keyboard(page, server: Server):
    page.goto(f"{server.url}/lineage/#/graph/documents")
    page.click(".panel a:has-text('compare')")
    page.wait_for_selector(".tile.good")
    old = page.locator("select[aria-label='old version']")
    before = old.element_handle()
    old.focus()
    old.select_option(index=1)
    before.wait_for_element_state("hidden")
    page.wait_for_selector("select[aria-label='old version']:focus")


def test_sql_is_answered_and_a_write_is_refused(page, server: Server):
    page.goto(f"{server.url}/lineage/#/sql")
    page.fill("textarea", "FROM range(5000)")
    page.click("button.primary")
    page.wait_for_selector("p.warn:has-text('the first 1,000 rows; there are more')")
    with page.expect_download() as saved:
        page.click("button:has-text('Save as CSV')")
    assert saved.value.path().read_text().splitlines()[:2] == ['"range"', '"0"']
    page.fill("textarea", "SELECT '=1+1' AS a, -1 AS b, 'a-b' AS c")
    page.click("button.primary")
    page.wait_for_selector("td:has-text('=1+1')")
    with page.expect_download() as saved:
        page.click("button:has-text('Save as CSV')")
    assert saved.value.path().read_text().splitlines()[1] == '''"'=1+1","-1","a-b"''', "a sheet would compute it"
    page.fill("textarea", "DROP TABLE steps")
    page.click("button.primary")
    page.wait_for_selector("[role=alert]:has-text('read-only')")


def test_a_viewer_has_no_sql_box(browser, server: Server, troubles: list[str]):
    page = log_in(browser, server, "vera", troubles)
    page.goto(f"{server.url}/lineage/#/sql")
    page.wait_for_selector(".state:has-text('SQL is not open to you')")
    assert page.locator("textarea").count() == 0
    page.context.close()
    assert troubles == []


def test_it_lives_in_airflows_own_page_in_its_colours(page, server: Server):
    page.evaluate("localStorage.setItem('theme', 'dark')")
    page.goto(f"{server.url}/plugin/lineage")
    inside = page.frame_locator("iframe")
    inside.locator(".node").first.wait_for()
    assert inside.locator("html").get_attribute("data-theme") == "dark"
    inside.locator("nav a:has-text('SQL')").click()
    inside.locator("textarea").wait_for()
