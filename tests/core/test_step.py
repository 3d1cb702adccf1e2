from __future__ import annotations

import pickle

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.step import From
from tests.core.toy_steps import ITEMS, ModelParams, ScaleParams, toy_gather, toy_list, toy_model, toy_scale


def test_a_step_knows_what_it_is():
    assert (toy_scale.name, toy_scale.kind, toy_scale.dataset) == ("toy_scale", "map", "scaled")
    assert toy_scale.reads["items"] == From(ITEMS) and toy_scale.params is ScaleParams
    assert toy_scale.doc == "Scaled values; 13 is refused."
    assert toy_model.output(ModelParams(size="4b")) == "model/4b/toy"


def test_a_step_is_pickled_by_name():
    assert pickle.loads(pickle.dumps(toy_scale)) is toy_scale


def test_text_and_json_values_are_the_same_parameters():
    assert toy_scale.parse({"factor": "3"}) == toy_scale.parse({"factor": 3}) == ScaleParams(factor=3)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"factr": 3}, ["no parameter 'factr'; did you mean 'factor'?", "factor, effort"]),
        ({"factor": "many"}, ["factor", "'many'", "integer"]),
        ({"factor": 0}, ["factor", "0", "greater than or equal to 1"]),
    ],
)
def test_a_bad_parameter_is_named_with_its_value_and_what_is_allowed(values, said):
    with pytest.raises(InputError) as caught:
        toy_scale.parse(values)
    assert all(text in str(caught.value) for text in ["toy_scale", *said])


def test_a_text_where_several_are_wanted_is_shown_as_the_list_that_is_meant():
    with pytest.raises(InputError, match=r"""withdraw='a,b': .*; write it as JSON: 'withdraw=\["a", "b"\]'$"""):
        toy_gather.parse({"withdraw": "a,b"})


def test_what_may_be_a_password_in_a_bad_value_is_not_told():
    with pytest.raises(InputError, match=r"factor='https://…@host/'") as caught:
        toy_scale.parse({"factor": "https://alice:hunter2@host/"})
    assert "hunter2" not in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.parametrize("value", ["/data/caf\udce9", ["a", "caf\udce9"]])
def test_a_value_that_is_no_text_is_the_callers_mistake(value):
    with pytest.raises(InputError, match=r"toy_scale: factor=.*caf\\udce9.* is no UTF-8; rename"):
        toy_scale.parse({"factor": value})


def test_a_missing_parameter_is_named():
    with pytest.raises(InputError, match=r"toy_list: rows=.*required.*rows, part_rows"):
        toy_list.parse({})


def test_tuning_is_no_part_of_the_identity():
    assert ScaleParams(effort=5).identity() == {"factor": 2} != ScaleParams(factor=3).identity()


def test_default_inputs_follow_the_parameters():
    one = From(ITEMS, "model/{size}/toy")
    each = From(ITEMS, "rankings/{item}", each="sizes")
    params = ModelParams(size="4b")
    assert one.defaults(params) == ["model/4b/toy"] and From(ITEMS).defaults(params) == ["items"]

    class Sized(ModelParams):
        sizes: tuple[str, ...] = ("33m", "4b")

    assert each.defaults(Sized()) == ["rankings/33m", "rankings/4b"]
