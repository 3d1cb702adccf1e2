"""Operators that run steps. Airflow decides when; what a step does, reuses and remembers is the library's business."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from airflow.sdk.log import mask_secret

from foundry_airflow.asset_events import announce
from foundry_airflow.backends import Backend, backend, checked, configured, parameters_of
from foundry_airflow.calls import Call, Ended, call_of
from foundry_airflow.engines import EngineBackend
from foundry_airflow.tries import again, has_more, so_far, told_of_both, with_more
from pipeline_tasks.core.errors import FoundryError, TransientError
from pipeline_tasks.core.execution.runner import run_job
from pipeline_tasks.core.local_files import for_a_form
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.plan import Job, plan
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.settings import secret_values
from pipeline_tasks.core.step import Step
from pipeline_tasks.core.store import Store, open_store

if TYPE_CHECKING:
    from foundry_airflow.outline import OutlinedTask

log = logging.getLogger(__name__)

SKIPS = (False, None, "", "False", "None")
JSON_STARTS = ("[", "{", '"')
OTHER_WORK = "%s was to make %s, and would make %s by now: its parameters or its code changed, so that is other work"


@contextmanager
def airflow_errors() -> Iterator[None]:
    """Turn errors of the library into what Airflow makes of them: try again, or fail at once."""
    try:
        yield
    except TransientError as error:
        raise AirflowException(str(error)) from None
    except FoundryError as error:
        raise AirflowFailException(str(error)) from None


class PlannedOperator(BaseOperator):
    """A step with inputs and parameters as Airflow gives them.

    Args:
        step: the step's name.
        inputs: input name -> ``dataset[@version]``, the output of another step, or a list of these. A list goes without
            what a skipped step should have given; alone that leaves an optional input its default, and else skips this
            step too. An empty list is no version. A mapped task takes from a list the dataset that it reads.
        values: parameters; None and the empty string leave the step's own default.
        each: parameters of one mapped task, on top of ``values``.
        only_if: a template or parameter; the step is skipped where it comes out empty or false.
        otherwise: what the log then says.
    """

    template_fields: Sequence[str] = ("inputs", "values", "each", "only_if")
    ui_color = "#e8f1f2"

    def __init__(
        self,
        *,
        step: str,
        inputs: dict[str, Any] | None = None,
        values: dict[str, Any] | None = None,
        each: dict[str, Any] | None = None,
        only_if: Any = True,
        otherwise: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.step = step
        self.inputs = inputs or {}
        self.values = values or {}
        self.each = each or {}
        self.only_if = only_if
        self.otherwise = otherwise or f"{step} has nothing to do in this run"

    @property
    def map_label(self) -> str:
        """What the mapped task is called in the UI."""
        return ", ".join(f"{name} {value}" for name, value in self.each.items())

    def parameters(self) -> dict[str, Any]:
        """The parameters that were set, here or by the operator, and the device of a container."""
        return parameters_of(get_step(self.step), {**self.values, **self.each})

    def job(self, store: Store, inputs: dict[str, list[str]] | None = None) -> Job:
        """What there is to do, down to the exact version that will be made; with ``inputs`` as planned before, if any.

        Raises:
            AirflowSkipException: ``only_if`` is not met, or an input was skipped.
        """
        with for_a_form():
            return plan(
                store, get_step(self.step), self.parameters(), self.input_versions() if inputs is None else inputs
            )

    def input_versions(self) -> dict[str, list[str]]:
        """Input name -> versions, of the inputs that it is told.

        Raises:
            AirflowSkipException: ``only_if`` is not met, or an input was skipped.
        """
        if self.only_if in SKIPS:
            raise AirflowSkipException(self.otherwise)
        step, found = get_step(self.step), {}
        for name, value in self.inputs.items():
            if value is None and step.reads[name].optional:
                continue
            found[name] = list(flat(value))
            skipped = not found[name] and value != [] and not step.reads[name].optional
            if skipped and name in step.read_with(step.parse(self.parameters())):
                raise AirflowSkipException(f"{self.step}: the step that makes {name} was skipped")
            if any(f"{{{parameter}}}" in step.reads[name].dataset for parameter in self.each):
                found[name] = self._own(step, name, found[name])
        return found

    def _own(self, step: Step, name: str, made: list[str]) -> list[str]:
        """Of what the tasks of a mapped step made, that of the dataset which this task reads; its latest if none is."""
        datasets = step.reads[name].defaults(step.parse(self.parameters()))
        return [version for version in made if Ref.parse(version).dataset in datasets] or datasets


def nothing_outlined(task: OutlinedTask) -> None:
    """What an outline has of a task that makes no version and tells later ones nothing."""


def flat(value: Any) -> Iterator[str]:
    """The versions in ``value``, nested or not; what was skipped is None."""
    if isinstance(value, str):
        yield value
    elif value is not None:
        for item in value:
            yield from flat(item)


class StepOperator(PlannedOperator):
    """Makes a step's version and pushes ``dataset@version``; a version that is there costs no process.

    Args:
        group: ``i/n``: only compute that group of parts of a map step, and commit nothing.
    """

    template_fields = (*PlannedOperator.template_fields, "group")

    def __init__(self, *, group: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.group = group
        self._backend: Backend | None = None
        self._killed = False

    @property
    def map_label(self) -> str:
        """The group, counted from 1, or the parameters of this mapped task."""
        if not self.group:
            return super().map_label
        i, n = self.group.split("/")
        return f"group {int(i) + 1}/{n}"

    def execute(self, context: Context) -> str:
        """Find the version or make it."""
        return self._find_or_make(context)

    def _find_or_make(self, context: Context) -> str:
        with airflow_errors():
            store = open_store()
            job = self.job(store)
            found = job.made(store)
            if found:
                log.info("%s is there already", found)
                if not self.group:
                    run_job(store, job)  # which tells the lineage that it was found
            return self._made(context, str(found) if found else self._run(store, job))

    @staticmethod
    def outlined(task: OutlinedTask) -> None:
        """Note the step, or one for each value of a parameter; groups of its parts are the commit's business."""
        if "group" not in task.expanded:
            task.note()

    def resume(
        self,
        context: Context,
        event: dict[str, Any],
        before: str | None = None,
        more: bool = False,
        version: str = "",
        inputs: dict[str, list[str]] | None = None,
    ) -> str:
        """Go on after the wait for a command, with how it ended.

        ``before``: how far it had come, ``more``: it had more memory, ``version`` and ``inputs``: what it was to make,
        and of what. Where that would be another version by now, nothing is repeated: it is other work.
        """
        ended, job = Ended(**event), None
        with airflow_errors():
            if ended.exit_code:
                store = open_store()
                call = self._call(job := self.job(store, inputs))
                if version and call.version != version:
                    log.warning(OTHER_WORK, self.step, version, call.version)
                    job = None
                elif following := self._again(store, job, with_more(call) if more else call, ended, before):
                    return self._made(context, self._run(store, job, following))
            return self._made(context, self._planned(self._result(ended, job), version))

    def _made(self, context: Context, made: str) -> str:
        if not self.group:
            announce(context, self.outlets, Ref.parse(made))
        return made

    def _result(self, ended: Ended, job: Job | None = None) -> str:
        """What the command made; where it was ended or is gone, another task that followed it may know that it did."""
        if job and ended.why and not self.group and (found := job.made(open_store())):
            log.info("%s is there: %s", found, ended.why)
            return str(found)
        return checked(self.step, told_of_both(self.step, ended))

    def _planned(self, made: str, version: str) -> str:
        """What the command made, which is what was planned: an image of another release makes something else."""
        if version and not self.group and not get_step(self.step).grows and Ref.parse(made).version != version:
            raise AirflowFailException(
                f"{self.step} was to make {Ref.parse(made).dataset}@{version}, and its container made {made}: its "
                "image is of another release than Airflow's, or sees other settings; build it anew (`make images`), "
                "or name the right one in [foundry]"
            )
        return made

    def _run(self, store: Store, job: Job, following: Call | None = None) -> str:
        for value in secret_values():
            mask_secret(value)
        name, call = configured(), following or self._call(job)
        log.info("foundry %s", json.dumps(call.arguments, ensure_ascii=False))
        self._backend = backend(name)
        if self._killed:  # before there was a back-end to be told
            self._backend.cancel()
        before = so_far(store, job, self.group)
        if isinstance(self._backend, EngineBackend) and conf.getboolean("foundry", "deferrable", fallback=False):
            from foundry_airflow.trigger import CommandTrigger

            self._backend.start(call, log.info)
            inputs = {name: job.input_names.get(name, []) for name in job.step.reads}
            kwargs: dict[str, Any] = {"before": before, "version": call.version, "inputs": inputs}
            kwargs |= {"more": True} if has_more(call) else {}
            self.defer(trigger=CommandTrigger(name, call.name), method_name="resume", kwargs=kwargs)
        said = [""]

        def say(line: str) -> None:
            log.info(line)
            said[0] = line

        ended = self._backend.run(call, say)
        while ended.exit_code and (following := self._again(store, job, call, ended, before)):
            call = following
            before = so_far(store, job, self.group)
            ended = self._backend.run(call, say)
        return self._planned(self._result(replace(ended, said=said[0]), job), call.version)

    def _again(self, store: Store, job: Job, call: Call, ended: Ended, before: str | None) -> Call | None:
        """What is to run now within the same try; nothing once the task is cancelled, also while this waits."""
        following = None if self._killed else again(store, job, call, ended, before)
        return None if self._killed else following

    def _call(self, job: Job) -> Call:
        group = ["--group", self.group] if self.group else []
        return call_of(job, [*self._arguments(job, "run"), *group], self.group)

    def _arguments(self, job: Job, command: str) -> list[str]:
        """Of a ``foundry`` command about the step as it is planned."""
        arguments = [command, self.step]
        for name in {**job.input_names, **self.inputs}:
            refs = job.input_names.get(name, [""])
            arguments += [part for ref in refs for part in ("--input", f"{name}={ref}")]
        for name, value in self.parameters().items():
            arguments += ["--set", f"{name}={_text(value)}"]
        return arguments

    def on_kill(self) -> None:
        """End the step with the task: Airflow calls this from a signal's handler, and what it interrupted goes on."""
        self._killed = True
        if self._backend is not None:
            self._backend.cancel()


def _text(value: Any) -> str:
    """``value`` so that the command line reads the same value: text that looks like JSON is quoted as JSON."""
    return value if isinstance(value, str) and not value.startswith(JSON_STARTS) else json.dumps(value)
