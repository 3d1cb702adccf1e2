"""A step: a pure function from input datasets and parameters to one output dataset and its rejects.

Three kinds behind one decorator:

- ``map``: ``(rows, params, run) -> table`` once per part of its first input; every output part is memoised by its input
  part. A body sees all live rows of one part and must not depend on any other row.
- ``reduce``: ``(inputs, params, run) -> tables`` over whole datasets.
- ``partitioned``: as reduce, but its body only says which partitions there are and how they are merged; functions
  compute over one of them each, and are memoised (see :mod:`pipeline_tasks.core.partitions`).

A reduce step may *keep* inputs: its output is the parts of those inputs, untouched, minus the rows that its body
rejects (de-duplication identifies, it never copies). It may *grow* its output: its body sees the version before, yields
new rows only and withdraws others by key (how the outside world enters; see :mod:`pipeline_tasks.core.growth`).
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.schema import RowSchema
from pipeline_tasks.core.settings import Secret
from pipeline_tasks.core.wire import without_user

if TYPE_CHECKING:
    from pipeline_tasks.core.run import Inputs

Kind = Literal["map", "reduce", "partitioned"]


class StepParams(BaseModel):
    """Typed parameters of a step: its command line, its form in the UI and part of its version id."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)

    def identity(self) -> dict[str, Any]:
        """What enters the version id: all fields but those declared with :func:`tuning`, or :func:`added` and left.

        A step that reads the world beside its inputs (model weights, prompt files, a site) overrides this to add what
        identifies that world (a sha256).
        """
        hidden = {n for n, f in type(self).model_fields.items() if _stays_out(f, getattr(self, n))}
        return self.model_dump(mode="json", exclude=hidden)

    @classmethod
    def from_identity(cls, identity: dict[str, Any]) -> dict[str, Any]:
        """What to parse for the parameters of this :meth:`identity`, without what that adds to them."""
        return {name: value for name, value in identity.items() if name in cls.model_fields}

    def licences(self) -> dict[str, str]:
        """Model -> licence of the weights that the step itself runs; written into the manifest, not into the id."""
        return {}

    def licences_beside(self, inputs: Collection[str]) -> dict[str, str]:
        """Those of :meth:`licences` where these inputs are given; an input may take the place of weights."""
        return self.licences()

    def check_inputs(self, inputs: Collection[str]) -> None:
        """Raise an :class:`InputError` where a run with these inputs alone, by name, could only fail."""

    def check_versions(self, inputs: Inputs) -> None:
        """Raise an :class:`InputError` where these versions give something wrong, also what is made of them already.

        Inputs that an earlier step of a chain is yet to make are absent.
        """

    def unread(self) -> frozenset[str]:
        """Inputs that a run with these parameters does not read: they are left out of the job, also where given."""
        return frozenset()

    def secrets(self, declared: tuple[Secret, ...]) -> tuple[Secret, ...]:
        """Those of the step's secrets that a run with these parameters needs."""
        return declared


def tuning(default: Any = PydanticUndefined, **kwargs: Any) -> Any:
    """A parameter that changes how fast a step runs but never what it makes; kept out of the version id."""
    return Field(default, json_schema_extra={"tuning": True}, **kwargs)


def added(default: Any, **kwargs: Any) -> Any:
    """A parameter that came when versions had been made without it: left at its default, it changes no version id."""
    return Field(default, json_schema_extra={"added": True}, **kwargs)


def _stays_out(parameter: FieldInfo, value: Any) -> bool:
    marks = parameter.json_schema_extra if isinstance(parameter.json_schema_extra, dict) else {}
    return bool(marks.get("tuning")) or (bool(marks.get("added")) and value == parameter.default)


class GrowthParams(StepParams):
    """Parameters of a step whose dataset grows."""

    max_withdrawn: float = tuning(
        0.2, ge=0, le=1, description="largest share of the rows that a run may withdraw; 1: all of them may go"
    )


class NoParams(StepParams):
    """A step without parameters."""


@dataclass(frozen=True)
class From:
    """Where an input comes from unless the caller says otherwise.

    Attributes:
        schema: rows expected; None for a model's files.
        dataset: default dataset name; ``{param}`` is filled from the parameters.
        each: name of a parameter that holds a tuple: one dataset per item, ``{item}`` is filled from it.
        read_by: name of an input before it: in place of a default, the latest of the datasets that the versions of that
            one read under this one's name. Of what the caller gives, versions of other datasets are not read.
        optional: the step also runs without it.
        may_be_none: the step also runs without it where the caller says that there is none.
    """

    schema: RowSchema | None
    dataset: str = ""
    each: str = ""
    read_by: str = ""
    optional: bool = False
    may_be_none: bool = False

    def defaults(self, params: StepParams) -> list[str]:
        """The dataset names read by default.

        Raises:
            InputError: a parameter that names several has one of them more than once.
        """
        template = self.dataset or (self.schema.name if self.schema else "")
        values = params.model_dump()
        if self.read_by:
            return []
        if not self.each:
            return [template.format(**values)]
        named = values[self.each]
        if twice := [item for at, item in enumerate(named) if item in named[:at]]:
            raise InputError(f"{self.each} names {twice[0]!r} more than once: name it once")
        return [template.format(**values, item=item) for item in named]


