"""A contract's document holds every fact of its contract, and a careful reader finds them again."""

from __future__ import annotations

from hypothesis import given, settings

from churnbench.events import Event, to_millis
from churnbench.tables import Fold
from churnbench_sam import _events as ev
from churnbench_sam._contracts import CONTRACTS, expiry_ms, terms_from, value_from, vendor_from
from tests.sam.estates import DAY_MS, ESTATES, START


def documents(events: list[Event]) -> dict[str, tuple[tuple[object, ...], str]]:
    fold = Fold((CONTRACTS.table,))
    fold.apply(events)
    return {row[0]: (row, CONTRACTS.render(row, 7)[1]) for row in fold.rows("contracts")}


@settings(max_examples=40, deadline=None)
@given(ESTATES)
def test_every_fact_is_read_back_from_the_whole_document_and_from_its_paragraphs(events: list[Event]) -> None:
    for row, text in documents(events).values():
        _, _, _, _, _, _, vendor, start, months, _, _, value = row
        for texts in ([text], text.split("\n\n"), [text.replace(" ", "\n")]):
            assert terms_from(texts) == (to_millis(start), months)  # type: ignore[arg-type]
            assert vendor_from(texts) == vendor
            assert value_from(texts) == value


def test_a_renewal_starts_a_new_term_and_keeps_what_it_does_not_say() -> None:
    signed = ev.ContractSigned(1, 12, vendor="Blue Ltd", annual_value_usd=1234.5, notice_days=60)
    events = [
        Event(0, START, "contract_signed", "contract", "ctr_0000", signed),
        Event(1, START + DAY_MS, "contract_renewed", "contract", "ctr_0000", ev.ContractRenewed(24)),
    ]
    _, text = documents(events)["ctr_0000"]
    assert "signed on 2024-01-01" in text
    assert "renewed 1 time, last on 2024-01-02" in text
    assert "runs for 24 months of 30 days each" in text
    assert "expires on 2025-12-22" in text
    assert "Blue Ltd" in text and "US$ 1,234.50" in text and "up to 60 days before" in text


def test_a_contract_without_notice_says_so() -> None:
    events = [Event(0, START, "contract_signed", "contract", "ctr_0000", ev.ContractSigned(1, 12))]
    _, text = documents(events)["ctr_0000"]
    assert "No period of notice is agreed for contract ctr_0000." in text
    assert "never been renewed" in text


def test_every_paragraph_names_its_contract() -> None:
    events = [Event(0, START, "contract_signed", "contract", "ctr_0000", ev.ContractSigned(1, 12))]
    _, text = documents(events)["ctr_0000"]
    assert all("ctr_0000" in paragraph for paragraph in text.strip().split("\n\n"))


def test_a_reader_finds_nothing_where_nothing_is_stated() -> None:
    for texts in ([], ["Contract ctr_0000 is a contract."]):
        assert (terms_from(texts), vendor_from(texts), value_from(texts)) == (None, None, None)


def test_months_have_30_days() -> None:
    assert expiry_ms(START, 12) - START == 360 * DAY_MS
