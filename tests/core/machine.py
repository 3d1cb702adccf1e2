"""A model of the store, and schedules of everything that may happen to it: Hypothesis chooses, the store must hold.

A schedule is a dozen of: the world changes; a step runs; garbage is collected; small parts are put together; the
lineage is folded; an item is erased. At any file operation (in a bucket: at any request) of these the process may be
killed, the power may be cut, or another process may collect garbage and put parts together, or run a step. After each
of them everything that has a name must be whole, and what was told must be there; at the end, undisturbed, every
dataset must hold what the world says.
"""

from __future__ import annotations

import random
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from hashlib import sha256
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pipeline_tasks.core.erasure.erase import Erased, erase
from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.lineage import fold
from pipeline_tasks.core.manifest import PREVIOUS, Manifest, Ref
from pipeline_tasks.core.step import Step
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.store.protocol import sha256_in
from pipeline_tasks.core.upkeep.compact import compact, find_scattered
from pipeline_tasks.core.upkeep.gc import drop, find_garbage, manifests_at
from tests.core.faults import Fault, Faults, Killed, breakable, fault_within
from tests.core.toy_steps import (
    ITEMS,
    SCALED,
    make,
    rows_of,
    toy_bare,
    toy_gather,
    toy_list,
    toy_scale,
    toy_total,
    toy_unique,
)  # fmt: skip
from tests.power import Disk

SCHEMAS = {schema.name: schema for schema in (ITEMS, SCALED)}
CHAIN: tuple[Step, ...] = (toy_scale, toy_unique, toy_bare, toy_total, toy_gather)
NAMES = [short_id("item", n) for n in range(6)]
_WAIT_S = 0.2
_PART_BYTES = 1_500


