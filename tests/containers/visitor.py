"""What a user does in Airflow's pages: log in, fill the form of a DAG, look at a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.containers.stack import Stack

SIZE = {"width": 1440, "height": 860}
PATIENCE_MS = 180_000


class Visitor:
    """One browser window at the stack's pages.

    Attributes:
        page: Playwright's page.
        complaints: errors in the lineage page, and windows that any page opened.

    Args:
        shots: where pictures go, if they are wanted.
    """

    def __init__(self, browser: Any, stack: Stack, shots: Path | None = None) -> None:
        self.page = browser.new_page(viewport=SIZE)
        self.page.set_default_timeout(PATIENCE_MS)
        self.complaints: list[str] = []
        self.page.on("pageerror", self._complain)
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self._stack, self._shots = stack, shots

    def _complain(self, error: Any) -> None:
        """Airflow's own pages have errors of their own."""
        if urlsplit(self.page.url).path.startswith("/lineage"):
            self.complaints.append(str(error))

    def open(self, path: str) -> None:
        """Go to an address of the stack; the page is left first, so that one with another #… is read anew, too."""
        self.page.goto("about:blank")
        self.page.goto(self._stack.url + path)

    def log_in(self, password: str) -> None:
        """Answer the login form that is shown."""
        self.page.fill("input[name=username]", self._stack.settings["ADMIN_USER"])
        self.page.fill("input[name=password]", password)
        self.page.locator("[type=submit]").first.click()

    def trigger(self, dag: str, fill: Callable[[Any], None], picture: str) -> str:
        """Start a run by the form of ``dag`` that ``fill`` fills in; the run's address in the API."""
        self.open(f"/dags/{dag}")
        self.page.get_by_role("button", name="Trigger").first.click()
        form = self.page.get_by_role("dialog")
        form.get_by_role("checkbox", name="Unpause").wait_for()
        fill(form)
        self.picture(picture)
        asked = f"/dags/{dag}/dagRuns"
        with self.page.expect_response(lambda r: r.request.method == "POST" and r.url.endswith(asked)) as answer:
            form.get_by_test_id("trigger-dag-submit").click()
        assert answer.value.ok, answer.value.text()
        return f"dags/{dag}/dagRuns/{answer.value.json()['dag_run_id']}"

    def statement(self, sql: str) -> list[list[str]]:
        """Rows of the answer that the SQL page shows."""
        self.open("/lineage/#/sql")
        self.page.fill("textarea", sql)
        self.page.get_by_role("button", name="Run", exact=True).click()
        self.page.locator(".result table, .result [role=alert]").first.wait_for()
        rows = self.page.locator(".result tbody tr").all()
        return [row.locator("td").all_inner_texts() for row in rows]

    def picture(self, name: str) -> None:
        """Keep what is seen, where pictures are wanted."""
        if self._shots:
            self.page.wait_for_load_state("networkidle")
            self.page.screenshot(path=self._shots / f"{name}.png", animations="disabled")
