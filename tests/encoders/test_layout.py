import json
from contextlib import nullcontext

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.layout import Layout, check_comparison, layout_of_folder, layout_of_spec, positions
from pipeline_tasks.models.registry import get, models

MODULES = [
    {"path": "", "type": "sentence_transformers.models.Transformer"},
    {"path": "1_Pooling", "type": "sentence_transformers.sentence_transformer.modules.pooling.Pooling"},
    {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
]


def write(folder, pooling, modules=MODULES, **files):
    (folder / "1_Pooling").mkdir()
    contents = {
        "modules.json": modules,
        "1_Pooling/config.json": pooling,
        "config.json": {"max_position_embeddings": 512, "pad_token_id": 1},
    } | {f"{name}.json": value for name, value in files.items()}
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode": "mean", "include_prompt": True}, "mean"),
        ({"pooling_mode": "lasttoken"}, "last"),
    ],
)
def test_pooling_of_old_and_new_folders(tmp_path, config, wanted):
    assert layout_of_folder(write(tmp_path, config)).pooling == wanted


def test_one_token_leaves_no_prompt_out(tmp_path):
    for pooling in ("cls", "lasttoken"):
        (tmp_path / pooling).mkdir()
        write(tmp_path / pooling, {"pooling_mode": pooling, "include_prompt": False})
    with pytest.raises(InputError, match="leaves the prompt out of cls pooling, which is of one token"):
        layout_of_folder(tmp_path / "cls")
    assert layout_of_folder(tmp_path / "lasttoken").pools_prefix


def test_some_kinds_of_models_have_fewer_positions_than_they_say():
    assert positions({"model_type": "bert", "max_position_embeddings": 512, "pad_token_id": 0}) == 512
    assert positions({"model_type": "xlm-roberta", "max_position_embeddings": 514, "pad_token_id": 1}) == 512
    assert positions({"model_type": "modernbert"}) is None


@pytest.mark.parametrize(("stated", "pads"), [(-1, 0), (None, 0), (1, 1)])
def test_a_config_may_say_that_there_is_no_token_to_pad_with(tmp_path, stated, pads):
    config = {"max_position_embeddings": 512, "pad_token_id": stated}
    assert layout_of_folder(write(tmp_path, {"pooling_mode": "mean"}, config=config)).pad_id == pads


@pytest.mark.parametrize(
    ("stated", "pools"), [({}, True), ({"include_prompt": True}, True), ({"include_prompt": False}, False)]
)
def test_a_folder_says_whether_its_prompts_are_pooled(tmp_path, stated, pools):
    assert layout_of_folder(write(tmp_path, {"pooling_mode": "mean"} | stated)).pools_prefix is pools


@pytest.mark.parametrize("path", ["../elsewhere", "/etc", "1_Pooling/../../elsewhere"])
def test_a_module_outside_the_folder_is_refused(tmp_path, path):
    modules = [MODULES[0], MODULES[1] | {"path": path}]
    with pytest.raises(InputError, match="leads out of the model's folder"):
        layout_of_folder(write(tmp_path, {"pooling_mode": "mean"}, modules))


def test_the_least_length_counts_and_no_limit_is_no_length(tmp_path):
    files = {"sentence_bert_config": {"max_seq_length": 256}, "tokenizer_config": {"model_max_length": 10**30}}
    layout = layout_of_folder(write(tmp_path, {"pooling_mode": "mean"}, **files))
    assert (layout.max_length, layout.pad_id) == (256, 1)


def test_prompts_are_prefixes(tmp_path):
    prompts = {"query": "q: ", "document": "d: ", "qa": "answer: "}
    files = {"config_sentence_transformers": {"prompts": prompts}}
    layout = layout_of_folder(write(tmp_path, {"pooling_mode": "mean"}, **files))
    assert layout.query_prefix("qa") == "answer: "
    assert layout.query_prefix("sts") == layout.query_prefix(None) == "q: "
    assert layout.passage_prefix() == "d: "


@pytest.mark.parametrize(
    ("stated", "query", "passage"),
    [
        ({"prompts": {"all": "x: "}, "default_prompt_name": "all"}, "x: ", "x: "),
        ({"prompts": {"q": "q: ", "document": "d: "}, "default_prompt_name": "q"}, "q: ", "d: "),
        ({"prompts": {"query": "", "document": ""}, "default_prompt_name": None}, "", ""),
        ({"prompts": {"query": "q: "}, "default_prompt_name": "query"}, "q: ", ""),
        ({"prompts": {"query": "q: ", "document": ""}, "default_prompt_name": "query"}, "q: ", ""),
        ({"prompts": {"query": "q: ", "document": "d: ", "passage": "p: "}}, "q: ", "d: "),
        ({"prompts": {"query": None, "document": None, "passage": "p: "}}, "", "p: "),
    ],
)
def test_a_default_prompt_is_put_before_what_has_none_of_its_own(tmp_path, stated, query, passage):
    layout = layout_of_folder(write(tmp_path, {"pooling_mode": "mean"}, config_sentence_transformers=stated))
    assert (layout.query_prefix("qa"), layout.passage_prefix()) == (query, passage)


