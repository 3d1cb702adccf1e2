"""A model that is named to start from is known by what its files are, and a form names none that it may not read."""

from __future__ import annotations

import json
import pickle
import shutil

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.licences import is_non_commercial
from pipeline_tasks.core.local_files import for_a_form
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.start import start_of
from pipeline_tasks.models.use import identity
from tests import shapes


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return shapes.make("bert", tmp_path_factory.mktemp("made"))


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "mine")


def test_a_folder_elsewhere_is_the_same_start_and_another_weight_is_another(folder, tmp_path):
    before = start_of(str(folder)).identity()
    assert before == start_of(str(shutil.copytree(folder, tmp_path / "copy"))).identity()
    assert str(tmp_path) not in str(before)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert start_of(str(folder)).identity() != before


def test_a_way_with_texts_is_part_of_it_and_a_card_or_a_graph_is_not(folder):
    before = start_of(str(folder)).identity()
    (folder / "README.md").write_text("about it")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").write_bytes(b"graph")
    assert start_of(str(folder)).identity() == before
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text("{}")
    assert start_of(str(folder)).identity() != before


def test_a_registered_start_is_what_the_registry_pins(given):
    given(profile="offline")
    assert start_of("all-minilm-l6-v2").identity() == identity("all-minilm-l6-v2")
    assert dict(start_of("all-minilm-l6-v2").licences) == {"all-minilm-l6-v2": get("all-minilm-l6-v2").licence}


def test_the_weights_of_a_served_llm_are_a_start_under_the_name_of_what_they_become(given):
    given(profile="offline")
    start, llm = start_of("smollm2-135m"), get("smollm2-135m-instruct")
    assert get(start.name).offline.files == llm.offline.files and get(start.name).hub == llm.hub
    assert start.identity()["sha256"] == get(start.name).offline.made["model.safetensors"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no-such-model", "unknown model"),
        ("bge-small-en-v1.5", "int8.*FOUNDRY_PROFILE=hub"),
        ("nv-embed-v2", "cannot be trained here"),
        ("smollm2-135m-instruct", "cannot be trained here"),
    ],
)
def test_a_name_without_weights_to_train_is_refused(given, name, why):
    given(profile="offline")
    with pytest.raises(InputError, match=why):
        start_of(name)


def test_attention_that_only_the_registry_knows_is_refused(given):
    given(profile="hub")
    with pytest.raises(InputError, match="is known to the registry alone"):
        start_of("gte-qwen2-1.5b-instruct")


def test_licences_are_those_of_the_card_and_of_an_export(folder):
    called = start_of(str(folder)).name
    assert dict(start_of(str(folder)).licences) == {called: "unknown: its folder names none"}
    (folder / "LICENCES.json").write_text(json.dumps({"nv-embed-v2": "CC-BY-NC-4.0"}))
    assert dict(start_of(str(folder)).licences) == {"nv-embed-v2": "CC-BY-NC-4.0"}
    for told in (
        "license:\n- cc-by-nc-4.0\n- mit",
        "license: [cc-by-nc-4.0]",
        "license: other\nlicense_name: cc-by-nc-4.0",
    ):
        (folder / "README.md").write_text(f"---\n{told}\n---\n")
        assert is_non_commercial(dict(start_of(str(folder)).licences)[called])
    (folder / "README.md").write_text("---\ntags: [a]\nlicense: 'mit'  # short\n---\nlicense: none\n")
    assert dict(start_of(str(folder)).licences) == {called: "mit", "nv-embed-v2": "CC-BY-NC-4.0"}
    (folder / "README.md").unlink()
    (folder / "LICENCES.json").write_text(json.dumps({"a\x1b]0;b\u202e": "mit\x1b[31m\n", "\x07": "\x07"}))
    assert dict(start_of(str(folder)).licences) == {"a ]0;b": "mit [31m", called: "unknown: its folder names none"}
    (folder / "LICENCES.json").write_text("[]")
    with pytest.raises(InputError, match="LICENCES.json is no JSON object of models"):
        start_of(str(folder))


