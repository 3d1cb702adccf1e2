"""Toy steps in which every feature of the core is used once; importable, so that worker processes find them."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.execution.runner import Outcome, run_job
from pipeline_tasks.core.growth import difference
from pipeline_tasks.core.manifest import Part, Ref
from pipeline_tasks.core.partitions import Partition, PartitionedRun, pieces
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.schema import Column, RowSchema
from pipeline_tasks.core.step import From, GrowthParams, NoParams, Step, StepParams, step, tuning
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import Version, load_manifest, read_part

ITEM_ID = Column("item_id", pa.string(), "name of an item")
VALUE = Column("value", pa.int64(), "a number")

ITEMS = RowSchema("items", "item_id", (ITEM_ID, VALUE))
SCALED = RowSchema("scaled", "scaled_id", (Column("scaled_id", pa.string(), "s- and the item"), ITEM_ID, VALUE))
BARE = RowSchema("bare", "bare_id", (Column("bare_id", pa.string(), "b- and the value"), VALUE))
TALLY = pa.schema([("value", pa.int64()), ("n", pa.int64())])
TOTALS = RowSchema("totals", "total_id", (Column("total_id", pa.string(), "which total"), VALUE))


class ListParams(GrowthParams):
    """The outside world."""

    rows: dict[str, int] = Field(description="items that exist")
    part_rows: int = Field(2, ge=1, description="items per part")


@step(reads={}, writes=ITEMS, kind="reduce", grows=True, always=True)
def toy_list(inputs: Inputs, params: ListParams, run: Run) -> Iterator[pa.Table]:
    """Every item; negative ones are refused."""
    for item, value in params.rows.items():
        if value < 0:
            run.reject(item, "negative", f"value {value}")
    run.count("rows_in", len(params.rows))
    wanted = [{"item_id": item, "value": value} for item, value in params.rows.items() if value >= 0]
    yield from difference(run, ITEMS, wanted, params.part_rows)


class GatherParams(GrowthParams):
    """What is asked of the world."""

    asked: str = ""
    withdraw: tuple[str, ...] = ()
    repeat: bool = False


@step(reads={"items": ITEMS}, writes=ITEMS, kind="reduce", grows=True, dataset="gathered")
def toy_gather(inputs: Inputs, params: GatherParams, run: Run) -> Iterator[pa.Table]:
    """Items that were not gathered before, one a part."""
    run.count("history", len(list(run.requests())))
    held = run.previous.parts(["item_id"]) if run.previous else ()
    before = {key for table in held for key in table["item_id"].to_pylist()}
    for key in params.withdraw:
        run.withdraw(key)
    for row in inputs["items"].table().to_pylist():
        if row["item_id"] not in before or params.repeat:
            yield ITEMS.table([row])


class ScaleParams(StepParams):
    """How to scale."""

    factor: int = Field(2, ge=1, description="what values are multiplied by")
    effort: int = tuning(0, ge=0, description="rounds of useless work per part")


@step(reads={"items": ITEMS}, writes=SCALED, kind="map", processes=True)
def toy_scale(rows: pa.Table, params: ScaleParams, run: Run) -> Iterator[pa.Table]:
    """Scaled values; 13 is refused."""
    burn(params.effort)
    for row in rows.to_pylist():
        run.count("scaled_rows")
        if row["value"] == 13:
            run.reject(row["item_id"], "unlucky")
            continue
        yield SCALED.table([row | {"scaled_id": f"s-{row['item_id']}", "value": row["value"] * params.factor}])


@step(reads={"scaled": SCALED}, writes=SCALED, kind="reduce", dataset="unique", keeps=("scaled",))
def toy_unique(inputs: Inputs, params: NoParams, run: Run) -> None:
    """Remove every row whose value an earlier row has."""
    seen: dict[int, str] = {}
    for row in inputs["scaled"].table().to_pylist():
        first = seen.setdefault(row["value"], row["scaled_id"])
        if first != row["scaled_id"]:
            run.reject(row["scaled_id"], "duplicate_value", f"of {first}")


@step(reads={"unique": From(SCALED, "unique")}, writes=BARE, kind="map")
def toy_bare(rows: pa.Table, params: ScaleParams, run: Run) -> pa.Table:
    """Values without the item they came from, so that its removals cannot travel."""
    burn(params.effort)
    run.count("bare_rows", rows.num_rows)
    return BARE.table([{"bare_id": f"b-{value}", "value": value} for value in rows["value"].to_pylist()])


@step(reads={"bare": BARE}, writes=TOTALS, kind="reduce")
def toy_total(inputs: Inputs, params: NoParams, run: Run) -> pa.Table:
    """One row: the sum."""
    return TOTALS.table([{"total_id": "all", "value": sum(inputs["bare"].table()["value"].to_pylist())}])


@step(reads={"items": ITEMS}, writes=TOTALS, kind="map", dataset="draws")
def toy_draw(rows: pa.Table, params: NoParams, run: Run) -> pa.Table:
    """One random number per part."""
    return TOTALS.table([{"total_id": "drawn", "value": random.Random(run.seed).getrandbits(40)}])


class TallyParams(StepParams):
    """How the work is cut."""

    piece_rows: int = tuning(2, ge=1, description="items per partition")
    effort: int = tuning(0, ge=0, description="rounds of useless work per partition")
    fail: bool = tuning(False, description="end before the tables are put together")


@step(reads={"items": ITEMS}, writes=TOTALS, kind="partitioned", dataset="tallies")
def toy_tally(inputs: Inputs, params: TallyParams, run: PartitionedRun) -> Iterator[Part]:
    """How many items have each value, even values before odd ones."""
    given = pieces({"items": inputs["items"]}, params.piece_rows)
    cut = [Partition(piece, values={"effort": params.effort}) for piece in given]
    counted = run.spread(tally_piece, cut)
    if params.fail:
        raise TransientError("told to fail")
    merged = [Partition(parts={"counts": [tables[side] for tables in counted]}) for side in (0, 1)]
    for (part,) in run.spread(tally_merged, merged, lasting=False, final=True):
        yield part


def tally_piece(given: Partition, run: Run) -> Iterator[pa.Table]:
    """Value and number of items, of even values and of odd ones; 13 is refused."""
    burn(given.values["effort"])
    rows = [row for table in given.rows["items"].tables(["item_id", "value"]) for row in table.to_pylist()]
    run.count("tallied_rows", len(rows))
    for row in rows:
        if row["value"] == 13:
            run.reject(row["item_id"], "unlucky")
    found = Counter(row["value"] for row in rows if row["value"] != 13)
    for side in (0, 1):
        of_side = sorted(item for item in found.items() if item[0] % 2 == side)
        yield pa.table({"value": [v for v, _ in of_side], "n": [n for _, n in of_side]}, TALLY)


def tally_merged(given: Partition, run: Run) -> Iterator[pa.Table]:
    """The sums over all pieces."""
    totals: Counter[int] = Counter()
    for part in given.parts["counts"]:
        totals.update({row["value"]: row["n"] for row in read_part(run.store, part).to_pylist()})
    yield TOTALS.table([{"total_id": str(value), "value": n} for value, n in sorted(totals.items())])


class ModelParams(StepParams):
    """Size of the model."""

    size: str = "33m"
    fail: str = ""
    effort: int = tuning(0, ge=0, description="rounds of useless work")


@step(reads={"items": ITEMS}, writes=None, kind="reduce", dataset="model/{size}/toy")
def toy_model(inputs: Inputs, params: ModelParams, run: Run) -> Path:
    """Two files, one in a folder of its own; a checkpoint stays in the scratch folder where the body fails."""
    checkpoint = run.scratch / "checkpoint"
    run.count("resumed", int(checkpoint.exists()))
    checkpoint.write_text("half way")
    if params.fail:
        raise {"later": TransientError, "bug": ValueError}[params.fail](f"told to fail: {params.fail}")
    out = run.scratch / "model"
    (out / "config").mkdir(parents=True, exist_ok=True)
    for name in ("weights.bin", "config/card.json"):
        burn(params.effort)
        (out / name).write_text(json.dumps({"name": name, "rows": inputs["items"].table().num_rows}))
    return out


@step(reads={"model": From(None, "model/{size}/toy")}, writes=TOTALS, kind="reduce", dataset="sizes/{size}")
def toy_weigh(inputs: Inputs, params: ModelParams, run: Run) -> pa.Table:
    """One row: bytes of the model."""
    return TOTALS.table([{"total_id": params.size, "value": inputs["model"].manifest.size_bytes}])


def burn(rounds: int) -> None:
    """Work that takes time in proportion to ``rounds`` (about a millisecond each)."""
    data = bytes(1 << 20)
    for _ in range(rounds):
        hashlib.sha256(data).digest()


def make(store: LocalStore, what: Step, *, workers: int = 1, **values: object) -> Outcome:
    """Run ``what`` on its default inputs."""
    return run_job(store, plan(store, what, values), workers=workers)


def rows_of(store: LocalStore, name: str) -> list[dict]:
    """The live rows of a dataset's latest version."""
    return latest(store, name).table().to_pylist()


def latest(store: LocalStore, name: str) -> Version:
    """A dataset's latest version."""
    return Version.open(store, Ref.parse(name))


def check_whole(store: LocalStore) -> dict[str, bytes]:
    """Every manifest, by key: each parses, is named by its content, and every part that it names is whole."""
    found = {}
    for key in store.keys("versions"):
        dataset, _, name = key.removeprefix("versions/").rpartition("/")
        manifest = load_manifest(store, Ref.parse(f"{dataset}@{name.removesuffix('.json')}"))
        assert (manifest.dataset, f"{manifest.id}.json") == (dataset, name)
        for part in manifest.objects:
            data = store.local_path(part.key).read_bytes()
            assert hashlib.sha256(data).hexdigest() == part.sha256
            assert len(data) == part.size_bytes
        found[key] = store.read(key) or b""
    return found
