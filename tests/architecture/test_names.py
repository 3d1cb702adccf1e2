"""How things are called."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.test_house import below, named, tree

BASE_OF_OBJECTIVES = "pipeline_tasks/training/named.py"
"""Objectives and samplers of users import its names, and so do the identities of models."""
PARTICIPLES = {
    "told", "given", "asked", "kept", "found", "named", "taken", "held", "met", "noted", "known", "seen", "gone",
}  # fmt: skip
"""They say neither what a function does or returns, nor what a class is."""


def covered() -> list[Path]:
    return [path for path in below("pipeline_tasks", "plugins") if named(path) != BASE_OF_OBJECTIVES]


def imported(module: ast.Module) -> set[str]:
    """Names that the imports at the top of a module bind."""
    found = [node for node in module.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    return {(alias.asname or alias.name).split(".")[0] for node in found for alias in node.names}


def local_names(module: ast.Module) -> Iterator[tuple[str, int]]:
    """Parameters, and names that are assigned, each with its line; the attributes of a class are no locals."""
    classes = [node for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
    fields = [part for node in classes for part in node.body if isinstance(part, (ast.Assign, ast.AnnAssign))]
    attributes = {name for part in fields for name in ast.walk(part) if isinstance(name, ast.Name)}
    for node in ast.walk(module):
        if isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in attributes:
            yield node.id, node.lineno


def test_nothing_is_called_by_a_bare_participle():
    wrong = [
        f"{named(path)}:{node.lineno} {node.name}"
        for path in [*covered(), *below("dags", "benchmarks", "containers")]
        for node in ast.walk(tree(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and node.name.lstrip("_").lower() in PARTICIPLES
    ]
    assert wrong == [], "call it by a verb, or by a noun of what it returns"


def test_no_local_has_the_name_of_an_import():
    wrong = [
        f"{named(path)}:{line} {name}"
        for path in covered()
        for name, line in local_names(tree(path))
        if name in imported(tree(path))
    ]
    assert len(covered()) > 400
    assert wrong == []