def test_what_is_no_folder_of_a_model_is_named(folder, tmp_path):
    with pytest.raises(InputError, match="no model's folder: name one with a config.json"):
        start_of(str(tmp_path / "nowhere"))
    (folder / "tokenizer.json").rename(tmp_path / "tokenizer.json")
    with pytest.raises(InputError, match="has no tokenizer.json"):
        start_of(str(folder))
    (tmp_path / "tokenizer.json").rename(folder / "tokenizer.json")
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="has no weights"):
        start_of(str(folder))


def test_adapters_beside_the_weights_are_refused_and_are_no_weights(folder):
    (folder / "adapter").mkdir()
    (folder / "adapter" / "adapter_config.json").write_text("{}")
    assert start_of(str(folder)).sha256, "a model of ours, which has them in its weights as well"
    shutil.copyfile(folder / "model.safetensors", folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(InputError, match="has adapters beside its weights .adapter_config.json.: merge them"):
        start_of(str(folder))
    (folder / "adapter_config.json").unlink()
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="has no weights"):
        start_of(str(folder))


def test_a_pickle_alone_is_refused_and_not_opened(folder, tmp_path):
    class Trap:
        def __reduce__(self):
            return (type(tmp_path).touch, (tmp_path / "sprung",))

    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(InputError, match="pickle alone .pytorch_model.bin.*save it again"):
        start_of(str(folder))
    assert not (tmp_path / "sprung").exists()


def test_what_trains_is_what_was_named(folder, tmp_path):
    start = start_of(str(folder))
    copied = start.files(tmp_path / "start")
    kept = (copied / "model.safetensors").read_bytes()
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert start.files(tmp_path / "start") == copied
    assert (copied / "model.safetensors").read_bytes() == kept
    (copied / "config.json").write_text("cut")
    with pytest.raises(InputError, match="changed since this run began"):
        start.files(tmp_path / "start")


class TestFromAForm:
    @pytest.fixture(autouse=True)
    def form(self, given, tmp_path, folder):
        """One root with a model in it, and a model outside."""
        (tmp_path / "root").mkdir()
        shutil.copytree(folder, tmp_path / "root" / "model")
        given(caller="form", source_roots=str(tmp_path / "root"))
        return tmp_path / "root"

    def test_a_folder_below_a_root_is_a_start_and_its_copy_need_not_be_below_one(self, form, tmp_path):
        found = start_of(str(form / "model"))
        assert found.folder == form / "model"
        copy = found.files(tmp_path / "scratch" / "start")
        assert (copy / "config.json").is_file() and found.files(copy) == copy

    @pytest.mark.parametrize(
        "name",
        [
            "{outside}",
            "{root}/../mine",
            "{root}/link",
            "{root}/loop",
            "/proc/self/cwd",
            "~nobody-of-that-name/x",
            "~/.cache",
            "file://{root}/model",
            "{root}/a\0b",
            "./mine",
        ],
    )
    def test_no_other_folder_is_and_none_is_told_from_one_that_is_not_there(self, form, folder, name):
        (form / "link").symlink_to(folder)
        (form / "loop").symlink_to(form / "loop")
        named = name.format(outside=folder, root=form)
        with pytest.raises(InputError, match="no model's folder.*below FOUNDRY_SOURCE_ROOTS, which names"):
            start_of(named)

    @pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json", "config.json", "README.md"])
    def test_a_link_in_it_to_a_file_outside_is_not_followed(self, form, folder, file):
        (folder / "README.md").write_text("---\nlicense: secret\n---\n")
        (form / "model" / file).unlink(missing_ok=True)
        (form / "model" / file).symlink_to(folder / file)
        if file == "README.md":
            assert "secret" not in str(start_of(str(form / "model")))
        else:
            with pytest.raises(InputError, match="has no|is no model"):
                start_of(str(form / "model"))

    def test_a_planner_that_is_the_operators_holds_a_form_to_the_same(self, given, folder):
        given(caller="operator")
        assert start_of(str(folder)).folder == folder
        with for_a_form(), pytest.raises(InputError, match="FOUNDRY_SOURCE_ROOTS"):
            start_of(str(folder))
