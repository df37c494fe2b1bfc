"""A worker, which solves several tasks at once. Any may be killed at any time: others solve its tasks."""

import asyncio
import json
import sys
from dataclasses import dataclass
from typing import Any, Dict, Optional, Set

import httpx

from .api import Lost, Misconfigured, Unavailable, Warmgate
from .backends import Backend, Unsolved, open_backend
from .progress import Progress
from .tasks import Task, open_tasks

LOOK = 0.5  # seconds between two looks at the advice
GROWTH = 1.25  # how many times as many tasks may be in flight after each look, so that not all begin at once
PAUSE = 1.0  # seconds before the second attempt; each further pause is four times as long, up to 64 times


@dataclass
class Settings:
    """What a worker needs to know. See README.md."""

    api: str
    token: str
    tasks: str  # path of a file or URL of a database
    backends: Dict[str, Any]
    lease_ttl: float = 30.0  # seconds, as configured in the gateway
    workers: int = 3  # that share what is advised
    most: int = 200  # tasks in flight, whatever is advised
    attempts: int = 5  # of a task
    timeout: float = 180.0  # seconds of a call to a model
    seconds: Optional[float] = None  # after which no more tasks are begun


def read_backends(path: str) -> Dict[str, Any]:
    with open(path, encoding="utf-8") as f:
        return json.load(f)


class Worker:
    """Solves tasks until none is left."""

    def __init__(self, s: Settings, client: httpx.AsyncClient):
        self.s = s
        self.tasks = open_tasks(s.tasks)
        self.warmgate = Warmgate(s.api, s.token, s.lease_ttl, client)
        self.backend: Backend = open_backend(s.backends, client, s.timeout)
        self.running: Set[asyncio.Future] = set()
        self.wrong: Optional[Misconfigured] = None  # of all tasks

    async def keeping(self, task: Task, what):
        """Waits for something. Meanwhile the task is not given to anybody else."""
        waiting = asyncio.ensure_future(what)
        try:
            while not (await asyncio.wait([waiting], timeout=self.s.lease_ttl / 3))[0]:
                if not self.tasks.renew(task, self.s.lease_ttl):
                    raise Lost(f"task {task.id}")
            return waiting.result()
        finally:
            waiting.cancel()

    async def solve(self, task: Task) -> None:
        """Solves a claimed task, at the model that the gateway names."""
        call = 0
        while True:
            key = f"{self.tasks.batch}/{task.id}/{task.claim}/{call}"
            scheduled = self.warmgate.schedule(task.estimated_tokens, key, self.backend.models)
            place = await self.keeping(task, scheduled)
            told: Dict[str, Any] = {}
            try:
                async with self.warmgate.renewed(place.task_id, lambda: self.tasks.renew(task, self.s.lease_ttl)):
                    answer = await self.backend.ask(place.model, task)
                told["actual_tokens"] = answer.tokens
                self.tasks.solve(task, answer.text, answer.tokens)
                return
            except Unsolved as e:  # from its status the gateway knows what was used, and until when the model is closed
                told.update(status=e.status, retry_after=e.retry_after)
                if e.misconfigured:
                    raise Misconfigured(f"the backend of {place.model} answers {e}") from e
                if not e.refused:
                    raise
            finally:
                await self.warmgate.complete(place.task_id, **told)
            call += 1

    async def solve_one(self, task: Task) -> None:
        """Solves a task. What goes wrong is told, and kept with the task."""
        try:
            await self.solve(task)
        except asyncio.CancelledError:
            self.tasks.give_back(task)
            raise
        except Misconfigured as e:
            self.wrong = e
            self.tasks.give_back(task)
        except Exception as e:  # noqa: BLE001: whatever it is, the other tasks go on
            text = f"{type(e).__name__}: {e}"
            print(f"task {task.id}, attempt {task.attempt}: {text}", file=sys.stderr, flush=True)
            if isinstance(e, Unavailable):
                self.tasks.give_back(task)
            else:
                self.tasks.fail(task, text, PAUSE * 4 ** min(task.attempt - 1, 3), self.s.attempts)

    async def run(self, progress: Optional[Progress] = None) -> None:
        """Solves tasks until all have ended, by whichever worker, or its time is over."""
        loop = asyncio.get_running_loop()
        end = float("inf") if self.s.seconds is None else loop.time() + self.s.seconds
        allowed = 1.0
        try:
            while self.tasks.left() and loop.time() < end:
                share = -(-self.s.most // self.s.workers)
                advised = await self.warmgate.parallelism(self.s.most)
                allowed = min(max(1, -(-advised // self.s.workers)), share, max(allowed * GROWTH, allowed + 1))
                await self.take(int(allowed), loop.time() + LOOK)
                if progress is not None:
                    progress.show()
            if self.running:
                await asyncio.wait(self.running)
        finally:
            for one in self.running:
                one.cancel()
            await asyncio.gather(*self.running, return_exceptions=True)
        if self.wrong is not None:
            raise self.wrong
        if progress is not None:
            progress.show(ended=True)

    async def take(self, most: int, until: float) -> None:
        """Has so many tasks in flight for a while."""
        while asyncio.get_running_loop().time() < until:
            while len(self.running) < most:
                task = self.tasks.claim(self.s.lease_ttl, self.s.attempts)
                if task is None:
                    break
                solving = asyncio.ensure_future(self.solve_one(task))
                self.running.add(solving)
                solving.add_done_callback(self.running.discard)
            if not self.running:
                await asyncio.sleep(0.1)
                return
            await asyncio.wait(self.running, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)
            if self.wrong is not None:
                raise self.wrong


async def work(s: Settings, show: bool = False) -> None:
    """Runs one worker until all tasks have ended. Shows how far the batch is, if asked to."""
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=None), timeout=10) as client:
        worker = Worker(s, client)
        await worker.run(Progress(worker.tasks) if show else None)
