import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import numpy as np
import pytest

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.paid.endpoint import Terms, pace
from pipeline_tasks.core.paid.spending import LimitReached
from pipeline_tasks.core.paid.text_index import PREFIX
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PASSAGES
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.use import identity
from pipeline_tasks.retrieval import embeddings_endpoint, served_encoder
from pipeline_tasks.retrieval.embed_passages import embed_passages
from pipeline_tasks.retrieval.embeddings_endpoint import groups
from pipeline_tasks.retrieval.served_encoder import open_or_ask
from tests.retrieval.endpoint import DIM, serving
from tests.stores import go, put, rows

MODEL = "text-embedding-3-small"
TEXTS = [f"{word} number {i}" for i in range(60) for word in ("flood", "storm", "fire")]


@pytest.fixture
def endpoint(monkeypatch):
    with serving() as running:
        monkeypatch.setenv("FOUNDRY_EMBEDDINGS_BASE_URL", running.url)
        monkeypatch.setenv("FOUNDRY_EMBEDDINGS_API_KEY", "key-1")
        monkeypatch.setenv("FOUNDRY_EMBEDDINGS_PRICE", "2.0")
        monkeypatch.setenv("OPENAI_API_KEY", "key-of-another-host")
        settings.cache_clear()
        yield running


@pytest.fixture
def store(tmp_path):
    return LocalStore(tmp_path)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(pace, "_FIRST_PAUSE_S", 0.0)


def test_vectors_come_back_in_order_of_the_texts_and_are_paid_for_once(endpoint, store):
    encoder = open_or_ask(MODEL, "float32", store, terms=Terms(concurrency=3))
    vectors = encoder.encode_passages([*TEXTS, TEXTS[0]])
    wanted = np.array([endpoint.vector(text) for text in [*TEXTS, TEXTS[0]]])
    np.testing.assert_allclose(vectors, wanted / np.linalg.norm(wanted, axis=1, keepdims=True), atol=1e-6)
    assert set(endpoint.keys) == {"Bearer key-1"}
    assert encoder.costs["prompt_tokens"] == 3 * len(TEXTS)
    assert encoder.costs["cost_usd"] == pytest.approx(3 * len(TEXTS) * 2 / 1e6)
    again = open_or_ask(MODEL, "float32", store).encode_passages(TEXTS[::-1])
    np.testing.assert_array_equal(again, vectors[: len(TEXTS)][::-1])
    assert set(endpoint.sold.values()) == {1}


@pytest.mark.parametrize("recorded", [True, False])
def test_vectors_that_a_power_cut_left_short_are_asked_for_again(endpoint, store, recorded):
    whole = open_or_ask(MODEL, "float32", store, Terms()).encode_passages(TEXTS[:3])
    (kept,) = (key for key in store.keys("responses") if key.endswith(".f32"))
    store.replace(kept, (store.read(kept) or b"")[:-4])
    if not recorded:
        store.delete_all([kept.replace(".f32", ".json")])
    np.testing.assert_array_equal(open_or_ask(MODEL, "float32", store, Terms()).encode_passages(TEXTS[:3]), whole)
    assert len(store.read(kept) or b"") == 4 * 3 * DIM
    np.testing.assert_array_equal(open_or_ask(MODEL, "float32", store, Terms()).encode_passages(TEXTS[:3]), whole)
    assert set(endpoint.sold.values()) == {2}


def test_a_text_that_comes_or_goes_costs_its_own_group_alone():
    texts = sorted(f"text {i}" for i in range(2000))
    before = [frozenset(texts[row] for row in group) for group in groups(texts)]
    assert sorted(text for group in before for text in group) == texts
    assert max(map(len, before)) <= embeddings_endpoint.MAX_TEXTS and len(before) > 10
    fewer = [text for text in texts if text != "text 777"]
    after = {frozenset(fewer[row] for row in group) for group in groups(fewer)}
    assert sum(group not in after for group in before) <= 2


