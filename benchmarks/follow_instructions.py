"""What training on tuples adds to an embedder's p-MRR, and costs of its plain NDCG, on queries that it has not seen.

No LLM takes part: tuples are made by rules from one part of the judged sets' queries, and instructions to score by are
made by other rules, in other words, for another part. One model learns from the tuples of all sets.

Source: InF-IR, Table 3 and section 6, for what is varied.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from instructed_sets import SETS, Instructed, Values, against, instructed, values_of
from measure import finish, sd, show
from planted_tuples import KINDS, WORDINGS, tuples_of
from short_trainings import placed

from pipeline_tasks.core.ids import digest, file_sha256
from pipeline_tasks.core.settings import settings
from pipeline_tasks.curation.check_tuples_by_margin import margins_of
from pipeline_tasks.datasets import TUPLES
from pipeline_tasks.encoders.layout import Layout, layout_of
from pipeline_tasks.encoders.trunk import TrainableEncoder, load
from pipeline_tasks.models.sizes import backbone
from pipeline_tasks.models.use import folder
from pipeline_tasks.retrieval.open_encoder import load_encoder
from pipeline_tasks.training.average_models import average
from pipeline_tasks.training.contrastive import train
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.follow_instructions import FollowInstructionsParams, plain_rows_of, rows_of
from pipeline_tasks.training.model.export import export
from pipeline_tasks.training.params import Precision

DATA = Path("../shared/data/ir")
LONGEST = 128
MADE_BY = [Path(__file__).with_name(f"{name}.py") for name in ("planted_tuples", "wordings")]
CHECKS_BY, MARGIN = "bge-small-en-v1.5", 0.0
PIECES = ("graph_tokens", "micro_batch_tokens")
"""Hyperparameters of where it is trained, options that are no part of a model's settings here."""


@dataclass(frozen=True)
class Variant:
    """What is made small, and on which rows."""

    form: str = "multi"
    terms: tuple[str, ...] = ("P", "I")
    n_negatives: int = 2
    plain: bool = True
    told: bool = True
    checked: bool = False


VARIANTS = {
    "multi-P-I": Variant(),
    "multi-P-I-IQ": Variant(terms=("P", "I", "IQ")),
    "uni-P": Variant("uni", ("P",)),
    "uni-P-I": Variant("uni"),
    "one-negative": Variant(n_negatives=1),
    "no-negatives": Variant(n_negatives=0),
    "without-plain-rows": Variant(plain=False),
    "plain-rows-alone": Variant(told=False),
    "checked": Variant(checked=True),
}
"""Each is the first but for what its name says."""


def start_of(options: argparse.Namespace, out: Path) -> Path:
    """The model that training starts from, cut at the length that the trained ones are cut at."""
    found = options.start or folder(backbone("22m").name)
    if not out.exists():
        encoder, layout = load(found), replace(layout_of(found), max_length=LONGEST)
        if options.pooling == "last":
            layout = replace(layout, pooling="last", append=encoder.tokenizer.eos_token)
        if options.both_ways:
            encoder.model.config.is_causal = False
        saved(replace(encoder, layout=layout), out, layout)
    return out


def trained(
    tuples: list[dict], variant: Variant, seed: int, options: argparse.Namespace, start: Path, work: Path
) -> TrainableEncoder:
    """The encoder after its last step, for none is chosen here; what was killed goes on in ``work``."""
    objective = {"name": "instruction_contrast", "form": variant.form, "terms": variant.terms}
    own = {"temperature": options.temperature, "learning_rate": options.rate, "epochs": options.epochs}
    lengths = {"max_query_length": options.query_length, "max_passage_length": LONGEST}
    rows_a_tuple = 3 * (variant.plain + variant.told)
    params = FollowInstructionsParams(
        size="22m",
        seed=seed,
        objective=objective,
        batch_size=options.batch * rows_a_tuple,
        precision=options.precision,
        **(placed() | {name: getattr(options, name) for name in PIECES if getattr(options, name)}),
        **own,
        **lengths,
    )
    rows, layout = TUPLES.table(tuples), layout_of(start)
    blocks = list(rows_of(rows, layout, variant.n_negatives)) if variant.told else []
    blocks += plain_rows_of(rows, layout, variant.n_negatives) if variant.plain else []
    given = Examples(lambda: blocks), Examples.of(), start, params, work, said
    return train(*given, threads=settings().threads).encoder


