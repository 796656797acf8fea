"""Task sets: templates as data, and the seeded draw of tasks from them.

A template's parameter is drawn from fixed choices or from a *pool*, values taken from the world at the
question's time. The draw follows the published generator call for call.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from churnbench.domain import AnswerType, Task
from churnbench.errors import UsageError

__all__ = ["POOLS", "TEMPLATES", "TIER_WEIGHTS", "Gold", "Parameter", "Pools", "Template", "generate", "threshold_of"]

Gold = Callable[[str, Mapping[str, Any]], Any]
"""(measure, parameters) -> the true answer at the question's time; None where there is none."""

Pools = Mapping[str, Sequence[Any]]
"""Pool -> its values, sorted."""


class Parameter(msgspec.Struct, frozen=True):
    """A template's parameter.

    Attributes:
        name: as the measure calls it.
        pool: the pool that its values come from, or "".
        choices: its values, where there is no pool.
        drawn: False for a value that follows from the world: the pool's only one, taken without a draw.
    """

    name: str
    pool: str = ""
    choices: tuple[int, ...] = ()
    drawn: bool = True


class Template(msgspec.Struct, frozen=True):
    """A kind of question: what it asks (`measure`, `params`), how hard it is (`tier`) and what for (`intent`)."""

    template_id: str
    tier: int
    measure: str
    params: tuple[Parameter, ...]
    answer_type: AnswerType
    intent: str


POOLS: Mapping[str, str] = {
    "cost_centers_active": "cost centers with an active user",
    "cost_centers_holding": "cost centers of an active holder of a licence",
    "products": "products",
    "products_held": "products of a held licence",
    "products_used": "products ever used",
    "products_held_and_used": "products both held and used",
    "contracts": "contracts",
    "threshold": "`threshold_of` the spends of the cost centers that have any: one value, or none",
}
"""Every pool and what it holds at the question's time."""

_SV, _SO, _CR, _UT = "spend_visibility", "savings_opportunity", "criticality", "utilization"
_IDLE = Parameter("idle_days", choices=(7, 14, 30, 60))
_BACK = Parameter("days_back", choices=(7, 14, 30, 60, 90))
_RECLAIM = Parameter("days_back", choices=(30, 60, 90, 120, 180))
_WINDOW = Parameter("window_days", choices=(7, 14, 30))
_CC = Parameter("cc", "cost_centers_active")
_CC_HOLDING = Parameter("cc", "cost_centers_holding")
_PRODUCT = Parameter("product_id", "products")
_HELD = Parameter("product_id", "products_held")
_USED = Parameter("product_id", "products_used")
_BOTH = Parameter("product_id", "products_held_and_used")
_CONTRACT = Parameter("contract_id", "contracts")
_THRESHOLD = Parameter("threshold", "threshold", drawn=False)

TEMPLATES: tuple[Template, ...] = (
    Template("SV1", 1, "spend_by_cost_center", (_CC,), "float", _SV),
    Template("SV2", 1, "active_user_count_cc", (_CC,), "int", _SV),
    Template("SV3", 1, "product_price", (_PRODUCT,), "float", _SV),
    Template("SO1", 1, "idle_license_count", (_HELD, _IDLE), "int", _SO),
    Template("SO2", 1, "unassigned_license_count", (), "int", _SO),
    Template("CR1", 1, "offboard_count_window", (_BACK,), "int", _CR),
    Template("UT1", 1, "product_api_calls", (_USED, _WINDOW), "int", _UT),
    Template("UT2", 1, "product_active_users", (_USED, _WINDOW), "int", _UT),
    Template("SV4", 2, "total_monthly_spend", (), "float", _SV),
    Template("SV5", 2, "top_spending_cost_center", (), "str", _SV),
    Template("SV6", 2, "cost_centers_above_threshold", (_THRESHOLD,), "int", _SV),
    Template("SO3", 2, "idle_license_count_cc", (_CC_HOLDING, _IDLE), "int", _SO),
    Template("SO4", 2, "idle_license_cost", (_IDLE,), "float", _SO),
    Template("SO5", 2, "license_reclaim_count", (_RECLAIM,), "int", _SO),
    Template("CR2", 2, "reassignment_count", (_BACK,), "int", _CR),
    Template("UT3", 2, "top_product_by_session_minutes", (_WINDOW,), "str", _UT),
    Template("UT4", 2, "zero_usage_license_count", (_HELD, _WINDOW), "int", _UT),
    Template("CR3", 3, "contract_status", (_CONTRACT,), "str", _CR),
    Template("CR4", 3, "contract_months_remaining", (_CONTRACT,), "float", _CR),
    Template("CR5", 3, "contract_vendor", (_CONTRACT,), "str", _CR),
    Template("CR6", 3, "contract_annual_value", (_CONTRACT,), "float", _CR),
    Template("UT5", 3, "license_efficiency", (_BOTH, _WINDOW), "float", _UT),
)
"""The published templates; their order within a tier is the order of the draw."""

