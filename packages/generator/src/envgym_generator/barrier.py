"""Turn barriers: rollouts that meet before each turn, so that the same run always makes the same batches."""

import asyncio

from envgym_generator.engines.protocol import Engine, TurnRequest, TurnSample


class TurnBarrier:
    """Collects the requests of all rollouts that are still played, then samples them in one ordered batch."""

    def __init__(self, engine: Engine, num_rollouts: int) -> None:
        """Every one of ``num_rollouts`` must either ask for a turn or ``leave``."""
        self._engine = engine
        self._playing = num_rollouts
        self._waiting: list[tuple[TurnRequest, asyncio.Future[TurnSample]]] = []
        self._batch: asyncio.Task[None] | None = None

    async def sample(self, request: TurnRequest) -> TurnSample:
        """Wait for the others, and return this request's sample."""
        future: asyncio.Future[TurnSample] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        self._sample_if_complete()
        return await future

    def leave(self) -> None:
        """Say that a rollout has ended."""
        self._playing -= 1
        self._sample_if_complete()

    def _sample_if_complete(self) -> None:
        if self._waiting and len(self._waiting) == self._playing:
            batch = sorted(self._waiting, key=lambda pair: pair[0].order)
            self._waiting = []
            self._batch = asyncio.get_running_loop().create_task(self._sample_batch(batch))

    async def _sample_batch(self, batch: list[tuple[TurnRequest, "asyncio.Future[TurnSample]"]]) -> None:
        try:
            samples = await self._engine.sample([request for request, _ in batch])
        except Exception as error:
            if len(batch) == 1:
                _settle(batch[0][1], error)
            for pair in batch if len(batch) > 1 else ():
                await self._sample_batch([pair])  # alone, only the request that is to blame fails
            return
        for (_, future), sample in zip(batch, samples, strict=True):
            _settle(future, sample)


def _settle(future: "asyncio.Future[TurnSample]", outcome: TurnSample | Exception) -> None:
    if future.done():  # its rollout was cancelled meanwhile
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
