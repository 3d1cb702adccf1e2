import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.paid.endpoint import FREE, Price, Tokens, price_at
from pipeline_tasks.core.settings import settings

NAMES = ("FOUNDRY_LLM_PRICE_IN", "FOUNDRY_LLM_PRICE_OUT")


def told(*values):
    return dict(zip(NAMES, values, strict=True))


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "127.8.8.8", "[::1]:80", "localhost", "llm.localhost"])
def test_what_runs_on_this_machine_is_free_unless_it_is_said_to_cost(host):
    assert price_at(f"http://{host}/v1", told(None, None)) == FREE
    assert price_at(f"http://{host}/v1", told(1.0, 2.0)) == Price(1.0, 2.0)


@pytest.mark.parametrize("host", ["llm.example.org", "10.0.0.1", "127.0.0.1.example.org", "llm", "0.0.0.0"])
def test_a_price_elsewhere_is_known_or_said_to_be_free(host):
    with pytest.raises(InputError, match=f"price of {host} is not known: set {NAMES[0]} and {NAMES[1]} to"):
        price_at(f"https://{host}/v1", told(None, None))
    with pytest.raises(InputError, match=f"set {NAMES[1]} to"):
        price_at(f"https://{host}/v1", told(1.0, None))
    assert price_at(f"https://{host}/v1", told(0.0, 0.0)) == FREE


def test_free_is_a_price_of_the_settings(monkeypatch):
    monkeypatch.setenv(NAMES[0], "free")
    monkeypatch.setenv(NAMES[1], "0.6")
    settings.cache_clear()
    assert (settings().llm_price_in, settings().llm_price_out, settings().embeddings_price) == (0.0, 0.6, None)
    for wrong in ("cheap", "-1", "nan", "inf"):
        monkeypatch.setenv(NAMES[0], wrong)
        settings.cache_clear()
        with pytest.raises(InputError, match="FOUNDRY_LLM_PRICE_IN"):
            settings()
    settings.cache_clear()


def test_dollars_are_per_million_tokens():
    assert Price(2.0, 8.0).of(Tokens(500_000, 250_000)) == 3.0
