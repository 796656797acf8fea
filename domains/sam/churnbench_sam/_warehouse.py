"""The warehouse: a star schema around purchases and consumption.

The tables are entity-local; the dimensions and the purchases fact are views over them, each written twice,
as Python and as SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from churnbench.domain import Store
from churnbench.events import Event
from churnbench.tables import Column, EntityTable, FactTable, Relations, Row, View
from churnbench_sam import _names as names
from churnbench_sam._folds import (
    CONTRACT_COLUMNS,
    CONTRACT_KINDS,
    LICENSE_COLUMNS,
    LICENSE_KINDS,
    USER_COLUMNS,
    USER_KINDS,
    contract_step,
    license_step,
    user_step,
)

__all__ = ["CONSUMPTION", "USERS", "WAREHOUSE"]


def _product_step(row: Row | None, event: Event) -> Row:
    first = event.seq if row is None else row[2]
    return (event.entity_id, names.number_of(event.entity_id), first, event.payload.unit_price_usd, event.at)


def _consumption_row(event: Event) -> Row:
    used = event.payload
    return (event.seq, event.at, event.entity_id, used.product_id, used.session_minutes, used.api_calls)


USERS = EntityTable("users", USER_COLUMNS, USER_KINDS, user_step, indexes=("cost_center",))
LICENSES = EntityTable("licenses", LICENSE_COLUMNS, LICENSE_KINDS, license_step, indexes=("product_id", "holder"))
PRODUCTS = EntityTable(
    "products",
    (
        Column("product_id", "text"),
        Column("number", "int"),
        Column("first_priced_seq", "int"),
        Column("price", "float"),
        Column("priced_at", "time"),
    ),
    frozenset({"price_changed"}),
    _product_step,
)
CONTRACTS = EntityTable("contracts", CONTRACT_COLUMNS, CONTRACT_KINDS, contract_step)
CONSUMPTION = FactTable(
    "consumption",
    (
        Column("seq", "int"),
        Column("at", "time"),
        Column("user_id", "text"),
        Column("product_id", "text"),
        Column("session_minutes", "int"),
        Column("api_calls", "int"),
    ),
    frozenset({"consumption_logged"}),
    _consumption_row,
    indexes=("at", "product_id"),
)


# -- views --------------------------------------------------------------------------------------------


def _array(values: Sequence[str]) -> str:
    return "(ARRAY[" + ", ".join("'" + value.replace("'", "''") + "'" for value in values) + "])"


def _vendors(relations: Relations) -> Iterable[Row]:
    vendors: dict[int, list[Row]] = {}
    for row in relations["contracts"]:
        vendors.setdefault(row[5], []).append(row)
    for idx, contracts in vendors.items():
        first = min(contracts, key=lambda row: row[1])
        yield (idx, first[6], names.vendor_tier(idx), len(contracts))


DIM_VENDOR = View(
    "dim_vendor",
    (Column("vendor_idx", "int"), Column("vendor", "text"), Column("tier", "text"), Column("contracts", "int")),
    ("contracts",),
    _vendors,
    f"SELECT vendor_idx, (array_agg(vendor ORDER BY signed_seq))[1] AS vendor, "  # noqa: S608 - constants
    f"{_array(names.VENDOR_TIERS)}[1 + vendor_idx % {len(names.VENDOR_TIERS)}] AS tier, count(*) AS contracts "
    "FROM contracts GROUP BY vendor_idx",
)


def _products(relations: Relations) -> Iterable[Row]:
    signed = sorted(relations["contracts"], key=lambda row: row[1])
    name = {row[3]: row[4] for row in reversed(signed)}
    order = names.signing_order(row[3] for row in signed)
    for product, number, _, price, _ in relations["products"]:
        vendor = names.product_vendor(product, order)
        known = None if vendor is None else name[vendor]
        yield (product, number, names.license_model(product), vendor, known, price)


DIM_PRODUCT = View(
    "dim_product",
    (
        Column("product_id", "text"),
        Column("number", "int"),
        Column("license_model", "text"),
        Column("vendor_idx", "int"),
        Column("vendor", "text"),
        Column("price", "float"),
    ),
    ("products", "contracts"),
    _products,
    "WITH signing AS (SELECT signed_vendor_idx, (array_agg(signed_vendor ORDER BY signed_seq))[1] AS vendor, "  # noqa: S608
    "row_number() OVER (ORDER BY min(signed_seq)) - 1 AS place, count(*) OVER () AS vendors "
    "FROM contracts GROUP BY signed_vendor_idx) "
    f"SELECT p.product_id, p.number, {_array(names.LICENSE_MODELS)}[1 + p.number % {len(names.LICENSE_MODELS)}] "
    "AS license_model, s.signed_vendor_idx AS vendor_idx, s.vendor, p.price "
    "FROM products p LEFT JOIN signing s ON s.place = p.number % s.vendors",
)

DIM_COST_CENTER = View(
    "dim_cost_center",
    (Column("cost_center", "text"), Column("business_unit", "text")),
    ("users",),
    lambda relations: [(cc, names.business_unit(cc)) for cc in {row[1] for row in relations["users"]}],
    f"SELECT cost_center, {_array(names.BUSINESS_UNITS)}"  # noqa: S608 - constants
    f"[1 + substring(cost_center from '[0-9]+$')::bigint % {len(names.BUSINESS_UNITS)}] AS business_unit "
    "FROM (SELECT DISTINCT cost_center FROM users) AS known",
)


def _dates(relations: Relations) -> Iterable[Row]:
    times = [row[3] for row in relations["users"]] + [row[1] for row in relations["consumption"]]
    if not times:
        return
    first, last = (datetime(t.year, t.month, t.day, tzinfo=UTC) for t in (min(times), max(times)))
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        key = day.year * 10_000 + day.month * 100 + day.day
        week = day.isocalendar()
        yield (key, day, day.year, (day.month + 2) // 3, day.month, day.day, week.week, week.weekday)


DIM_DATE = View(
    "dim_date",
    (
        Column("date_key", "int"),
        Column("day", "time"),
        Column("year", "int"),
        Column("quarter", "int"),
        Column("month", "int"),
        Column("day_of_month", "int"),
        Column("iso_week", "int"),
        Column("iso_weekday", "int"),
    ),
    ("users", "consumption"),
    _dates,
    "SELECT to_char(d, 'YYYYMMDD')::bigint AS date_key, d AT TIME ZONE 'UTC' AS day, "
    "extract(year FROM d)::bigint AS year, extract(quarter FROM d)::bigint AS quarter, "
    "extract(month FROM d)::bigint AS month, extract(day FROM d)::bigint AS day_of_month, "
    "extract(week FROM d)::bigint AS iso_week, extract(isodow FROM d)::bigint AS iso_weekday "
    "FROM generate_series("
    "date_trunc('day', least((SELECT min(hired_at) FROM users), (SELECT min(at) FROM consumption)) "
    "AT TIME ZONE 'UTC'), "
    "greatest((SELECT max(hired_at) FROM users), (SELECT max(at) FROM consumption)) AT TIME ZONE 'UTC', "
    "interval '1 day') AS d",
)


def _purchases(relations: Relations) -> Iterable[Row]:
    cost_centers = {row[0]: row[1] for row in relations["users"] if row[2]}
    for _, number, product, seats, price, at, holder in relations["licenses"]:
        yield (number, product, seats, price, at, cost_centers.get(holder))


PURCHASES = View(
    "purchases",
    (
        Column("purchase_no", "int"),
        Column("product_id", "text"),
        Column("seats", "int"),
        Column("purchase_price", "float"),
        Column("purchased_at", "time"),
        Column("cost_center", "text"),
    ),
    ("licenses", "users"),
    _purchases,
    "SELECT l.purchase_no, l.product_id, l.seats, l.purchase_price, l.purchased_at, u.cost_center "
    "FROM licenses l LEFT JOIN users u ON u.user_id = l.holder AND u.active",
)

PRODUCT_PRICES = View(
    "product_prices",
    (Column("product_id", "text"), Column("price", "float")),
    ("products",),
    lambda relations: [(row[0], row[3]) for row in relations["products"]],
    "SELECT product_id, price FROM products",
)

WAREHOUSE = Store(
    (USERS, LICENSES, PRODUCTS, CONTRACTS, CONSUMPTION),
    (DIM_VENDOR, DIM_PRODUCT, DIM_COST_CENTER, DIM_DATE, PURCHASES, PRODUCT_PRICES),
)
"""Facts `purchases` (a row per purchase, with the holder's cost center as it is now) and `consumption` (a row per
session); dimensions `dim_vendor`, `dim_product`, `dim_cost_center` and `dim_date`."""
