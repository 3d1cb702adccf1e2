import pytest

from tests import shapes


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory):
    """A plain transformers folder, dropout on, without a pooler."""
    return shapes.make("bert", tmp_path_factory.mktemp("tiny_bert"))
