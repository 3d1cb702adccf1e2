"""Who may see the lineage: Airflow's users, by Airflow's rights. Airflow itself asks nobody before a plugin's pages.

| right in Airflow | what it opens |
|---|---|
| read assets | page, API, static files, everything below the prefix |
| trigger DAG runs | the SQL box as well: it costs time, and reads any row |
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import Depends, HTTPException, Request
from foundry_airflow.internals import User, logged_in, may_read_assets, may_trigger_runs
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

LOGIN = "/api/v2/auth/login"
USER = "lineage_user"


class Door:
    """Lets nobody in, to whatever path, who is not logged in and may not read the lineage.

    Without a login the page leads to Airflow's, and everything else is 401; without the right it is 403.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        else:
            request = Request(scope)
            refusal = await self._refusal(request)
            await (refusal or self._app)(scope, receive, send)

    async def _refusal(self, request: Request) -> Response | None:
        try:
            user = await logged_in(request)
        except HTTPException as error:
            return _to_login(request) or JSONResponse({"detail": error.detail}, error.status_code)
        if not await run_in_threadpool(may_read_assets, user):
            return JSONResponse({"detail": "the lineage is for those who may read assets"}, 403)
        request.scope[USER] = user
        return None


def _to_login(request: Request) -> Response | None:
    """Airflow's login, then back here; only for a person who opens the page itself."""
    root, here = request.scope.get("app_root_path", ""), request.scope["path"]
    if request.method != "GET" or here != f"{request.scope.get('root_path', '')}/":
        return None
    return RedirectResponse(f"{root}{LOGIN}?next={quote(here)}", 303)


def current_user(request: Request) -> User:
    """The user whom :class:`Door` let in."""
    return request.scope[USER]


CurrentUser = Annotated[User, Depends(current_user)]


def requires_sql(user: CurrentUser) -> None:
    """Refuses whoever may not run SQL."""
    if not may_trigger_runs(user):
        raise HTTPException(403, "SQL is for those who may trigger DAG runs")


def requires_own_page(request: Request) -> None:
    """Refuses a request that another site's page made this browser send; JSON and SameSite cookies stop it, too."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HTTPException(403, "this request comes from another site's page")
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "send application/json")
