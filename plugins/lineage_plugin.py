"""Registers the lineage page with Airflow: a sub-application below ``/lineage``, and its entry in the menu."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin
from lineage_page.app import PREFIX, make_app

NAME = "lineage"


class LineagePlugin(AirflowPlugin):
    """The page and its API; who may see what is in :mod:`lineage_page.access`."""

    name = "retriever_foundry_lineage"
    fastapi_apps = [{"app": make_app(), "url_prefix": PREFIX, "name": NAME}]
    external_views = [
        {
            "name": "Lineage",
            "href": f"{PREFIX}/",
            "url_route": NAME,
            "destination": "nav",
            "category": "browse",
            "icon": f"{PREFIX}/static/icon.svg",
            "icon_dark_mode": f"{PREFIX}/static/icon-dark.svg",
        }
    ]
