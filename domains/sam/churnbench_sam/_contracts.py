"""Contracts as documents, and how a careful reader finds the facts in them.

Every fact stands in a sentence that names the contract, so that a part of the document can be found and
understood by itself. Times are dates at midnight UTC, or ISO times with milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from jinja2 import Environment, StrictUndefined

from churnbench.domain import Documents
from churnbench.events import time_text, to_millis
from churnbench.registry import DAY_MS
from churnbench.tables import EntityTable, Row
from churnbench_sam import _names as names
from churnbench_sam._folds import CONTRACT_COLUMNS, CONTRACT_KINDS, contract_step

__all__ = [
    "CONTRACTS",
    "DAYS_A_MONTH",
    "Terms",
    "expiry_ms",
    "months_remaining",
    "status",
    "terms_from",
    "value_from",
    "vendor_from",
]

DAYS_A_MONTH = 30
"""A month of a contract's term."""

_TEMPLATE = """\
{{ title }}

Parties. Contract {{ id }} is a software supply agreement between the licensee and the vendor {{ vendor }}, \
a {{ tier }} supplier.

Term. Contract {{ id }} was signed on {{ signed }}. \
{% if renewals %}It has been renewed {{ renewals }} {{ "time" if renewals == 1 else "times" }}, \
last on {{ start }}{% else %}It has never been renewed{% endif %}. \
The present term of contract {{ id }} began on {{ start }} and runs for {{ months }} months of {{ month_days }} days \
each; unless it is renewed, contract {{ id }} expires on {{ expiry }}.

Notice. {% if notice is none %}No period of notice is agreed for contract {{ id }}.\
{% else %}Either party may give notice up to {{ notice }} days before contract {{ id }} expires.{% endif %}

Value. The estimated annual value of contract {{ id }} with {{ vendor }} is US$ {{ value }}.

Record. This is revision {{ revision }} of the record of contract {{ id }}.
"""

_render_text = Environment(undefined=StrictUndefined, autoescape=False).from_string(_TEMPLATE)  # noqa: S701 - plain text


def expiry_ms(start_ms: int, term_months: int) -> int:
    """The instant at which a term ends, milliseconds."""
    return start_ms + term_months * DAYS_A_MONTH * DAY_MS


def status(start_ms: int, term_months: int, at_ms: int) -> str:
    """`active` up to the expiry, that instant included; `expired` after it."""
    return "active" if expiry_ms(start_ms, term_months) >= at_ms else "expired"


def months_remaining(start_ms: int, term_months: int, at_ms: int) -> float:
    """Whole days left over 30, one decimal; 0.0 from the expiry on."""
    days = (expiry_ms(start_ms, term_months) - at_ms) // DAY_MS
    return round(max(0, days) / DAYS_A_MONTH, 1)


def _render(row: Row, seq: int) -> tuple[str, str]:
    contract, _, signed_at, _, _, vendor_idx, vendor, start, months, renewals, notice, value = row
    title = f"Contract {contract}: {vendor}"
    text = _render_text.render(
        title=title,
        id=contract,
        vendor=vendor,
        tier=names.vendor_tier(vendor_idx),
        signed=time_text(to_millis(signed_at)),
        renewals=renewals,
        start=time_text(to_millis(start)),
        months=months,
        month_days=DAYS_A_MONTH,
        expiry=time_text(expiry_ms(to_millis(start), months)),
        notice=notice,
        value=f"{value:,.2f}",
        revision=seq,
    )
    return title, text


CONTRACTS = Documents(EntityTable("contracts", CONTRACT_COLUMNS, CONTRACT_KINDS, contract_step), _render)
"""One document per contract, rewritten by each renewal."""


# -- reading ------------------------------------------------------------------------------------------

_TERM = re.compile(r"present term of contract \S+ began on (\S+) and runs for (\d+) months")
_VENDOR = re.compile(r"and the vendor (.+?), a \w+ supplier")
_VALUE = re.compile(r"annual value of contract \S+ with .+? is US\$ ([\d,]+\.\d\d)")


class Terms(NamedTuple):
    """Start of the present term in milliseconds, and its months."""

    start_ms: int
    months: int


def _search(pattern: re.Pattern[str], texts: Iterable[str]) -> re.Match[str] | None:
    for text in texts:
        # Chunking may break a sentence across lines.
        match = pattern.search(" ".join(text.split()))
        if match is not None:
            return match
    return None


def terms_from(texts: Iterable[str]) -> Terms | None:
    """The present term as stated in a contract's document or its parts; None where no part states it."""
    match = _search(_TERM, texts)
    if match is None:
        return None
    start = datetime.fromisoformat(match[1])
    return Terms(to_millis(start if start.tzinfo else start.replace(tzinfo=UTC)), int(match[2]))


def vendor_from(texts: Iterable[str]) -> str | None:
    """The vendor's name; None where no part states it."""
    match = _search(_VENDOR, texts)
    return None if match is None else match[1]


def value_from(texts: Iterable[str]) -> float | None:
    """The estimated annual value, US dollars; None where no part states it."""
    match = _search(_VALUE, texts)
    return None if match is None else float(match[1].replace(",", ""))
