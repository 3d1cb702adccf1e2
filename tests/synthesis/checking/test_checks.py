"""Every reason for which a written pair is refused, and the pairs of a strong writer, which are not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.pair_checks import read_given, tables
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.domains import folder_of
from pipeline_tasks.domains.intents import load_intents
from pipeline_tasks.synthesis.checking.checks import TABLE, bounds_of, check_names, fault_of
from pipeline_tasks.synthesis.checking.measures import Draft
from pipeline_tasks.synthesis.checking.wording import english_share
from pipeline_tasks.synthesis.prompting.prompts import load_prompts

GUIDES = Path(__file__).parents[4] / "shared" / "data" / "ir" / "disaster_guides"


def intents_of(domain: str) -> tuple[str, ...]:
    return tuple(load_intents(folder_of(domain)))


GOOD = Draft(
    query="How often does somebody have to bring diesel to the pumps once the power is out?",
    positive="Roughly every nine hours, because the tank of a trailer generator takes no more than 140 gallons.",
    passage="After an ice storm water districts run their pumps on trailer generators. Each trailer tank holds only "
    "140 gallons of diesel, so fuel has to be brought every nine hours. Crews sleep in shifts.",
)
CLAIM = replace(
    GOOD,
    query="A trailer generator of a water district runs for a whole day on one tank.",
    positive="Refuted. With 140 gallons in its tank, such a generator needs new fuel after nine hours.",
)
PREMISE = replace(
    GOOD,
    query="All night in the ice storm Pete drove 140 gallons of diesel from generator to generator of the district.",
    positive="Generators were being supplied with fuel.",
)
DRAFTS = {"qa": GOOD, "factcheck": CLAIM, "nli": PREMISE}


@pytest.mark.parametrize("intent", DRAFTS)
def test_a_good_pair_is_kept(intent):
    assert fault_of(DRAFTS[intent], bounds_of("chat", intent)) == ""


@pytest.mark.parametrize(("domain", "intent"), [(d, i) for d in ("disaster", "food_safety") for i in intents_of(d)])
def test_the_examples_that_a_model_is_shown_would_be_kept(domain, intent):
    shown = load_prompts(folder_of(domain), intent).chat
    assert len(shown) >= 2
    for example in shown:
        need = Draft(example.need, example.passage, kind="need")
        pair = Draft(example.query, example.passage, example.positive)
        assert [fault_of(draft, bounds_of("chat", intent)) for draft in (need, pair)] == ["", ""], example.query


@pytest.mark.parametrize(
    ("intent", "change", "reason"),
    [
        ("qa", {"positive": "…"}, "empty_answer"),
        ("qa", {"positive": "I'm sorry, but I can't help with generators."}, "refusal"),
        ("qa", {"positive": "As an AI model, I have no diesel for generators."}, "refusal"),
        ("qa", {"query": f"Sure! Here is the query: {GOOD.query}"}, "boilerplate"),
        ("qa", {"positive": f"Answer: {GOOD.positive}"}, "boilerplate"),
        ("qa", {"query": "¿Cada cuánto tiempo hay que llevar diesel a los generadores del distrito?"}, "language"),
        ("qa", {"positive": "Каждые девять часов, потому что бак вмещает мало топлива."}, "language"),
        ("qa", {"query": "diesel when?"}, "too_short"),
        ("qadoc", {"positive": "Every nine hours."}, "too_short"),
        ("qa", {"query": GOOD.query + " Who pays for the diesel of the pumps?" * 8}, "too_long"),
        ("twitter", {"positive": f"{GOOD.positive} {GOOD.passage} #diesel"}, "too_long"),
        ("qa", {"positive": "Every nine hours, see https://evil.example for the diesel."}, "garbled"),
        ("qa", {"query": "According to the passage, how often is diesel brought to the pumps?"}, "context_bound"),
        ("qa", {"query": "What does this document say about diesel for pumps?"}, "context_bound"),
        ("qa", {"query": GOOD.positive.upper()}, "query_is_passage"),
        (
            "qa",
            {"positive": "Each trailer tank holds only 140 gallons of diesel, so fuel has to be brought."},
            "copied",
        ),
        ("qa", {"seen": (GOOD.positive,)}, "copied_example"),
        ("qa", {"positive": "Fuel for diesel pumps is for diesel pumps of fuel for diesel pumps."}, "repetitive"),
        ("qa", {"query": f"Is it true? {GOOD.positive}"}, "answer_in_query"),
        ("sts", {"positive": f"And so {GOOD.query}"}, "answer_in_query"),
        ("nli", {"positive": "Generators were supplied with 900 gallons of fuel."}, "not_entailed"),
        (
            "factcheck",
            {
                "query": "A trailer generator lasts for 30 hours on one tank of diesel.",
                "positive": "Supported. Trailers have their tank, and crews of the water district bring diesel.",
            },
            "unrefuted",
        ),
        (
            "qa",
            {"passage": "Cholera spreads through water. Wells of the camp were chlorinated in June."},
            "off_passage",
        ),
        ("qa", {"positive": GOOD.positive.replace("140", "350")}, "new_number"),
    ],
)
def test_a_bad_pair_has_its_reason(intent, change, reason):
    draft = replace(DRAFTS.get(intent, GOOD), **change)
    assert fault_of(draft, bounds_of("chat", intent)) == reason


def test_a_passage_in_another_language_may_be_written_about_in_it():
    passage = "Nach dem Eissturm laufen die Pumpen mit Generatoren. Der Tank fasst nur 140 Gallonen und wird gefüllt."
    query = "Wie viele Gallonen gehen in den Tank von einem der Generatoren?"
    draft = Draft(query, passage, "Der Tank der Generatoren für die Pumpen nimmt 140 Gallonen auf.")
    assert fault_of(draft, bounds_of("chat", "qa")) == ""


@pytest.mark.parametrize(
    "said",
    [
        "Po powodzi zakład płucze sieć przez 20 minut, pobiera próbki z 15 kranów i wysyła je do "
        "laboratorium, które je bada",
        "Sadece belediyenin sel sonrası suyu nasıl temizlediğini anlatan ve kaç musluktan örnek alındığını söyleyen "
        "metinler uygundur",
        "Setelah banjir perusahaan air membilas jaringan selama dua puluh menit dan mengambil sampel dari lima "
        "belas keran",
        "The utility 在洪水之后冲洗水管二十分钟并从十五个水龙头取样 and publishes the results",
    ],
)
def test_of_an_english_passage_nothing_is_written_in_another_language(said):
    assert english_share(said) == 0
    assert fault_of(replace(GOOD, query=said, kind="need"), bounds_of("chat", "qa")) == "language"


def test_a_step_sets_bounds_for_all_intents_or_for_one():
    usual = bounds_of("chat", "nli")
    told = {"supported": 0.5, "supported/nli": 0.1, "copied_run": 3.0}
    assert bounds_of("chat", "nli", told) == usual | {"supported": 0.1, "copied_run": 3.0}
    assert bounds_of("chat", "qa", told)["supported"] == 0.5
    assert fault_of(GOOD, bounds_of("chat", "qa", {"copied_run": 2})) == "copied"
    with pytest.raises(InputError, match="checks='suported/nli' is no measure; known are some_words, refusals"):
        check_names({"suported/nli": 0.1})
    with pytest.raises(InputError, match="no intent is called 'nlii'; the domain has"):
        check_names({"supported/nlii": 0.1})


@pytest.mark.parametrize("figure", ["1,000", "1000", "1\u00a0000"])
def test_a_thousand_is_one_number_however_it_is_written(figure):
    said = "Up to 1,000 residents of the district may stay there while the pumps are out of diesel."
    passage = f"{GOOD.passage} The hall of the district holds {figure} people."
    draft = replace(GOOD, query="How many people can the hall of the district hold?", positive=said, passage=passage)
    assert fault_of(draft, bounds_of("chat", "qa")) == ""
    assert fault_of(replace(draft, positive=said.replace("1,000", "1,100")), bounds_of("chat", "qa")) == "new_number"


@pytest.mark.parametrize(
    ("said", "reason"),
    [("0.05", ""), ("0.050", ""), ("0.5", "new_number"), ("5", "new_number"), ("3.5", ""), ("5.3", "new_number")],
)
def test_a_number_with_a_point_is_one_number(said, reason):
    positive = f"Up to {said} grams of the residue may stay in the hall of the district after the pumps are stopped."
    passage = f"{GOOD.passage} The residue in the hall of the district is 0.05 grams, or 3.50 where pumps are stopped."
    draft = replace(GOOD, query="How much may be in that hall when all is done?", positive=positive, passage=passage)
    assert fault_of(draft, bounds_of("chat", "qa")) == reason


def test_intents_of_another_domain_are_held_to_their_figures_too():
    invented = replace(GOOD, positive=GOOD.positive.replace("140", "350"))
    assert fault_of(invented, bounds_of("chat", "question")) == "new_number"
    assert fault_of(replace(GOOD, query=f"Is it true? {GOOD.positive}"), bounds_of("chat", "question")) != ""


def test_measures_are_named_once():
    assert max(Counter(check.name for check in TABLE).values()) == 1


@pytest.mark.skipif(not GUIDES.is_dir(), reason="the judged guides are not beside the checkout")
def test_a_strong_writers_pairs_are_kept_and_planted_faults_are_named():
    pairs = read_given(GUIDES)
    good, bad = tables(pairs[::4], pairs)
    kept = {intent: found[""] / sum(found.values()) for intent, found in good.items()}
    assert kept.keys() == set(intents_of("disaster")) and min(kept.values()) >= 0.93, kept
    kinds = Counter(one.kind for one, _ in bad)
    right = Counter(one.kind for one, reason in bad if reason in one.reasons)
    assert set(kinds.values()) == {30} and len(kinds) == 10
    assert min(right.values()) >= 27, right
