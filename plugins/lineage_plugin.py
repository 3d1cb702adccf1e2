"""Registers the lineage page with Airflow: a sub-application below ``/lineage``, and its entry in the menu."""

from __future__ import annotations

from urllib.parse import urlsplit

from airflow.plugins_manager import AirflowPlugin
from airflow.sdk.configuration import conf
from starlette.types import Receive, Scope, Send

PREFIX = "/lineage"
ROOT = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")


class Page:
    """The sub-application, imported by its first visitor: Airflow loads plugins in every process, tasks' too."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        from lineage_page.app import Headers, make_app

        await Headers(make_app())(scope, receive, send)


class LineagePlugin(AirflowPlugin):
    """The page and its API; who may see what is in :mod:`lineage_page.access`."""

    name = "retriever_foundry_lineage"
    fastapi_apps = [{"app": Page(), "url_prefix": PREFIX, "name": "Lineage"}]
    external_views = [
        {
            "name": "Lineage",
            "href": f"{ROOT}{PREFIX}/",
            "url_route": "lineage",
            "destination": "nav",
            "nav_top_level": True,
            "icon": f"{ROOT}{PREFIX}/static/icon.svg",
            "icon_dark_mode": f"{ROOT}{PREFIX}/static/icon-dark.svg",
        }
    ]
