"""Asking an endpoint that may be slow, busy, broken and paid: within rate, patience and budget."""

from pipeline_tasks.core.paid.endpoint.client import Bought, Endpoint
from pipeline_tasks.core.paid.endpoint.errors import Fault, NoAnswer, Refused, Silent, Unanswered
from pipeline_tasks.core.paid.endpoint.price import FREE, Price, Tokens, price_at
from pipeline_tasks.core.paid.endpoint.terms import PaidParams, Terms

__all__ = [
    "FREE",
    "Bought",
    "Endpoint",
    "Fault",
    "NoAnswer",
    "PaidParams",
    "Price",
    "Refused",
    "Silent",
    "Terms",
    "Tokens",
    "Unanswered",
    "price_at",
]
