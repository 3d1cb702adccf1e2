"""Run steps by hand, look at what they made. Results go to stdout, logs and progress to stderr."""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from pipeline_tasks.core import lines
from pipeline_tasks.core.errors import FoundryError
from pipeline_tasks.core.settings import tell_libraries

MODULES = {
    "run": "run",
    "steps": "run",
    "ls": "inspect",
    "show": "inspect",
    "export": "export",
    "plan": "plan",
    "sweep": "sweep",
    "estimate": "estimate",
    "batch": "batch",
    "evaluate": "evaluate",
    "report": "report",
    "sql": "inspect",
    "trace": "trace",
    "ask": "ask",
    "tensorboard": "tensorboard",
    "point": "point",
    "judge": "judge",
    "agreement": "agreement",
    "diversity": "diversity",
    "models": "models",
    "domain": "domain",
    "fold": "fold",
    "metrics": "metrics",
    "gc": "gc",
    "compact": "compact",
    "check": "check",
    "erase": "erase",
    "sync": "sync",
    "stale": "stale",
    "lock": "lock",
    "doctor": "doctor",
}
"""Command -> the file of this room that has its function ``<command>_command``, or ``app`` where it has commands."""


class Commands(TyperGroup):
    """All commands, each loaded when it is asked for: a step's process pays for its own alone."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names as the help lists them."""
        return list(MODULES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, if there is one."""
        if cmd_name not in MODULES:
            return None
        module = import_module(f"pipeline_tasks.cli.{MODULES[cmd_name]}")
        found = getattr(module, "app", None)
        if found is None:
            found = typer.Typer(add_completion=False)
            found.command(cmd_name)(getattr(module, f"{cmd_name}_command"))
        command = typer.main.get_command(found)
        command.name = cmd_name
        return command


app = typer.Typer(
    cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__
)


@app.callback()
def _all() -> None:
    """Typer makes a group of what has a callback."""


def main() -> None:
    """Entry point: errors of ours become one line and their exit code (2: do not retry, 75: try again)."""
    tell_libraries()
    try:
        lines.set_up()
        app()
    except FoundryError as error:
        lines.say(f"foundry: {error}", logging.ERROR)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