@dataclass(frozen=True)
class Resources:
    """What one run of the step needs; back-ends and pools follow it.

    Attributes:
        memory_gib: the run is ended beyond that, in a container or a pod.
        more_memory_gib: what a container, a pod or a task of a cluster that was out of memory gets once; None: nothing.
        timeout_minutes: of one try; 0: no limit.
        gpus: cards; None: as many as the installation gives to a step that asks for the image ``gpu``.
        nodes: of a Ray cluster, on which one training runs at once, with that much memory and as many cards on each.
        retries: tries after the first one.
        resumes: a try goes on from what an ended one left; one that came further does not count as a try.
        secrets: keys of services that it asks, by their names in the settings; it is given no others.
    """

    image: Literal["cpu", "gpu"] = "cpu"
    pool: str = ""
    memory_gib: float = 2.0
    more_memory_gib: float | None = None
    timeout_minutes: float = 24 * 60
    gpus: int | None = None
    nodes: int = 1
    retries: int = 3
    resumes: bool = False
    secrets: tuple[Secret, ...] = ()


@dataclass(frozen=True)
class Step:
    """A declared step; see :func:`step`."""

    name: str
    body: Callable[..., Any]
    kind: Kind
    reads: dict[str, From]
    writes: RowSchema | None
    dataset: str
    params: type[StepParams]
    version: str
    keeps: tuple[str, ...] = ()
    grows: bool = False
    always: bool = False
    processes: bool = False
    resources: Resources = field(default_factory=Resources)

    @property
    def doc(self) -> str:
        """First line of the body's docstring."""
        return (self.body.__doc__ or "").strip().split("\n")[0]

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return _load_step, (self.body.__module__, self.name)

    def read_with(self, params: StepParams) -> dict[str, From]:
        """The inputs that a run with ``params`` reads."""
        return {name: read for name, read in self.reads.items() if name not in params.unread()}

    def output(self, params: StepParams) -> str:
        """Name of the dataset written with ``params``."""
        return self.dataset.format(**params.model_dump())

    def parse(self, values: dict[str, Any]) -> StepParams:
        """Typed parameters from ``values`` (strings as from a command line, or JSON values).

        Raises:
            InputError: an unknown parameter or a value of the wrong kind, naming what is allowed.
        """
        for name, value in values.items():
            try:
                json.dumps(value, ensure_ascii=False, default=str).encode()
            except UnicodeEncodeError as error:
                raise InputError(f"{self.name}: {name}={value!a} is no UTF-8; rename what it names") from error
        try:
            return self.params.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(x) for x in first["loc"]) or "parameters"
            known = list(self.params.model_fields)
            hint = f" (parameters: {', '.join(known) or 'none'})"
            if first["type"] == "extra_forbidden" and "." not in name:
                near = "".join(f"; did you mean {one!r}?" for one in get_close_matches(name, known, 1))
                raise InputError(f"{self.name} has no parameter {name!r}{near}{hint}") from error
            hint = hint if first["type"] == "missing" else ""
            if first["type"] == "tuple_type" and isinstance(first["input"], str):
                listed = json.dumps(first["input"].split(","), ensure_ascii=False)
                hint = without_user(f"; write it as JSON: '{name}={listed}'")
            raise InputError(
                f"{self.name}: {name}={without_user(repr(first['input']))}: {first['msg']}{hint}"
            ) from error


def _load_step(module: str, name: str) -> Step:
    return getattr(importlib.import_module(module), name)


def step(
    *,
    reads: dict[str, RowSchema | From],
    writes: RowSchema | None,
    kind: Kind,
    dataset: str = "",
    version: str = "1",
    keeps: tuple[str, ...] = (),
    grows: bool = False,
    always: bool = False,
    processes: bool | None = None,
    image: Literal["cpu", "gpu"] = "cpu",
    pool: str = "",
    memory_gib: float = 2.0,
    resumes: bool = False,
    secrets: tuple[Secret, ...] = (),
) -> Callable[[Callable[..., Any]], Step]:
    """Declare a step.

    Args:
        reads: input name -> rows expected (and default dataset). A map step maps over the first.
        writes: rows written; None for a model's files.
        kind: ``map``, ``reduce`` or ``partitioned``.
        dataset: name of the output, with ``{param}``; the schema's name where empty.
        version: raise it whenever the same inputs would give another output; it is part of every version id and memo.
        keeps: inputs whose parts are the output, minus what the body rejects (no map step).
        grows: the output is its previous version plus what the body yields, minus what it withdraws (reduce). Its
            parameters are :class:`GrowthParams`.
        always: run the body also where the latest version answers the same request: it must look outside to know.
        processes: compute parts or partitions in several processes; None: partitions alone.
        image: container image.
        pool: Airflow pool that limits it (``llm``, ``gpu``).
        memory_gib: memory one run needs.
        resumes: a killed run goes on from what it left in its scratch folder; other kinds than reduce always go on.
        secrets: keys of services that the body asks (``llm``, ``embeddings``, ``search``); the store's need no word.
    """

    def wrap(body: Callable[..., Any]) -> Step:
        return Step(
            name=body.__name__,
            body=body,
            kind=kind,
            reads={n: r if isinstance(r, From) else From(r) for n, r in reads.items()},
            writes=writes,
            dataset=dataset or (writes.name if writes else ""),
            params=get_type_hints(body).get("params", NoParams),
            version=version,
            keeps=keeps,
            grows=grows,
            always=always,
            processes=kind == "partitioned" if processes is None else processes,
            resources=Resources(image, pool, memory_gib, resumes=resumes or kind != "reduce", secrets=secrets),
        )

    return wrap
