"""Questions in words: several wordings of each measure, one chosen by the task's id."""

from __future__ import annotations

from collections.abc import Mapping
from zlib import crc32

from churnbench.domain import Task
from churnbench.events import time_text
from churnbench.registry import DAY_MS

__all__ = ["WORDINGS", "question"]

WORDINGS: Mapping[str, tuple[str, ...]] = {
    "spend_by_cost_center": (
        "How much does cost center {cc} spend on software licences a month, as of {at}?",
        "On {at}, what is the monthly licence spend of cost center {cc}, in US dollars?",
        "Add up what the licences held by active staff of {cc} cost a month. Today is {at}.",
    ),
    "active_user_count_cc": (
        "How many active users does cost center {cc} have on {at}?",
        "As of {at}, what is the number of active users in {cc}?",
        "Count the people who are active in cost center {cc} today, {at}.",
    ),
    "product_price": (
        "What does one seat of product {product_id} cost a month at the list price of {at}?",
        "Today is {at}. What is the present unit price of {product_id}?",
        "As of {at}, give the current price of product {product_id} in US dollars.",
    ),
    "total_monthly_spend": (
        "What is our total monthly spend on licences as of {at}?",
        "On {at}, how much do all cost centers together spend on licences a month?",
        "Today is {at}. Sum the monthly licence spend over the whole company, in US dollars.",
    ),
    "top_spending_cost_center": (
        "Which cost center spends the most on licences as of {at}?",
        "On {at}, name the cost center with the highest monthly licence spend.",
        "Today is {at}. Give the id of the cost center whose licences cost the most.",
    ),
    "cost_centers_above_threshold": (
        "How many cost centers spend more than ${threshold:,.2f} a month on licences as of {at}?",
        "On {at}, count the cost centers with a monthly licence spend above ${threshold:,.2f}.",
        "Today is {at}. The line is ${threshold:,.2f} a month: how many cost centers spend more on licences?",
    ),
    "idle_license_count": (
        "How many assigned licences of {product_id} has their holder not used since {since}? Today is {at}.",
        "As of {at}, count the held licences of product {product_id} without any use by the holder in the last "
        "{idle_days} days.",
        "On {at}, how many licences of {product_id} have sat idle with their holder for {idle_days} days or more?",
    ),
    "unassigned_license_count": (
        "How many licences have no holder as of {at}?",
        "On {at}, count the licences that are assigned to nobody.",
        "Today is {at}. How many of the licences we bought are free?",
    ),
    "idle_license_count_cc": (
        "How many licences held by active users of {cc} have not been used by them since {since}? Today is {at}.",
        "As of {at}, count the licences in cost center {cc} that their active holders did not use in the last "
        "{idle_days} days.",
        "On {at}, how many licences sit idle in {cc}, with no use by the holder for {idle_days} days?",
    ),
    "idle_license_cost": (
        "What do licences that their holders have not used since {since} cost us a month? Today is {at}.",
        "As of {at}, what is the monthly cost of all assigned licences idle for the last {idle_days} days?",
        "On {at}, how many dollars a month could be saved on licences unused by their holder for {idle_days} days?",
    ),
    "license_reclaim_count": (
        "How many licences were taken back in the {days_back} days up to {at}?",
        "As of {at}, count the times a licence was unassigned within the last {days_back} days.",
        "After {since} and up to {at}, how often was a licence reclaimed from its holder?",
    ),
    "offboard_count_window": (
        "How many users were offboarded in the {days_back} days up to {at}?",
        "As of {at}, how many people have left within the last {days_back} days?",
        "Count the users offboarded after {since} and up to {at}.",
    ),
    "reassignment_count": (
        "How many times was a licence handed from one user to another in the {days_back} days up to {at}?",
        "As of {at}, count the licence reassignments of the last {days_back} days.",
        "After {since} and up to {at}, how many licence reassignments were there?",
    ),
    "contract_status": (
        "Is contract {contract_id} active or expired on {at}?",
        "As of {at}, what is the status of contract {contract_id}: active or expired?",
        "Today is {at}. Has contract {contract_id} expired, or is it still active?",
    ),
    "contract_months_remaining": (
        "How many months (of 30 days) does contract {contract_id} still run as of {at}?",
        "On {at}, how much of the term of {contract_id} is left, in months of 30 days with one decimal?",
        "Today is {at}. Months remaining until contract {contract_id} expires, 30 days to the month?",
    ),
    "contract_vendor": (
        "Which vendor is contract {contract_id} with, as of {at}?",
        "On {at}, who is the vendor of contract {contract_id}?",
        "Name the other party to contract {contract_id}. Today is {at}.",
    ),
    "contract_annual_value": (
        "What is the estimated annual value of contract {contract_id} as of {at}?",
        "On {at}, what is contract {contract_id} worth a year, in US dollars?",
        "Today is {at}. Give the yearly value estimated for contract {contract_id}.",
    ),
    "product_api_calls": (
        "How many API calls were made with {product_id} in the last {window_days} days, as of {at}?",
        "From {since} to {at}, both included, what is the total of API calls to product {product_id}?",
        "Today is {at}. Sum the API calls of {product_id} over the past {window_days} days.",
    ),
    "product_active_users": (
        "How many different users used {product_id} in the last {window_days} days, as of {at}?",
        "From {since} to {at}, both included, how many distinct people used product {product_id}?",
        "Today is {at}. Count the active users of {product_id} over the past {window_days} days.",
    ),
    "top_product_by_session_minutes": (
        "Which product had the most session minutes in the last {window_days} days, as of {at}?",
        "From {since} to {at}, both included, name the product that was used for the most minutes.",
        "Today is {at}. Give the id of the product with the longest total session time of the past {window_days} days.",
    ),
    "zero_usage_license_count": (
        "How many assigned licences of {product_id} show no use by their holder in the last {window_days} days, "
        "as of {at}?",
        "From {since} to {at}, both included, how many licences of product {product_id} did their holder never use?",
        "Today is {at}. Count the held licences of {product_id} with zero usage by the holder over {window_days} days.",
    ),
    "license_efficiency": (
        "How many active users of {product_id} over the last {window_days} days are there per held seat, as of {at}?",
        "As of {at}, what is the ratio of distinct users of product {product_id} in the past {window_days} days to its "
        "held seats?",
        "Today is {at}. Divide the users of {product_id} since {since} by the seats held of it, to four decimals.",
    ),
    "open_ticket_count_cc": (
        "How many offboarding tickets of cost center {cc} are open on {at}?",
        "As of {at}, count the tickets of {cc} that wait for a leaver's licences to be taken back.",
        "Today is {at}. How many people of cost center {cc} have left and still hold licences?",
    ),
    "unused_seat_count": (
        "How many of the held seats of {product_id} exceed its users of the last 30 days, as of {at}?",
        "On {at}, by how many do the seats held of product {product_id} outnumber its current users (last 30 days)?",
        "Today is {at}. Subtract the current users of {product_id}, over 30 days, from its held seats; 0 at least.",
    ),
}
"""Measure -> its wordings. `at` is the question's day or time, `since` the window's first instant."""

_WINDOWS = ("idle_days", "days_back", "window_days")


def question(task: Task, at_ms: int) -> str:
    """The task in words, as asked at `at_ms`; the same task id gets the same wording."""
    wordings = WORDINGS[task.measure]
    words = {**task.params, "at": time_text(at_ms)}
    for name in _WINDOWS:
        if name in task.params:
            words["since"] = time_text(at_ms - task.params[name] * DAY_MS)
    return wordings[crc32(task.task_id.encode()) % len(wordings)].format(**words)