def test_groups_are_not_too_long_for_a_request():
    texts = [f"{i} " + "word " * 9000 for i in range(20)]
    found = list(groups(texts))
    assert sorted(row for group in found for row in group) == list(range(20))
    assert max(sum(len(texts[row]) for row in group) for group in found) <= embeddings_endpoint.MAX_CHARACTERS


def test_what_is_too_much_at_once_is_asked_for_by_halves_and_bought_once(endpoint, store):
    texts = ["flood", "storm", "fire"]
    endpoint.faults = [(413, {}, b"no more than two texts")]
    encoder = open_or_ask(MODEL, "float32", store, terms=Terms(concurrency=1))
    vectors = encoder.encode_passages(texts)
    wanted = np.array([endpoint.vector(text) for text in texts])
    np.testing.assert_allclose(vectors, wanted / np.linalg.norm(wanted, axis=1, keepdims=True), atol=1e-6)
    assert endpoint.requests == 3 and len(encoder.responses) == 2 and set(endpoint.sold.values()) == {1}
    endpoint.faults = [(413, {}, b"no")] * 9
    with pytest.raises(InputError, match="refused to embed '(sleet|hail)' with"):
        open_or_ask(MODEL, "float32", store, terms=Terms(concurrency=1)).encode_passages(["sleet", "hail"])


def encode(store, texts, **terms):
    return open_or_ask(MODEL, "float32", store, Terms(**terms)).encode_passages(texts)


def test_another_selection_costs_only_the_texts_that_are_new(endpoint, store):
    whole = encode(store, TEXTS)
    encoder, known = open_or_ask(MODEL, "float32", store), [*TEXTS[::7], *TEXTS[50:60]]
    mixed = encoder.encode_passages([*known, "hail", "sleet"])
    np.testing.assert_array_equal(mixed[:-2], np.concatenate([whole[::7], whole[50:60]]))
    assert (encoder.costs["vectors_reused"], encoder.costs["vectors_bought"]) == (len(set(known)), 2)
    np.testing.assert_array_equal(
        encoder.encode_passages(["sleet", TEXTS[3], "hail"]), [mixed[-1], whole[3], mixed[-2]]
    )
    assert set(endpoint.sold.values()) == {1}
    assert encoder.responses == {key[13:-5] for key in store.keys("responses") if key.endswith(".json")}


@pytest.mark.parametrize("lost", ["index", "broken index", "answers"])
def test_without_index_or_answer_texts_are_asked_for_as_ever(endpoint, store, lost):
    whole = encode(store, TEXTS)
    for key in list(store.keys("responses")):
        indexed = key.startswith(PREFIX)
        if indexed and lost == "broken index":
            store.replace(key, (store.read(key) or b"")[:-9])
        elif lost == ("index" if indexed else "answers"):
            store.delete(key)
    np.testing.assert_array_equal(encode(store, TEXTS), whole)
    assert set(endpoint.sold.values()) == {2 if lost == "answers" else 1}
    sold = endpoint.sold.copy()
    np.testing.assert_array_equal(encode(store, TEXTS[5:20]), whole[5:20])
    assert endpoint.sold == sold


def test_what_was_bought_before_a_failure_is_found_by_others(endpoint, store, impatient):
    texts = [f"text {i}" for i in range(600)]
    endpoint.mend = lambda answer: answer if endpoint.requests < 4 else {"data": []}
    with pytest.raises((InputError, TransientError)):
        encode(store, texts, concurrency=1)
    endpoint.mend = lambda answer: answer
    (encoder := open_or_ask(MODEL, "float32", store)).encode_passages(texts[::2])
    assert encoder.costs["vectors_reused"] > 0


