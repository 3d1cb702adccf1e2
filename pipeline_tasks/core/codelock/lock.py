"""``steps.lock``: the code of every step as it was when somebody last said what its change means for old results.

A line an item, sorted: ``step:NAME VERSION``, and the hash of each file, script and row schema that some step reaches.
Two branches merge it as they merge any list; where they collide, `foundry lock --all` writes it again.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline_tasks.core.codelock.closure import ROOT, closure
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.registry import get_step, step_names

LOCK = ROOT / "steps.lock"
_STEP = "step:"
_HEAD = "# Written by `foundry lock`; see docs/concepts.md, the code version.\n"


@dataclass(frozen=True)
class Lock:
    """The code of all steps.

    Attributes:
        versions: step -> its ``version=``.
        items: what steps reach -> hash.
    """

    versions: dict[str, str]
    items: dict[str, str]

    def __str__(self) -> str:
        lines = self.items | {f"{_STEP}{name}": version for name, version in self.versions.items()}
        return _HEAD + "".join(f"{name} {value}\n" for name, value in sorted(lines.items()))


@dataclass(frozen=True)
class Change:
    """A step whose code is another than in the lock, under a version that was not raised.

    Attributes:
        step: its name.
        locked: its version in the lock.
        version: its version now.
        items: what changed of what it reaches.
    """

    step: str
    locked: str
    version: str
    items: tuple[str, ...]

    def __str__(self) -> str:
        if self.version != self.locked:
            return (
                f"{self.step}: version={self.version!r} is below {self.locked!r} in {LOCK.name}: results of older code "
                f"would be found again; raise it above, or if they are the same: `foundry lock {self.step}`"
            )
        return (
            f"{self.step} v{self.version}: what it runs has changed: {', '.join(self.items)}. If the same inputs may "
            f"now give another output, raise version= in @step; if not, say so: `foundry lock {self.step}`"
        )


def current() -> tuple[Lock, dict[str, dict[str, str]]]:
    """The lock of the code as it is, and step -> what it reaches."""
    steps = [get_step(name) for name in step_names()]
    reached = {step.name: closure(step) for step in steps}
    items = {name: value for found in reached.values() for name, value in found.items()}
    return Lock({step.name: step.version for step in steps}, items), reached


def read() -> Lock:
    """The lock in the file.

    Raises:
        InputError: there is none, or a line is not an item and its value.
    """
    if not LOCK.is_file():
        raise InputError(f"there is no {LOCK}: run this in a checkout; there `foundry lock --all` writes it anew")
    found: dict[str, str] = {}
    for number, line in enumerate(LOCK.read_text("utf-8").splitlines(), 1):
        if line.startswith("#"):
            continue
        name, _, value = line.partition(" ")
        if not value or " " in value:
            raise InputError(
                f"{LOCK}, line {number}: {line!r} is no item and value; `foundry lock --all` writes it anew"
            )
        found[name] = value
    versions = {name.removeprefix(_STEP): value for name, value in found.items() if name.startswith(_STEP)}
    return Lock(versions, {name: value for name, value in found.items() if not name.startswith(_STEP)})


def write(lock: Lock) -> None:
    """Put ``lock`` into the file.

    Raises:
        InputError: this is no checkout.
    """
    if not (LOCK.parent / "pyproject.toml").is_file():
        raise InputError(f"{LOCK.parent} is no checkout; {LOCK.name} is part of the source, not of an installation")
    LOCK.write_text(str(lock), "utf-8")


def unsettled(locked: Lock, now: Lock, reached: dict[str, dict[str, str]]) -> list[Change]:
    """The steps of which nobody has said what their change means: raised versions and new steps are answers."""
    found = []
    for step, version in now.versions.items():
        before = locked.versions.get(step)
        if before is None or int(version) > int(before):
            continue
        items = tuple(sorted(name for name, value in reached[step].items() if locked.items.get(name) != value))
        if items or version != before:
            found.append(Change(step, before, version, items))
    return found
