"""What to search the web for: the plans in a domain's ``search.toml``, each a template and the lists that fill it."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from string import Formatter

from pydantic import BaseModel, ConfigDict, Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.domains.intents import read_toml

FILE = "search.toml"


class SearchPlan(BaseModel):
    """One grid of searches; its axes are whatever the domain calls its lists."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    template: str = Field(min_length=1, description="a query with {axis} for every list")
    lists: dict[str, str] = Field(min_length=1, description="axis -> file of its terms, beside search.toml")


def load_plan(domain: Path, name: str) -> SearchPlan:
    """The plan ``name`` of the domain in the folder ``domain``.

    Raises:
        InputError: there is none, its template asks for more than terms, or it and its lists do not name the same axes.
    """
    path = domain / FILE
    plans = read_toml(path, dict[str, SearchPlan])
    if name not in plans:
        raise InputError(f"{path} has no plan {name!r}; its plans are: {', '.join(plans) or 'none'}")
    plan = plans[name]
    try:
        parsed = [(field, spec or how) for _, field, spec, how in Formatter().parse(plan.template) if field is not None]
    except ValueError as error:
        raise InputError(f"{path}: template of {name!r}: {error}; write {{axis}} for a list's term") from error
    if formatted := next((field for field, how in parsed if how), ""):
        what = f"{{{formatted}}} has a format or a conversion"
        raise InputError(f"{path}: template of {name!r}: {what}; write {{axis}} for a list's term")
    fields = {field for field, _ in parsed}
    if fields != set(plan.lists):
        raise InputError(
            f"{path}: the template of {name!r} has the axes {sorted(fields)}, its lists are {sorted(plan.lists)}; "
            "name the same in both"
        )
    return plan


def searches(domain: Path, plan: SearchPlan) -> Iterator[tuple[str, dict[str, str]]]:
    """Every query of ``plan`` with the terms that it was made from; the last list varies fastest.

    Raises:
        InputError: a list is missing, is no UTF-8 text, or has no terms.
    """
    terms = {axis: terms_of(domain / file, axis) for axis, file in plan.lists.items()}
    for row in product(*terms.values()):
        chosen = dict(zip(terms, row, strict=True))
        yield " ".join(plan.template.format(**chosen).split()), chosen


def files_sha256(domain: Path, plan: SearchPlan) -> str:
    """sha256 over the template and the lists of ``plan``: what they say decides what is searched."""
    digest = hashlib.sha256(plan.model_dump_json().encode())
    for axis, file in sorted(plan.lists.items()):
        digest.update("\n".join(["", axis, *terms_of(domain / file, axis)]).encode())
    return digest.hexdigest()


def terms_of(path: Path, axis: str) -> list[str]:
    """The terms of a list, in its order.

    Raises:
        InputError: it is missing, is no UTF-8 text, or has no terms.
    """
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the list {path} of {axis!r} cannot be read ({error}); give one term a line") from error
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if path.suffix == ".csv":
        table = csv.DictReader(io.StringIO("\n".join(lines)))
        if axis not in (table.fieldnames or ()):
            raise InputError(f"{path} has no column {axis!r}; its columns are: {', '.join(table.fieldnames or ())}")
        lines = [row[axis] or "" for row in table]
    terms = [" ".join(line.split()) for line in lines if line.strip()]
    if not terms:
        raise InputError(f"the list {path} of {axis!r} is empty; give one term a line")
    return terms
