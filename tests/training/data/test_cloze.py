"""Cloze pairs: which sentences become queries, and what is left of the passage."""

from pipeline_tasks.training.data.cloze import cloze_pairs

SENTENCES = [f"Sentence number {i} tells a crew what to do at gate {i}." for i in range(6)]
TEXT = " ".join(SENTENCES)


def test_the_rest_is_the_passage_without_the_sentence() -> None:
    pairs = list(cloze_pairs("p1", TEXT, 3))
    assert len({pair.query for pair in pairs}) == 3
    for pair in pairs:
        assert pair.query in SENTENCES
        assert pair.query not in pair.positive
        assert len(pair.positive.split()) == len(TEXT.split()) - len(pair.query.split())


def test_which_sentences_depends_on_the_passage_alone() -> None:
    assert list(cloze_pairs("p1", TEXT, 2)) == list(cloze_pairs("p1", TEXT, 3))[:2]
    drawn = {tuple(p.query for p in cloze_pairs(f"p{i}", TEXT, 2)) for i in range(20)}
    assert len(drawn) > 5


def test_ids_are_of_the_passage_and_the_sentence() -> None:
    ids = [p.positive_id for name in ("p1", "p2") for p in cloze_pairs(name, TEXT, 6)]
    assert len(set(ids)) == 12


def test_short_sentences_and_short_rests_are_left_out() -> None:
    assert not list(cloze_pairs("p1", "Stop. Wait here. Go.", 5))
    assert not list(cloze_pairs("p1", f"{SENTENCES[0]} And then it ends.", 5))
    long = " ".join(["word"] * 41) + "."
    assert [p.query for p in cloze_pairs("p1", f"{long} {SENTENCES[1]}", 5)] == [SENTENCES[1]]
