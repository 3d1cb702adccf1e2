"""Two processes that keep half of the weights each learn what one learns that has all."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.training.adapt_backbone import AdaptParams, adapt
from pipeline_tasks.training.compute.gradients import Gradients
from pipeline_tasks.training.compute.optimiser import Optimiser
from pipeline_tasks.training.contrastive import TrainResult, train
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.data.rows import tokenized
from pipeline_tasks.training.model.open_model import open_encoder, opened_on
from pipeline_tasks.training.parallel.divided import divide, divides, whole
from pipeline_tasks.training.parallel.peers import ALONE, Peers
from pipeline_tasks.training.parallel.processes import run_in_processes
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.samplers import sampler
from pipeline_tasks.training.schedule import Batch
from tests.shapes import make
from tests.training.conftest import passage
from tests.training.killable import kill_one

pytestmark = pytest.mark.usefixtures("forked_peers")
CPUS = ("cpu", "cpu")
LENGTHS = {"max_query_length": 16, "max_passage_length": 32}
COMMON = {"temperature": 0.1, "micro_batch_tokens": 64, "device": "cpu", "sharding": "fsdp", **LENGTHS}
ADAPTERS = {"lora_rank": 2, "lora_alpha": 4, "lora_targets": ("q_proj", "v_proj")}
WAYS = {
    "gradient cache": ("bert", TrainParams(in_batch=True, graph_tokens=150, **COMMON)),
    "rows apart": ("bert", TrainParams(in_batch=False, graph_tokens=120, **COMMON)),
    "recomputed": ("modernbert", TrainParams(in_batch=True, graph_tokens=150, recompute=True, **COMMON)),
    "one piece": ("qwen3", TrainParams(in_batch=True, **COMMON | {"micro_batch_tokens": 10**6})),
    "adapters": ("qwen3", TrainParams(in_batch=True, graph_tokens=150, **COMMON, **ADAPTERS)),
    "adapters in bf16": ("llama", TrainParams(in_batch=True, precision="bf16", recompute=True, **COMMON, **ADAPTERS)),
    "all weights in bf16": ("qwen3", TrainParams(in_batch=True, precision="bf16", recompute=True, **COMMON)),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {shape: make(shape, tmp_path_factory.mktemp(shape)) for shape in {shape for shape, _ in WAYS.values()}}


def gradients(
    folders: dict[str, Path], rows: dict[str, Examples], work: Path, peers: Peers, *_: object
) -> dict[str, dict]:
    """By way, the loss, the gradients of one batch with dropout, and how many numbers of the weights are kept here."""
    found = {}
    for way, (shape, params) in WAYS.items():
        encoder = open_encoder(folders[shape], params, peers)
        data = tokenized(rows[way], encoder.tokens, work / f"tokens-{peers.rank}-of-{peers.count}" / way, **LENGTHS)
        if divides(params, peers):
            divide(encoder.model, peers, torch.device("cpu"))
        if params.recompute:
            encoder.model.activation_checkpointing_enable({"use_reentrant": False})
        encoder.model.train()
        loss = Gradients(encoder, data, params, peers).add(Batch(np.arange(min(9, len(data))), params.objective), 5)
        weights = dict(encoder.model.named_parameters())
        of_weights = whole({name: w.grad for name, w in weights.items() if w.grad is not None}, peers)
        kept = sum(kept_here(weight).numel() for weight in weights.values())
        found[way] = {"loss": loss, "kept": kept, "gradients": of_weights}
    torch.save(found, work / f"{peers.rank}-of-{peers.count}.pt")
    return found


def kept_here(weight: Tensor) -> Tensor:
    local: Callable[[], Tensor] = getattr(weight, "to_local", lambda: weight)
    return local()


def test_gradients_are_those_of_undivided_weights(folders, rows, tmp_path) -> None:
    examples = dict.fromkeys(WAYS, rows) | {"one piece": Examples.of(["ta"], ["tb wa"], [["tc"]])}
    run_in_processes(partial(gradients, folders, examples, tmp_path), CPUS, print)
    leader, other = (torch.load(tmp_path / f"{rank}-of-2.pt") for rank in range(2))
    for way, alone in gradients(folders, examples, tmp_path, ALONE).items():
        assert other[way]["gradients"] == {}
        assert leader[way]["kept"] + other[way]["kept"] == alone["kept"]
        assert leader[way]["kept"] < 0.6 * alone["kept"]
        assert leader[way]["loss"] == other[way]["loss"] == pytest.approx(alone["loss"], rel=1e-3)
        assert leader[way]["gradients"].keys() == alone["gradients"].keys()
        loose = {"rtol": 0.1, "atol": 1e-3} if "bf16" in way else {"rtol": 1e-4, "atol": 1e-6}
        for name, gradient in alone["gradients"].items():
            torch.testing.assert_close(leader[way]["gradients"][name], gradient, **loose)


SMALL = TrainParams(
    epochs=4, batch_size=8, learning_rate=3e-3, evals_per_epoch=1, checkpoint_every_steps=2, in_batch=True, **COMMON
)


def test_they_train_as_one_does_and_a_killed_one_leaves_no_trace(tiny_bert, rows, dev, tmp_path) -> None:
    def trained(name: str, devices=CPUS, progress=lambda *_: None, **changed) -> TrainResult:
        params = SMALL.model_copy(update=changed)
        return train(rows, dev, tiny_bert, params, tmp_path / name, progress, devices=devices)

    alone, undisturbed = trained("alone", ()), trained("undisturbed")
    assert undisturbed.losses == pytest.approx(alone.losses, rel=1e-3)
    np.testing.assert_allclose(undisturbed.scores, alone.scores, atol=1e-3)

    with pytest.raises(TransientError, match="goes on from its last checkpoint"):
        trained("killed", progress=kill_one)
    for name in ("undivided", "moments"):
        shutil.copytree(tmp_path / "killed", tmp_path / name)
    resumed: list[int] = []
    again = trained("killed", progress=lambda step, *_: resumed.append(step))
    assert resumed[0] > 2
    assert again.losses == undisturbed.losses
    weights, expected = (result.encoder.model.state_dict() for result in (again, undisturbed))
    assert all(torch.equal(weights[name], expected[name]) for name in expected)

    def goes_on(name: str, devices=CPUS, **changed) -> None:
        began: list[int] = []
        result = trained(name, devices, lambda step, *_: began.append(step), **changed)
        assert began[0] > 2
        assert result.losses == pytest.approx(undisturbed.losses, rel=1e-3)

    goes_on("undivided", (), sharding="")
    goes_on("moments", sharding="zero1")

    def stop(step: int, *_: object) -> None:
        if step == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained("begun undivided", (), stop, sharding="")
    goes_on("begun undivided")


def test_a_sampler_that_never_decides_draws_as_for_one(tiny_bert, rows, dev, tmp_path) -> None:
    params = SMALL.model_copy(update={"epochs": 1, "sampler": sampler("uniform")})
    alone, divided = (train(rows, dev, tiny_bert, params, tmp_path / f"{len(on)}", devices=on) for on in ((), CPUS))
    assert divided.losses == pytest.approx(alone.losses, rel=1e-3)
    assert divided.trajectory == alone.trajectory


def test_what_they_left_is_read_without_the_moments(tiny_bert, rows, dev, tmp_path, monkeypatch) -> None:
    """All weights and moments may have room in no device: the call that takes the result asks for none."""
    params = SMALL.model_copy(update={"epochs": 1})
    train(rows, dev, tiny_bert, params, tmp_path, devices=CPUS)
    monkeypatch.setattr(Optimiser, "load", None)
    assert train(rows, dev, tiny_bert, params, tmp_path).steps == 3
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    on_gpu = params.model_copy(update={"device": "cuda"})
    assert [opened_on(on_gpu, peers).type for peers in (ALONE, Peers(done=True), Peers(0, 2))] == ["cuda", "cpu", "cpu"]


def test_a_model_without_blocks_is_refused() -> None:
    with pytest.raises(InputError, match="Linear has none that is known: set sharding='zero1'"):
        divide(torch.nn.Linear(2, 2), Peers(0, 2), torch.device("cpu"))


def test_a_decoder_is_adapted_so(folders, tmp_path, monkeypatch) -> None:
    texts = [passage(topic, variant) for topic in range(8) for variant in range(2)]
    blocks = partial(iter, [pa.array(texts)])
    given = {name: COMMON[name] for name in ("device", "sharding", "micro_batch_tokens", "max_passage_length")}
    small = AdaptParams(size="596m", epochs=2, batch_size=8, learning_rate=1e-2, **given, **ADAPTERS)

    def adapted(name: str, devices: tuple[str, ...]):
        monkeypatch.setattr("pipeline_tasks.training.adapt_backbone.devices_of", lambda kind: devices)
        return adapt(folders["qwen3"], blocks, texts[:5], small, tmp_path / name, lambda *_: None)

    alone, divided = adapted("alone", ()), adapted("divided", CPUS)
    assert divided.losses == pytest.approx(alone.losses, rel=1e-4)
    np.testing.assert_allclose(divided.scores, alone.scores, atol=0.02)


def test_what_cannot_be_divided_is_refused() -> None:
    with pytest.raises(ValueError, match="sampler's decisions put all of them back: set sharding='zero1'"):
        TrainParams(device="cpu", sharding="fsdp", sampler="inf_dds")
    assert TrainParams(device="cpu", sharding="fsdp", sampler="proportional").sharding == "fsdp"
    with pytest.raises(ValueError, match="made of all of them: train adapters"):
        AdaptParams(size="596m", device="cpu", sharding="fsdp", lora_rank=0)
