"""The agent: a run's questions to answers, as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from churnbench.records import Answer, Question
from churnbench.runs import Run
from churnbench_agent._readers import Reader
from churnbench_agent._routes import Routes

__all__ = ["Agent", "AnswerTime"]

AnswerTime = Callable[[Question], int]
"""The simulated time at which a question is answered, milliseconds, asked for once the answer is there."""


class Agent:
    """Asks a reader the questions of a run and appends each answer to `answers` as it comes.

    Args:
        run: the run.
        reader: who answers.
        routes: the routes to the sources.
        concurrency: most questions at once.
        answer_time: the simulated time of an answer; by default that of its question, because simulated time
            stands still in a frozen run.

    Raises:
        ValueError: `concurrency` is below 1.
    """

    def __init__(
        self,
        run: Run,
        reader: Reader,
        routes: Routes,
        *,
        concurrency: int = 4,
        answer_time: AnswerTime = lambda question: question.at_ms,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"an agent asks at least 1 question at once, not {concurrency}")
        self.run = run
        self._reader = reader
        self._routes = routes
        self._concurrency = concurrency
        self._answer_time = answer_time
        self._answers = run.topic("answers")

    async def last_answers(self) -> dict[str, Answer]:
        """Task -> its last answer."""
        found: dict[str, Answer] = {}
        for answer in await self._answers.all():
            if answer.task_id not in found or answer.attempt >= found[answer.task_id].attempt:
                found[answer.task_id] = answer
        return found

    async def ask(
        self,
        questions: Iterable[Question] | None = None,
        *,
        retry_failed: bool = False,
        progress: Callable[[Answer], None] = lambda answer: None,
    ) -> list[Answer]:
        """Asks every question that has no answer yet.

        Args:
            questions: what to ask; None: all on the run's topic.
            retry_failed: ask those anew, too, whose last answer is a transport failure; the new answer counts
                one attempt more and holds.
            progress: told each answer.

        Returns:
            The new answers, in the order in which they came.
        """
        last = await self.last_answers()
        waiting: list[tuple[Question, int]] = []
        for question in await self.run.topic("questions").all() if questions is None else questions:
            before = last.get(question.task_id)
            if before is None or (retry_failed and before.outcome == "transport_failure"):
                waiting.append((question, 1 if before is None else before.attempt + 1))
        waiting.reverse()
        answers: list[Answer] = []

        async def work() -> None:
            while waiting:
                answer = await self._answer(*waiting.pop())
                await self._answers.append([answer], answer.answered_ms)
                answers.append(answer)
                progress(answer)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._concurrency, len(waiting))):
                    group.create_task(work())
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from failures
        return answers

    async def _answer(self, question: Question, attempt: int) -> Answer:
        clock = self._routes.clock
        begun = clock.monotonic()
        reply = await self._reader.answer(question, self._routes)
        wall = clock.monotonic() - begun
        return Answer(
            task_id=question.task_id,
            asked_ms=question.at_ms,
            answered_ms=self._answer_time(question),
            raw=reply.raw,
            value=reply.value,
            outcome=reply.outcome,
            trace=reply.trace,
            error=reply.error,
            reader=self._reader.name,
            attempt=attempt,
            cost_usd=reply.cost_usd,
            tokens=dict(reply.tokens),
            # Retrievals from a virtual source last longer than the wall clock saw.
            seconds=max(wall, sum(retrieval.seconds for retrieval in reply.trace)),
        )
