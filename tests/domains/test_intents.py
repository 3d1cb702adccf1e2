import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import load_intents


def test_instructions_are_those_of_the_paper():
    intents = load_intents(domain_folder())
    assert {name: intent.instruction for name, intent in intents.items()} == {
        "qa": "Given the question, retrieve most relevant passage that best answers the question",
        "qadoc": "Given the question, retrieve most relevant document that answers the question",
        "twitter": "Given the user query, retrieve the most relevant Twitter text that meets the request",
        "factcheck": "Given the claim, retrieve most relevant document that supports or refutes the claim",
        "nli": "Given the premise, retrieve most relevant hypothesis that is entailed by the premise",
        "sts": "Given the sentence, retrieve the sentence with the same meaning",
    }


@pytest.mark.parametrize(
    ("text", "said"), [("[qa]\ndefinition = 'x'", "instruction"), ("[qa", "not TOML"), ("[qa]\nx = 1", "qa")]
)
def test_a_wrong_file_says_what_is_wrong(tmp_path, text, said):
    (tmp_path / "intents.toml").write_text(text)
    with pytest.raises(InputError, match=said):
        load_intents(tmp_path)