@pytest.mark.parametrize("recorded", [True, False])
def test_a_registry_that_states_another_width_loses_nothing_that_was_bought(endpoint, store, monkeypatch, recorded):
    encode(store, TEXTS)
    for key in (key for key in [*store.keys("responses")] if key.endswith(".json") and not recorded):
        store.replace(key, (store.read(key) or b"").replace(b'"dim":1536,', b""))
    bought = sorted(store.keys("responses"))
    wrong = get(MODEL).model_copy(update={"dim": DIM // 2})
    monkeypatch.setattr(served_encoder, "get", lambda name: wrong)
    for texts in (TEXTS, TEXTS[:9], TEXTS[:1]):
        with pytest.raises(InputError, match="(have|of shape) .*1536.*: mend (its )?dim"):
            encode(store, texts)
    assert sorted(store.keys("responses")) == bought


def test_a_busy_endpoint_is_asked_again_when_it_says_so(endpoint, store):
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=1), usegmt=True)
    endpoint.faults = [(429, {"Retry-After": "0.7"}, b""), (503, {"Retry-After": soon}, b"")]
    began = time.monotonic()
    open_or_ask(MODEL, "float32", store).encode_passages(["flood"])
    assert time.monotonic() - began >= 0.7
    assert (endpoint.requests, endpoint.sold["flood"]) == (3, 1)


@pytest.mark.parametrize("status", [429, 500])
def test_one_that_stays_busy_may_work_later(endpoint, store, impatient, status):
    endpoint.faults = [(status, {}, b"no")] * 20
    with pytest.raises(TransientError, match=r"127\.0\.0\.1.*(too many requests|answered 500 in all of 8)"):
        open_or_ask(MODEL, "float32", store, terms=Terms(patience_s=0.0)).encode_passages(["flood"])


@pytest.mark.parametrize(("status", "remedy"), [(401, "a key"), (404, "the model's name"), (400, "the length")])
def test_a_refusal_is_the_callers_to_mend_and_tells_no_key(endpoint, store, status, remedy):
    endpoint.faults = [(status, {}, b"key-1 is wrong")]
    with pytest.raises(InputError, match=rf"\({status}\).*{remedy}") as told:
        open_or_ask(MODEL, "float32", store).encode_passages(["flood"])
    assert "key-1" not in str(told.value) and endpoint.requests == 1


def wider(answer):
    for row in answer["data"]:
        row["embedding"].append(1.0)
    return answer


def ragged(answer):
    answer["data"][0]["embedding"].pop()
    return answer


def absent(answer):
    return answer | {"data": answer["data"][:-1]}


def twice(answer):
    return answer | {"data": [answer["data"][0]] * 2}


def not_a_number(answer):
    answer["data"][0]["embedding"][3] = float("nan")
    return answer


def without_direction(answer):
    answer["data"][0]["embedding"] = [0.0] * len(answer["data"][0]["embedding"])
    return answer


@pytest.mark.parametrize("mend", [wider, absent, twice, not_a_number, without_direction])
def test_vectors_that_do_not_fit_are_refused_and_not_kept(endpoint, store, mend):
    endpoint.mend = mend
    with pytest.raises(InputError, match="sent vectors of shape"):
        open_or_ask(MODEL, "float32", store).encode_passages(["flood", "storm"])
    assert not list(store.keys("responses"))


@pytest.mark.parametrize("mend", [ragged, lambda a: [], lambda a: {"data": 3}])
def test_an_answer_that_is_none_is_asked_for_again_and_not_kept(endpoint, store, impatient, mend):
    endpoint.mend = mend
    with pytest.raises(TransientError, match="sent an answer that is not of this API .* in all of 8 attempts"):
        open_or_ask(MODEL, "float32", store).encode_passages(["flood", "storm"])
    assert not list(store.keys("responses")) and endpoint.requests == 8


def test_an_answer_that_is_cut_off_is_asked_for_again(endpoint, store, impatient):
    endpoint.faults = [(200, {}, b'{"data": [{"index": 0, "embe'), (500, {}, b"")]
    encoder = open_or_ask(MODEL, "float32", store)
    encoder.encode_passages(["flood"])
    assert (encoder.costs["retries_bad_answer"], encoder.costs["retries_500"], endpoint.sold["flood"]) == (1, 1, 1)


