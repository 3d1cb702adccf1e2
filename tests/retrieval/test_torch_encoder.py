import pytest
import torch

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.trunk import pool
from pipeline_tasks.models.registry import get
from pipeline_tasks.retrieval.open_encoder import load_encoder

HIDDEN = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [99.0, 99.0]], [[4.0, 4.0], [5.0, 5.0], [6.0, 9.0]]])
MASK = torch.tensor([[1, 1, 0], [1, 1, 1]])


@pytest.mark.parametrize(
    ("pooling", "wanted"),
    [("mean", [[2, 4], [5, 6]]), ("cls", [[1, 2], [4, 4]]), ("last", [[3, 6], [6, 9]])],
)
def test_padding_has_no_say(pooling, wanted):
    assert pool(HIDDEN, MASK, pooling).tolist() == wanted


def test_the_threads_of_the_process_are_left_as_they_were(fetched):
    cache = fetched("all-minilm-l6-v2").parents[1]
    encoder = load_encoder(get("all-minilm-l6-v2"), cache, threads=1)
    before = torch.get_num_threads()
    encoder.encode(["flood"])
    assert torch.get_num_threads() == before


def test_a_folder_without_weights_is_refused(fetched, tmp_path):
    for file in fetched("all-minilm-l6-v2").rglob("*"):
        if file.is_file() and file.suffix != ".safetensors":
            target = tmp_path / file.relative_to(fetched("all-minilm-l6-v2"))
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(file.read_bytes())
    with pytest.raises(InputError, match="no model that transformers can load"):
        load_encoder(tmp_path, tmp_path)


def test_a_device_that_is_not_there_is_named(fetched):
    cache = fetched("all-minilm-l6-v2").parents[1]
    with pytest.raises(InputError, match=r"device 'cuda:77' cannot hold .*FOUNDRY_DEVICES"):
        load_encoder(get("all-minilm-l6-v2"), cache, device="cuda:77")