def with_start(model: Path, start: Path, share: float) -> Path:
    """The folder of the mean of a model and the start, the latter counting for ``share`` of 1."""
    if not share:
        return model
    return mean_of([model, start], [1 - share, share], model.with_name(f"{model.name}-start-{share:g}"))


def mean_of(models: Sequence[Path], weights: Sequence[float], out: Path) -> Path:
    """The folder of the mean of these models, of which ``start`` may be one; it is made once."""
    if not out.exists():
        encoder = average({model.name: model for model in models}, weights, {"start"})
        saved(encoder, out, encoder.layout)
    return out


def saved(encoder: TrainableEncoder, folder: Path, layout: Layout) -> None:
    """Export under its name once it is whole."""
    partly = folder.with_name("partly")
    export(encoder, partly, card={"name": folder.name}, layout=layout)
    partly.rename(folder)


def said(step: int, steps: int, facts: dict[str, float]) -> None:
    """A line now and then."""
    if step % 10 == 0 or step == steps:
        print(f"step {step} of {steps}, loss {facts['loss']:.3f}", flush=True)


def kept_by_margin(tuples: list[dict]) -> list[dict]:
    """The tuples that a reference model tells apart."""
    encoder = load_encoder(folder(CHECKS_BY), settings().cache, settings().threads)
    kept = (margins_of(TUPLES.table(tuples), encoder) >= MARGIN).all(axis=1)
    return [one for one, keeps in zip(tuples, kept, strict=True) if keeps]


def measure(options: argparse.Namespace, keep: Path) -> dict[str, Any]:
    """Every variant on all sets."""
    cut = (options.words, options.split, options.queries, options.passages)
    sets = {name: instructed(name, options.data / name, *cut) for name in options.sets}
    check_settings(options, keep)
    tuples = made_tuples(sets, options, keep / "tuples.json")
    print(f"{len(tuples)} tuples of {len({one['query'] for one in tuples})} queries", flush=True)
    start = start_of(options, keep / "start")
    found = {"start": [scored(start, sets, cut, keep / "values")]}
    for name in options.variants:
        learned = kept_by_margin(tuples) if VARIANTS[name].checked else tuples
        print(name, len(learned), "tuples", flush=True)
        for seed in options.seeds:
            model = keep / f"{name}-{seed}"
            if not model.exists():
                encoder = trained(learned, VARIANTS[name], seed, options, start, work := keep / f"{model.name}.work")
                saved(encoder, model, layout_of(start))
                shutil.rmtree(work)
            for share in options.start_shares:
                system = f"{name}, {share:g} start" if share else name
                values = scored(with_start(model, start, share), sets, cut, keep / "values")
                found.setdefault(system, []).append(values)
                print(system, seed, json.dumps(values["all"].summary()), flush=True)
        if options.mean_of_seeds:
            models = [keep / f"{name}-{seed}" for seed in options.seeds]
            mean = mean_of(models, [1] * len(models), keep / f"{name}-mean-{'-'.join(map(str, options.seeds))}")
            found[f"{name}, mean of seeds"] = [scored(mean, sets, cut, keep / "values")]
    return {
        of: show_figures(of, {name: [one[of] for one in seeds] for name, seeds in found.items()})
        for of in ("all", *sets)
    }


def made_tuples(sets: dict[str, Instructed], options: argparse.Namespace, path: Path) -> list[dict]:
    """Those of all sets, in a random order; they are kept, for sorting what poison may be takes minutes."""
    if not path.exists():
        made = [
            tuples_of(
                one.parts["tuples"], one.data, one.words, options.tuples, options.of_query, options.kinds,
                options.wordings,
            )
            for one in sets.values()
        ]  # fmt: skip
        found = [one for of_set in made for one in of_set]
        random.Random(0).shuffle(found)
        path.with_suffix(".part").write_text(json.dumps(found), "utf-8")
        path.with_suffix(".part").rename(path)
    return json.loads(path.read_text("utf-8"))


