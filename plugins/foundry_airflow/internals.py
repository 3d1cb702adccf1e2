"""What Airflow keeps to itself and we use nevertheless; nothing else in ``plugins/`` and ``dags/`` does.

The rest is Airflow's public interface: ``airflow.sdk``, and for plugins, triggers and listeners
``airflow.plugins_manager``, ``airflow.triggers.base`` and ``airflow.listeners``. A minor release may change what is
here, so ``pyproject.toml`` allows the minors that ``make test-airflow`` was run with. Each import waits for its use: a
worker needs none of the web server.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from starlette.requests import Request


class User(Protocol):
    """Somebody who is logged in to Airflow."""

    def get_name(self) -> str:
        """What they are called."""


async def logged_in(request: Request) -> User:
    """The user of a request, by Airflow's cookie or token.

    Raises:
        HTTPException: there is none.
    """
    from airflow.api_fastapi.core_api.security import bearer_scheme, get_user

    return await get_user(request, None, await bearer_scheme(request))


def may_read_assets(user: User) -> bool:
    """Whether Airflow lets ``user`` read assets."""
    from airflow.api_fastapi.app import get_auth_manager

    return get_auth_manager().is_authorized_asset(method="GET", user=user)


def may_trigger_runs(user: User) -> bool:
    """Whether Airflow lets ``user`` start DAG runs."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity

    return get_auth_manager().is_authorized_dag(method="POST", access_entity=DagAccessEntity.RUN, user=user)


def migrate() -> None:
    """Bring Airflow's database up to date; quick where it is."""
    from airflow.utils.db import check_migrations, initdb

    try:
        check_migrations(0)
    except TimeoutError:
        initdb()


def dag_bag(folder: Path) -> Any:
    """The DAGs of ``folder`` by id in ``dags``, and in ``import_errors`` what is wrong with its files."""
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(folder)


def command_line() -> None:
    """Do what ``airflow`` does with the arguments of this process."""
    from airflow.__main__ import main

    main()
