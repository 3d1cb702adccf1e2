"""What code decides a step's rows: everything its body reaches in this package, each with a hash of what it says.

Nothing is run to find it: imports are read from the syntax tree, those inside functions too, and a string that begins
like a module of ours stands for that module, or for all whose names begin so. The hash is over the tree without
docstrings, help texts and what only type checkers read, so that words and formatting do not count.

What does not count, and why:

- ``core``, but for the modules that put values into rows: it runs every step, and its own tests say that it changes
  none. ``models.fetch``: what it brings is in the id by its sha256.
- package data: what a step reads of ``domains/`` and ``models/data/`` is in its id by value. So is the code of a
  training's objective, which it finds by name: an objective that is added or changed has no say in the other models.
- a room's list of its steps; other packages, whose versions are in the id where they matter.
"""

from __future__ import annotations

import ast
import importlib
from dataclasses import dataclass, fields
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.step import Resources, Step

ROOT = Path(__file__).parents[3]
PACKAGE = __name__.partition(".")[0]
SCHEMAS = f"{PACKAGE}.datasets"
CORE = f"{PACKAGE}.core"
IN_ROWS = {f"{CORE}.{name}" for name in ("compiled", "growth", "ids", "vectors")}
NOT_IN_ROWS = {f"{PACKAGE}.models.fetch"}
NO_OUTPUT = {
    "step": {"version", "processes", *(field.name for field in fields(Resources))},
    "Field": {"description"},
    "tuning": {"description"},
    "added": {"description"},
    "resolved": {"description"},
}
"""Function -> arguments that change no row: where a step runs and what a form says."""


@dataclass(frozen=True)
class _Module:
    """One file: the hash of what it says, the dotted names that it imports, the texts that may name code."""

    hash: str
    imports: frozenset[str]
    texts: frozenset[str]


def closure(step: Step) -> dict[str, str]:
    """File, script or ``rows:<schema>`` -> hash, of everything that decides what ``step`` makes."""
    ours = _ours()
    found: dict[str, str] = {}
    todo, seen = [step.body.__module__], set()
    while todo:
        name = todo.pop()
        if name in seen or not _counts(name):
            continue
        seen.add(name)
        path = ROOT / ours[name]
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        module = _module(path.read_text("utf-8"), package)
        found[ours[name]] = module.hash
        for dotted in module.imports:
            base, _, last = dotted.rpartition(".")
            if base == SCHEMAS:
                found |= _schema(last)
            else:
                todo += {dotted if dotted in ours else base} & ours.keys()
        for text in module.texts:
            if text.startswith(f"{PACKAGE}."):
                todo += [text] if text in ours else [name for name in ours if name.startswith(text)]
            elif (ROOT / "sql" / text).is_file():
                found[f"sql/{text}"] = _script(ROOT / "sql" / text)
    return found


def meaning(source: str) -> str:
    """A hash of Python code that only another meaning changes: no comment, docstring, help text or formatting does."""
    return short_id(_plain(_bare(source)))


def _counts(name: str) -> bool:
    in_core = f"{name}.".startswith(f"{CORE}.")
    return name in IN_ROWS if in_core else name != PACKAGE and name not in NOT_IN_ROWS


def _ours() -> dict[str, str]:
    """Module -> file, of the whole package."""
    paths = (path.relative_to(ROOT) for path in (ROOT / PACKAGE).rglob("*.py"))
    return {".".join((p.parent if p.name == "__init__.py" else p.with_suffix("")).parts): str(p) for p in paths}


@cache
def _module(source: str, package: str) -> _Module:
    bare = _bare(source)
    imports: set[str] = set()
    texts: set[str] = set()
    for node in ast.walk(bare):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            imports |= {f"{module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts |= {node.value} if node.value.startswith(f"{PACKAGE}.") or node.value.endswith(".sql") else set()
    return _Module(short_id(_plain(bare)), frozenset(imports), frozenset(texts))


def _schema(name: str) -> dict[str, str]:
    """The row schema of that name in :data:`SCHEMAS`, without what its columns mean to a reader."""
    schema = getattr(importlib.import_module(SCHEMAS), name)
    return {f"rows:{name.lower()}": short_id(schema.key, [[c.name, str(c.type)] for c in schema.columns])}


def _script(path: Path) -> str:
    """A hash of SQL without indents, blank lines and lines that are a comment."""
    lines = (line.strip() for line in path.read_text("utf-8").splitlines())
    return short_id([line for line in lines if line and not line.startswith("--")])


class _Bare(ast.NodeTransformer):
    """Takes out what has no say in what is computed."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        is_for_types = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return None if is_for_types else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        mute = NO_OUTPUT.get(node.func.id, set()) if isinstance(node.func, ast.Name) else set()
        node.keywords = [keyword for keyword in node.keywords if keyword.arg not in mute]
        return self.generic_visit(node)


def _bare(source: str) -> ast.AST:
    return _Bare().visit(ast.parse(source))


def _plain(node: Any) -> Any:
    """A tree as lists of names and values: unlike ``ast.dump`` the same for every Python that parses it alike."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    filled = ((name, value) for name, value in ast.iter_fields(node) if value is not None and value != [])
    return [type(node).__name__, *([name, _plain(value)] for name, value in filled)]
