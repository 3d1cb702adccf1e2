"""What asks for half precision on a processor that has no instructions for it is told so, once."""

from __future__ import annotations

import pytest

from pipeline_tasks.cli import doctor
from pipeline_tasks.encoders import half_precision
from pipeline_tasks.encoders.half_precision import has_products, slow_here, warn_if_slow
from pipeline_tasks.retrieval.screen import faster_screen
from pipeline_tasks.training.model.open_model import device_of
from pipeline_tasks.training.params import TrainParams

AVX2 = {
    "avx2": True,
    "fma3": True,
    "avx512_bf16": False,
    "avx512_fp16": False,
    "amx_bf16": False,
    "cpu_name": "AMD EPYC",
}


@pytest.fixture
def on(monkeypatch):
    """The processor has these instructions."""
    import torch

    def set_to(*names: str) -> None:
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: AVX2 | dict.fromkeys(names, True))
        warn_if_slow.cache_clear()

    yield set_to
    warn_if_slow.cache_clear()


@pytest.mark.parametrize(
    ("has", "bfloat16", "float16"),
    [
        ({}, False, False),
        (AVX2, False, False),
        (AVX2 | {"avx512_bf16": True}, True, False),
        ({"amx_bf16": True}, True, False),
        ({"amx_fp16": True}, False, True),
        ({"avx512_f": True, "avx512_vl": True}, False, False),
        ({"neon": True, "fp16_arith": True}, False, True),
        ({"neon": True, "bf16": True}, True, False),
    ],
)
def test_instructions_for_one_kind_are_none_for_the_other(has, bfloat16, float16):
    assert (has_products("bfloat16", has), has_products("float16", has)) == (bfloat16, float16)


def test_this_processor_is_asked_where_none_is_given(on):
    on()
    assert not has_products("bfloat16") and faster_screen(2**40) == "float32"
    on("avx512_bf16")
    assert has_products("bfloat16") and faster_screen(2**40) == "bfloat16"


@pytest.mark.parametrize(("kind", "device"), [("float32", "cpu"), ("int8", "cpu"), ("bfloat16", "cuda:0")])
def test_other_precisions_and_other_devices_are_not_slow(on, kind, device):
    on()
    assert slow_here(kind, device) == "" and "no instructions for float16" in slow_here("float16", "cpu")


def test_a_training_says_once_what_is_slow_and_what_to_set(on, caplog):
    on()
    for precision in ("fp32", "bf16", "bf16"):
        device_of(TrainParams(size="22m", device="cpu", precision=precision))
    (said,) = [record.getMessage() for record in caplog.records if record.name == half_precision.__name__]
    assert said.startswith("precision=bf16: this processor has no instructions for bfloat16")
    assert said.endswith("set precision=fp32")
    on("amx_bf16")
    device_of(TrainParams(size="22m", device="cpu", precision="bf16"))
    assert len(caplog.records) == 1


def test_the_doctor_says_it(on):
    on()
    assert not doctor._half_precision().ok and "precision=fp32" in doctor._half_precision().found
    on("amx_bf16")
    assert doctor._half_precision().ok and not doctor._half_precision().needed
