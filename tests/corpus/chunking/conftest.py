import numpy as np
import pytest
from tokenizers import Tokenizer

from pipeline_tasks.corpus.chunking.drift import token_table

MODEL = "all-minilm-l6-v2"


@pytest.fixture(scope="session")
def tokenizer(fetched) -> Tokenizer:
    """A real WordPiece tokenizer without truncation."""
    tokenizer = Tokenizer.from_file(str(fetched(MODEL) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@pytest.fixture(scope="session")
def table(fetched) -> np.ndarray:
    """The token embeddings of the same model."""
    return token_table(fetched(MODEL))