TIER_WEIGHTS: Mapping[int, int] = {1: 40, 2: 40, 3: 20}
"""Tier -> its weight in the draw."""

_ROUNDS_A_TASK = 25


def generate(pools: Pools, gold: Gold, n: int, seed: int, templates: Sequence[Template] = TEMPLATES) -> list[Task]:
    """`n` tasks, drawn with `random.Random(seed)`.

    A template whose gold is trivial (missing, empty or 0) may be taken once in all with such a gold, so that a
    responder who always says 0 gains next to nothing. A round is dropped where a pool is empty.

    Args:
        pools: the values of each pool that the templates use.
        gold: asked once for each measure and parameters.
        n: how many; 0 gives none.
        seed: of the draw.
        templates: what to draw from.

    Raises:
        UsageError: `n` is negative, or the world has too few questions with an answer that is not trivial.
    """
    if n < 0:
        raise UsageError(f"the number of tasks cannot be {n}; give a whole number from 0 on")
    rng = random.Random(seed)  # noqa: S311 - a reproducible draw, no secret
    tiers = [tier for tier in TIER_WEIGHTS if any(template.tier == tier for template in templates)]
    weights = [TIER_WEIGHTS[tier] for tier in tiers]
    by_tier = {tier: [template for template in templates if template.tier == tier] for tier in tiers}
    known: dict[tuple[Any, ...], bool] = {}
    spent: set[str] = set()
    tasks: list[Task] = []
    for _ in range(n * _ROUNDS_A_TASK):
        if len(tasks) == n:
            break
        template = rng.choice(by_tier[rng.choices(tiers, weights=weights)[0]])
        params = _draw(template, pools, rng)
        if params is None:
            continue
        key = (template.measure, *params.items())
        if key not in known:
            known[key] = _trivial(gold(template.measure, params))
        if known[key]:
            if template.template_id in spent:
                continue
            spent.add(template.template_id)
        tasks.append(_task(len(tasks), template, params))
    if len(tasks) < n:
        raise UsageError(
            f"only {len(tasks)} of {n} tasks could be drawn: too few questions of this world have an answer other "
            "than 0; ask for fewer, or take a later time or a larger world"
        )
    return tasks


def threshold_of(spends: Sequence[float]) -> float | None:
    """The lower quartile of the cost centers' spends, to the cent: what SV6 asks about.

    Args:
        spends: unrounded, in any order, of the cost centers that have any.

    Returns:
        None if there are none.
    """
    values = sorted(spends)
    return round(values[len(values) // 4], 2) if values else None


def _draw(template: Template, pools: Pools, rng: random.Random) -> dict[str, Any] | None:
    params: dict[str, Any] = {}
    for parameter in template.params:
        values: Sequence[Any] = parameter.choices or pools[parameter.pool]
        if not values:
            return None
        params[parameter.name] = rng.choice(values) if parameter.drawn else values[0]
    return params


def _trivial(answer: Any) -> bool:
    return answer is None or answer in ("", 0)


def _task(number: int, template: Template, params: dict[str, Any]) -> Task:
    return Task(
        task_id=f"task_{number:04d}",
        template_id=template.template_id,
        tier=template.tier,
        measure=template.measure,
        params=params,
        answer_type=template.answer_type,
        intent=template.intent,
    )