def test_a_layout_without_prefixes_adds_nothing():
    assert Layout("mean", 8).query_prefix("qa") == Layout("mean", 8).passage_prefix() == ""


@pytest.mark.parametrize("config", [{"pooling_mode": "max"}, {}])
def test_pooling_that_is_not_supported_is_refused(tmp_path, config):
    with pytest.raises(InputError, match="1_Pooling"):
        layout_of_folder(write(tmp_path, config))


def test_a_module_that_is_not_supported_is_refused(tmp_path):
    modules = [*MODULES, {"path": "3_Dense", "type": "sentence_transformers.models.Dense"}]
    with pytest.raises(InputError, match="Dense"):
        layout_of_folder(write(tmp_path, {"pooling_mode": "mean"}, modules))


def test_a_folder_of_another_kind_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"modules\.json"):
        layout_of_folder(tmp_path)


def test_the_registry_says_how_a_registered_model_is_read(tmp_path):
    spec = get("bge-small-en-v1.5")
    layout = layout_of_spec(spec, write(tmp_path, {}), {})
    assert (layout.pooling, layout.max_length, layout.pad_id) == ("cls", 512, 1)
    assert layout.query_prefix("qa") == spec.query_prefix


def test_an_instruction_of_a_querys_own_goes_where_the_model_has_those_of_intents():
    spec = next(model for model in models() if model.is_instructed)
    layout = layout_of_spec(spec, None, {"qa": "answer"})
    assert layout.query_prefix("qa", "refute") == layout.query_prefix("qa").replace("answer", "refute")
    assert layout.query_prefix("unknown", "refute") == layout.query_prefix("qa", "refute")
    assert Layout("mean", 8, prefixes={"query": "query: "}).query_prefix(None, "refute") == "query: refute: "


@pytest.mark.parametrize(
    ("modules", "compared", "works"),
    [(MODULES[:2], "dot", False), (MODULES, "dot", True), (MODULES[:2], "cosine", True)],
)
def test_vectors_of_any_length_that_are_compared_by_their_product_are_no_cosines(tmp_path, modules, compared, works):
    write(tmp_path, {"pooling_mode": "mean"}, modules, config_sentence_transformers={"similarity_fn_name": compared})
    with nullcontext() if works else pytest.raises(InputError, match="compares vectors of any length by 'dot'"):
        check_comparison(tmp_path)


@pytest.mark.parametrize(
    ("normalizer", "works"),
    [
        (None, False),
        ({"type": "BertNormalizer", "lowercase": False}, False),
        ({"type": "BertNormalizer", "lowercase": True}, True),
        ({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}, True),
    ],
)
def test_case_is_the_tokenizers_business(tmp_path, normalizer, works):
    files = {"sentence_bert_config": {"do_lower_case": True}, "tokenizer": {"normalizer": normalizer}}
    write(tmp_path, {"pooling_mode": "mean"}, **files)
    with nullcontext() if works else pytest.raises(InputError, match="before a tokenizer that tells cases apart"):
        layout_of_folder(tmp_path)


@pytest.mark.parametrize(
    ("config", "saved", "of_others", "works"),
    [
        ({"truncation_side": "left"}, None, {"__version__": {}}, False),
        ({}, {"direction": "Left"}, {"__version__": {}}, False),
        ({"truncation_side": "left"}, None, {"default_prompt_name": None, "similarity_fn_name": "cosine"}, False),
        ({"truncation_side": "right"}, {"direction": "Left"}, {}, True),
        ({}, {"direction": "Right"}, {}, True),
        ({}, None, {}, True),
    ],
)
def test_a_tokenizer_that_cuts_texts_at_their_beginning_is_refused(tmp_path, config, saved, of_others, works):
    told = {"config_sentence_transformers": {"prompts": {}} | of_others}
    write(tmp_path, {"pooling_mode": "mean"}, tokenizer_config=config, tokenizer={"truncation": saved}, **told)
    with nullcontext() if works else pytest.raises(InputError, match="cuts long texts at their beginning .* set trunc"):
        layout_of_folder(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("modules.json", b"{}", "is no list of modules"),
        ("modules.json", b'[{"path": ""}]', "is no list of modules"),
        ("modules.json", "é".encode("latin-1"), "is not JSON"),
        ("config.json", b"[]", "is no JSON object"),
        ("config.json", b'{"max_position_embeddings": 512, "pad_token_id": "x"}', "pad_token_id is 'x'"),
        ("sentence_bert_config.json", b'{"max_seq_length": "many"}', "max_seq_length is 'many'"),
        ("config_sentence_transformers.json", b'{"prompts": ["query: "]}', "are no texts by name"),
        ("config_sentence_transformers.json", b'{"prompts": {"query": 7}}', "are no texts by name"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, name, content, message):
    write(tmp_path, {"pooling_mode": "mean"})
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        layout_of_folder(tmp_path)