class StoreMachine(RuleBasedStateMachine):
    """See the module; ``place`` makes a new place for a store, ``opened`` opens it as a new process would."""

    place: ClassVar[Callable[[], Any]]
    opened: ClassVar[Callable[[Any], Store]]
    disks: ClassVar[bool] = True
    counts: ClassVar[Counter[str]]

    @initialize()
    def begin(self) -> None:
        """A store with a world of two items, and a part of the chain."""
        self.where = type(self).place()
        self.store = type(self).opened(self.where)
        self.world = {name: n for n, name in enumerate(NAMES[:2])}
        self.listed: dict[str, int] | None = None
        self.told: set[Ref] = set()
        self.erased: dict[str, bool] = {}
        self.faults = Faults()
        self.stack = ExitStack()
        self.disk = Disk(self.where) if self.disks else None
        if self.disk:
            self.stack.enter_context(self.disk.watched())
        self.stack.enter_context(breakable(self.faults, bucket=not self.disks))
        for which in range(-1, 2):
            self._make(self.store, which)

    @rule(name=st.sampled_from(NAMES), value=st.integers(0, 3), there=st.booleans(), fault=fault_within(60))
    def refresh(self, name: str, value: int, there: bool, fault: Fault) -> None:
        """An item comes, changes or goes, and the world is listed; one that was erased stays away."""
        if there and name not in self.erased:
            self.world[name] = value
        else:
            self.world.pop(name, None)
        self._with(fault, lambda store: self._make(store, -1))

    @rule(which=st.integers(0, len(CHAIN) - 1), fault=fault_within(60))
    def run(self, which: int, fault: Fault) -> None:
        """A step of the chain."""
        self._with(fault, lambda store: self._make(store, which))

    @rule(keep=st.sampled_from([None, 1, 1, 2]), memo=st.booleans(), fault=fault_within(40))
    def collect(self, keep: int | None, memo: bool, fault: Fault) -> None:
        """Garbage, with no grace."""
        self._with(fault, lambda store: self._collect(store, keep, memo))

    @rule(fault=fault_within(40), parts=st.integers(1, 4))
    def put_together(self, fault: Fault, parts: int) -> None:
        """Small parts into packs of a few."""
        self._with(fault, lambda store: self._compact(store, parts))

    @rule(fault=fault_within(4), really=st.sampled_from([False, False, True]))
    def fold(self, fault: Fault, really: bool) -> None:
        """The lineage, which takes longest."""
        if really:
            self._with(fault, fold)

    @rule(which=st.integers(0, 5), fault=fault_within(120))
    def take_down(self, which: int, fault: Fault) -> None:
        """An item that was listed; half of them stay."""
        if self.listed and len(self.erased) < 3:
            name = sorted(self.listed)[which % len(self.listed)]
            self.world.pop(name, None)
            self.erased.setdefault(name, False)
            self._with(fault, lambda store: self._erase(store, name))

    @rule(which=st.integers(0, len(CHAIN) - 1))
    def again(self, which: int) -> None:
        """What a step just made it finds made: nothing that it says is made is not there."""
        ref = self._make(self.store, which)
        if ref:
            assert make(self.store, CHAIN[which]).ref == ref
            self._rows(ref.dataset)

    def _with(self, fault: Fault, work: Callable[[Store], Any]) -> None:
        """``work``, disturbed or not; whoever was killed is started anew."""
        kind, at = fault
        others: list[threading.Thread] = []
        disturbed, failed = [], []

        def happens() -> None:
            disturbed.append(kind)
            if kind in ("kill", "cut"):
                self.faults.kill()
                raise Killed
            others.append(threading.Thread(target=self._beside, args=(kind, failed)))
            others[-1].start()
            others[-1].join(_WAIT_S)

        with self.faults.at(at, happens):
            try:
                work(self.store)
            except Killed:
                pass
        self.counts[kind if disturbed else "nothing"] += 1
        for other in others:
            other.join()
        if failed:
            raise failed[0]
        self.store = type(self).opened(self.where)
        if kind == "cut" and self.disk:
            self.disk.cut(random.Random(at))
            self.disk.settle()

    def _beside(self, kind: str, failed: list[BaseException]) -> None:
        """What another process does meanwhile."""
        there = type(self).opened(self.where)
        try:
            if kind == "collect":
                self._collect(there, 1, memo=True)
                self._compact(there, 2)
            else:
                self._make(there, -1)
                self._make(there, 0)
        except BaseException as error:
            failed.append(error)

    def _make(self, store: Store, which: int) -> Ref | None:
        """A step of the chain, or below zero the list of the world; None where its input was never made."""
        world = dict(self.world)
        values = {"rows": world, "max_withdrawn": 1.0} if which < 0 else {}
        try:
            ref = make(store, CHAIN[which] if which >= 0 else toy_list, **values).ref
        except InputError as error:
            assert "is not in the store" in str(error) or "has no parts" in str(error), error
            return None
        assert ref
        self.told.add(ref)
        if which < 0:
            self.listed = (self.listed or {}) | world
        return ref

    def _collect(self, store: Store, keep: int | None, memo: bool) -> None:
        before, sweep = set(self.told), find_garbage(store, keep=keep, memo=memo, grace_s=0)
        for key in sweep.keys["versions"]:  # from now on it may be gone; one that is killed does not say
            dataset, _, version = key.removeprefix("versions/").removesuffix(".json").rpartition("/")
            self.told.discard(Ref(dataset=dataset, version=version))
        drop(store, sweep)
        self.told |= before & {manifest.ref for manifest in self._manifests(store)}

    @staticmethod
    def _compact(store: Store, parts: int) -> None:
        compact(store, find_scattered(store, grace_s=0, pack_bytes=parts * _PART_BYTES))

    def _erase(self, store: Store, name: str) -> Erased | None:
        try:
            done = erase(store, [name], SCHEMAS)
        except TransientError as error:
            assert "runs; erase again" in str(error), error
            return None
        assert done.findings and done.findings.clean, done.findings
        self.erased[name] = True
        return done

    @staticmethod
    def _manifests(store: Store) -> list[Manifest]:
        return list(manifests_at(store, store.keys("versions")).values())

    @invariant()
    def everything_with_a_name_is_whole(self) -> None:
        """Objects are what they are called, versions have all parts, refs lead to versions, what was told is there."""
        sizes = {}
        for key in self.store.keys("objects"):
            data = self.store.read(key) or b""
            assert sha256(data).hexdigest() == sha256_in(key), f"half: {key}"
            sizes[key] = len(data)
        manifests = {manifest.ref: manifest for manifest in self._manifests(self.store)}
        for manifest in manifests.values():
            for part in manifest.objects:
                assert sizes.get(part.key) == part.size_bytes, f"{manifest.ref} has lost {part.key}"
        for key, named in self.store.read_all(self.store.keys("refs")):
            ref = Ref(dataset=key.split("/")[1], version=(named or b"").decode())
            assert ref in manifests, f"{key} leads nowhere"
        assert self.told <= manifests.keys(), f"lost: {self.told - manifests.keys()}"

    def teardown(self) -> None:
        """Undisturbed, everything ends as the world says, and what was erased is nowhere."""
        if not hasattr(self, "stack"):
            return
        try:
            for name in self.erased:
                assert self._erase(self.store, name)
            self._make(self.store, -1)
            for which in range(len(CHAIN)):
                self._make(self.store, which)
            self._compare()
            self.everything_with_a_name_is_whole()
            self._collect(self.store, 1, memo=True)
            there = {str(manifest.ref): manifest for manifest in self._manifests(self.store)}
            for manifest in there.values():
                needed = {name for role, names in manifest.inputs.items() if role != PREVIOUS for name in names}
                assert needed <= there.keys(), f"{manifest.ref} has lost what it was made of"
            self._compare()
            self.everything_with_a_name_is_whole()
        finally:
            self.stack.close()
            if self.disk:
                shutil.rmtree(self.where)

    def _compare(self) -> None:
        items = {row["item_id"]: row["value"] for row in self._rows("items")}
        assert items == self.world
        assert {row["item_id"]: row["value"] for row in self._rows("scaled")} == {k: 2 * v for k, v in items.items()}
        assert sorted(row["value"] for row in self._rows("unique")) == sorted({2 * v for v in items.values()})
        if items and not self.erased:  # a sum has no ids, and stays as it is
            assert self._rows("totals") == [{"total_id": "all", "value": 2 * sum(set(items.values()))}]
        assert not {row["item_id"] for row in self._rows("gathered")} & self.erased.keys()

    def _rows(self, dataset: str) -> list[dict]:
        try:
            return rows_of(self.store, dataset)
        except InputError as error:
            assert "is not in the store" in str(error) or "has no parts" in str(error), error
            return []