def check_settings(options: argparse.Namespace, keep: Path) -> None:
    """Note in the folder what its models were trained with.

    Raises:
        SystemExit: they were trained with something else.
    """
    what = ("sets", "start", "pooling", "both_ways", "tuples", "of_query", "words", "query_length")
    how = ("rate", "temperature", "precision", "epochs", "batch", "kinds", "wordings")
    files = [path for name in options.sets for path in sorted((options.data / name).rglob("*")) if path.is_file()]
    given = {name: getattr(options, name) for name in (*what, *how)} | {
        name: digest([*map(file_sha256, paths)]) for name, paths in (("made by", MADE_BY), ("data", files))
    }
    own, noted = json.dumps(given, default=str), keep / "settings.json"
    keep.mkdir(parents=True, exist_ok=True)
    if noted.exists() and noted.read_text("utf-8") != own:
        raise SystemExit(f"{keep} has models of other settings, {noted.read_text('utf-8')}: name another folder")
    noted.write_text(own, "utf-8")


def scored(model: Path, sets: dict[str, Instructed], cut: tuple, keep: Path) -> dict[str, Values]:
    """What a model scores on each set and on all together; what has been scored is read."""
    of_set = {}
    for name, given in sets.items():
        path = keep / f"{model.name}-{name}-{'-'.join(map(str, cut))}.json"
        if not path.exists():
            values_of(model, given, cut[1]).save(path)
        of_set[name] = Values.read(path)
    return of_set | {"all": Values.joined(list(of_set.values()))}


def show_figures(of: str, found: dict[str, list[Values]]) -> dict[str, Any]:
    """A table of systems, and the same figures."""
    start = found["start"][0]
    figures = {}
    for name, seeds in found.items():
        mean = Values.mean(seeds)
        own = mean.summary()
        if name != "start":
            gains = against(mean, start)
            own |= {f"{m} gain": [round(v, 4) for v in (d.gain, d.low, d.high)] for m, d in gains.items()}
            own["sd"] = sd([one.p_mrr.mean() for one in seeds])
        figures[name] = own
    title = f"{of}: {start.n_instructions} instructions of {len(start.p_mrr)} queries; NDCG@10 of {len(start.plain)}"
    columns = list(dict.fromkeys(column for own in figures.values() for column in own))
    show(title, ("system", *columns), [[name, *(own.get(c, "") for c in columns)] for name, own in figures.items()])
    rounded = {
        name: {c: round(v, 4) if isinstance(v, float) else v for c, v in o.items()} for name, o in figures.items()
    }
    return {"instructions": start.n_instructions, "queries": len(start.p_mrr)} | rounded


def main() -> None:
    """Train and score what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["multihoprag_snippets"])
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the judged sets")
    parser.add_argument("--split", choices=("dev", "test"), default="test", help="queries that are scored")
    parser.add_argument("--keep", type=Path, help="folder where models and figures stay, so that a stopped run goes on")
    parser.add_argument("--start", type=Path, help="folder of the model to start from; none: all-MiniLM-L6-v2")
    parser.add_argument("--pooling", choices=("last",), help="of the start, on an end token; none: as its folder says")
    parser.add_argument("--both-ways", action="store_true", help="tokens of the start attend to later ones, too")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=["multi-P-I"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--start-shares", type=float, nargs="+", default=[0.0], help="of the untrained start in a mean with each model"
    )
    parser.add_argument("--mean-of-seeds", action="store_true", help="score the mean of the weights of all seeds, too")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="of tuples")
    parser.add_argument("--wordings", choices=WORDINGS, default="own", help="of the tuples' instructions")
    parser.add_argument("--tuples", type=int, default=200, help="of a set at most")
    parser.add_argument("--of-query", type=int, default=2, help="tuples of a query at most")
    parser.add_argument("--queries", type=int, default=150, help="of a set at most that are scored")
    parser.add_argument("--passages", type=int, default=500, help="of a set that are searched, besides all judged ones")
    parser.add_argument("--words", type=int, default=60, help="after which passages are cut")
    parser.add_argument("--query-length", type=int, default=80)
    parser.add_argument("--rate", type=float, default=5e-5)
    parser.add_argument("--temperature", type=float, default=0.05)
    parser.add_argument("--precision", choices=get_args(Precision), default="fp32", help="arithmetic of the trainings")
    parser.add_argument("--graph-tokens", type=int, help="activations held at once; none: as of all-MiniLM-L6-v2")
    parser.add_argument("--micro-batch-tokens", type=int, help="encoded at once; none: as of all-MiniLM-L6-v2")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=6, help="tuples in a batch")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        finish(measure(options, options.keep or Path(place)))


if __name__ == "__main__":
    main()