def test_what_a_failed_run_spent_on_vectors_is_told_and_its_budget_holds(endpoint, store):
    put(store, PASSAGES, [{"passage_id": f"p{i}", "doc_id": "d", "text": text} for i, text in enumerate(TEXTS)])
    endpoint.mend = lambda answer: answer | {"usage": {"prompt_tokens": 20 * len(answer["data"])}}
    with pytest.raises(LimitReached, match="embeddings: max_run_tokens=3400 is spent") as told:
        go(store, embed_passages, model=MODEL, max_run_tokens=3400)
    assert "foundry run embed_passages" in str(told.value) and "--set max_run_tokens=6800" in str(told.value)
    spent = query(store, "SELECT value FROM counters WHERE name = 'prompt_tokens'")["value"].to_pylist()
    assert spent == [20 * sum(endpoint.sold.values())] and 0 < spent[0] <= 3400


def test_the_price_of_an_endpoint_elsewhere_must_be_known(store, monkeypatch):
    monkeypatch.setenv("FOUNDRY_EMBEDDINGS_BASE_URL", "https://embed.example.org/v1")
    settings.cache_clear()
    with pytest.raises(InputError, match="set FOUNDRY_EMBEDDINGS_PRICE to US dollars per million tokens, or to free"):
        open_or_ask(MODEL, "float32", store)
    settings.cache_clear()


def test_a_step_counts_what_it_bought_and_a_raised_version_buys_nothing(endpoint, store):
    put(store, PASSAGES, [{"passage_id": f"p{i}", "doc_id": "d", "text": text} for i, text in enumerate(TEXTS)])
    counters = go(store, embed_passages, model=MODEL).counters
    assert counters["vectors_bought"] == counters["texts_encoded"] == len(TEXTS)
    assert counters["cost_usd"] == pytest.approx(3 * len(TEXTS) * 2 / 1e6)
    bought = endpoint.requests
    counters = go(store, embed_passages, model=MODEL, storage="float16").counters
    assert (counters["vectors_reused"], counters["cost_usd"], endpoint.requests) == (len(TEXTS), 0, bought)
    assert len(rows(store, f"embeddings/{MODEL}")[0]["embedding"]) == DIM


def test_the_cost_of_a_version_counts_the_vectors_behind_it(endpoint, store):
    put(store, PASSAGES, [{"passage_id": f"p{i}", "doc_id": "d", "text": text} for i, text in enumerate(TEXTS)])
    for storage in ("float32", "float16"):
        go(store, embed_passages, model=MODEL, storage=storage)
        cost = query(store, "FROM cost_of(?)", [f"embeddings/{MODEL}"]).to_pylist()[0]
        assert cost["cost_usd"] == pytest.approx(3 * len(TEXTS) * 2 / 1e6), storage
        assert cost["prompt_tokens"] == 3 * len(TEXTS) and cost["n_unknown"] == 0
    put(store, PASSAGES, [{"passage_id": "p0", "doc_id": "d", "text": TEXTS[0]}])
    go(store, embed_passages, model=MODEL)
    assert query(store, "FROM cost_of(?)", [f"embeddings/{MODEL}"])["prompt_tokens"].to_pylist() == [3]


def test_any_registered_model_may_be_served_and_that_is_part_of_its_identity(endpoint, monkeypatch):
    here = identity("qwen3-embedding-0.6b")
    monkeypatch.setenv("FOUNDRY_SERVED_MODELS", "bge-large-en-v1.5, qwen3-embedding-0.6b")
    settings.cache_clear()
    served = identity("qwen3-embedding-0.6b")
    assert served == {"name": "qwen3-embedding-0.6b", "served": "Qwen/Qwen3-Embedding-0.6B", "texts": here["texts"]}
    assert identity("nv-embed-v2")["served"] == "nvidia/NV-Embed-v2"


@pytest.mark.parametrize("url", ["", "ftp://host/v1", "http://user:secret@host/v1"])
def test_an_endpoint_that_is_no_plain_url_is_refused(store, monkeypatch, url):
    monkeypatch.setenv("FOUNDRY_EMBEDDINGS_PRICE", "free")
    monkeypatch.setenv("FOUNDRY_EMBEDDINGS_BASE_URL", url)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    settings.cache_clear()
    with pytest.raises(InputError, match="FOUNDRY_EMBEDDINGS_BASE_URL") as told:
        open_or_ask(MODEL, "float32", store)
    settings.cache_clear()
    assert "secret" not in str(told.value)
