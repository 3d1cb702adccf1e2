"""How a language model is asked: the endpoint, requests and answers, batches, and what is wanted of it."""
