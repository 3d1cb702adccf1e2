"""The sub-application: static page and API behind one door, every answer with headers that keep foreign code out."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse, JSONResponse
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lineage_page.access import Door
from lineage_page.routes import router
from pipeline_tasks.core.errors import FoundryError, InputError
from pipeline_tasks.web import HEADERS

STATIC = Path(__file__).parent / "static"
RETRY_AFTER_S = "3"


class Headers:
    """Around the app: adds :data:`~pipeline_tasks.web.HEADERS` to every answer, refusals and errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, receive, with_headers)


@cache
def make_app() -> FastAPI:
    """The page, its API below ``api/``, and what the API can do at ``openapi.json`` and, to be read, ``docs``."""
    app = FastAPI(
        title="Lineage of Retriever Foundry",
        version="1",
        description="What was made of what, from PDF to model. Log in to Airflow, or send its token as a bearer.",
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(Door)
    app.add_exception_handler(FoundryError, _error_response)
    app.include_router(router, prefix="/api")
    app.add_api_route("/", _page, include_in_schema=False)
    app.add_api_route("/docs", _docs, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC, packages=[("pipeline_tasks.web", "static")]))
    return app


def _page() -> FileResponse:
    return FileResponse(STATIC / "index.html")


def _docs() -> FileResponse:
    return FileResponse(STATIC / "docs.html")


def _error_response(_: Request, error: Exception) -> JSONResponse:
    if isinstance(error, InputError):
        return JSONResponse({"detail": str(error)}, 400)
    return JSONResponse({"detail": str(error)}, 503, {"Retry-After": RETRY_AFTER_S})
