"""What tests of reports share: a small run of the toy domain, scored."""

from __future__ import annotations

from typing import Any

import msgspec

from churnbench.records import Answer, Question, Refresh
from churnbench_scorer import RunResult, score, summarize
from tests.scorer.stories import Scene, T, day
from tests.toy import MEASURES, REGISTRY, TOY


def ask(number: int, measure: str, params: dict[str, Any]) -> Question:
    kind, tier = MEASURES[measure].answer_type, 1 + number % 2
    return Question(f"t{number}", measure, params, kind, tier, "tests", "T0", f"{measure} {params}?", T)


def refreshed(scene: Scene, table: str, owner: str, number: int, embeds: tuple[str, ...] = ()) -> Refresh:
    cuts = dict.fromkeys((owner, *embeds), scene.cut(number))
    return Refresh("r", table, number, day(number), cuts, owner, "replay", "age", 3, 3, 90, 1, 0.1, "0" * 32)


class Study:
    """Five questions, one of them stale, one never answered, one retried."""

    def __init__(self) -> None:
        self.scene = scene = Scene()
        self.questions = [
            ask(0, "parcels_in_depot", {"depot": "north"}),
            ask(1, "parcels_in_depot", {"depot": "east"}),
            ask(2, "moves_window", {"days": 7}),
            ask(3, "weight_of", {"parcel": "p0"}),
            ask(4, "weight_of", {"parcel": "p1"}),
        ]
        places = scene.read("parcels_in_depot", {"location": 2, "registration": 2})
        places = msgspec.structs.replace(places, tables=["locations"])
        scans = scene.read("weight_of", {"weight": 0})
        self.answers = [
            Answer("t0", T, T, "3", 3, "answered", [places], seconds=1.0),
            Answer("t1", T, T, "2", 2, "answered", [places], seconds=3.0),
            Answer("t2", T, T, None, None, "unanswered", [], seconds=2.0),
            Answer("t3", T, T, None, None, "transport_failure", [], seconds=50.0, cost_usd=0.25),
            Answer("t3", T, T, "2.0", 2.0, "answered", [scans], attempt=2, seconds=4.0, cost_usd=0.5),
            Answer("t4", T, T, None, None, "transport_failure", [], seconds=60.0),
        ]
        self.verdicts = score(scene.index, TOY, REGISTRY, scene.ticks, self.questions, self.answers)
        self.refreshes = [
            refreshed(scene, "locations", "location", 0, ("registration",)),
            refreshed(scene, "locations", "location", 2, ("registration",)),
            refreshed(scene, "stock", "registration", 3),
            refreshed(scene, "depots", "registration", 1, ("location",)),
            refreshed(scene, "documents", "weight", 0),
        ]
        self.summary = summarize(self.questions, self.answers, self.verdicts, [*self.refreshes, self.refreshes[-1]])

    def result(self, **changes: Any) -> RunResult:
        result = RunResult(
            run_id="run-1",
            world="small-7-abcd",
            t_prime_ms=day(0),
            t_ms=T,
            refresh="tiered",
            registry="paper",
            reader="scripted",
            questions=self.questions,
            answers=self.answers,
            verdicts=self.verdicts,
            summary=self.summary,
        )
        return msgspec.structs.replace(result, **changes)
