"""A pool of workers that solve a batch of tasks with the models of a gateway's token_budget.

Each worker process solves several tasks at once; together they have as many in flight as the gateway advises. Any of
them may be killed at any time: its tasks are solved by others when their leases are over. See README.md.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
from dataclasses import dataclass
from typing import Dict

import httpx

from tasks import Task, Tasks
from warmgate import Lost, Warmgate

LOOK = 0.5  # seconds between two looks at the advice
GROWTH = 1.25  # how many times as many tasks may be in flight after each look, so that not all begin at once


@dataclass
class Settings:
    """What a pool needs to know. See README.md."""

    api: str
    token: str
    tasks: str  # path of the file
    backends: Dict[str, str]  # by model_backend_id, where its calls are sent
    lease_ttl: float = 30.0  # seconds, as configured in the gateway
    processes: int = 3
    most: int = 200  # tasks in flight, whatever is advised
    timeout: float = 180.0  # seconds of a call to a model


class Refused(Exception):
    """A model has less left than the gateway knows."""

    def __init__(self, seconds: float):
        super().__init__(f"refused for {seconds} s")
        self.seconds = seconds


def pause_of(headers) -> float:
    """For how many seconds a model has refused a call."""
    if "retry-after-ms" in headers:
        return float(headers["retry-after-ms"]) / 1000
    return float(headers.get("retry-after", 1))


class Worker:
    """One process of the pool."""

    def __init__(self, s: Settings, client: httpx.AsyncClient):
        self.s, self.client = s, client
        self.tasks = Tasks(s.tasks)
        self.warmgate = Warmgate(s.api, s.token, s.lease_ttl, client)

    async def ask(self, model: str, task: Task) -> dict:
        """Sends a task to a model and returns the answer."""
        answer = await self.client.post(
            self.s.backends[model],
            json={
                "model": model,
                "max_tokens": task.max_tokens,
                "messages": [{"role": "user", "content": task.prompt}],
            },
            headers={"x-task": str(task.id)},
            timeout=self.s.timeout,
        )
        if answer.status_code == 429:
            raise Refused(pause_of(answer.headers))
        answer.raise_for_status()
        return answer.json()

    async def solve(self, task: Task) -> None:
        """Solves a claimed task, at the model that the gateway names."""
        attempt = 0
        while True:
            key = f"{os.path.abspath(self.s.tasks)}/{task.id}/{task.claim}/{attempt}"
            place = await self.scheduled(task, key)
            try:
                async with self.warmgate.renewed(place.task_id, lambda: self.tasks.renew(task, self.s.lease_ttl)):
                    answer = await self.ask(place.model, task)
            except Refused as refused:
                await self.warmgate.complete(place.task_id, None)  # what it was charged stays
                attempt += 1
                await asyncio.sleep(refused.seconds)
                continue
            except Exception:
                await self.warmgate.complete(place.task_id, None)  # the model may have worked on it
                raise
            self.tasks.solve(task, answer["choices"][0]["message"]["content"])
            await self.warmgate.complete(place.task_id, (answer.get("usage") or {}).get("total_tokens"))
            return

    async def scheduled(self, task: Task, key: str):
        """Waits for a model. Meanwhile the task is not given to anybody else."""
        waiting = asyncio.ensure_future(self.warmgate.schedule(task.estimated_tokens, key))
        try:
            while not (await asyncio.wait([waiting], timeout=self.s.lease_ttl / 3))[0]:
                if not self.tasks.renew(task, self.s.lease_ttl):
                    raise Lost(f"task {task.id}")
            return waiting.result()
        finally:
            waiting.cancel()

    async def solve_one(self, task: Task) -> None:
        """Solves a task. What goes wrong is told, and the task is taken again when its claim is over."""
        try:
            await self.solve(task)
        except Exception as e:  # noqa: BLE001: whatever it is, the other tasks go on
            print(f"task {task.id}: {type(e).__name__}: {e}", file=sys.stderr)

    async def run(self) -> None:
        """Solves tasks until all are solved, by whichever process."""
        running = set()
        allowed = 1.0
        while self.tasks.left():
            share = -(-self.s.most // self.s.processes)
            advised = await self.warmgate.parallelism(self.s.most)
            allowed = min(max(1, -(-advised // self.s.processes)), share, max(allowed * GROWTH, allowed + 1))
            end = asyncio.get_running_loop().time() + LOOK
            while asyncio.get_running_loop().time() < end:
                while len(running) < int(allowed):
                    task = self.tasks.claim(self.s.lease_ttl)
                    if task is None:
                        break
                    running.add(asyncio.ensure_future(self.solve_one(task)))
                if not running:
                    await asyncio.sleep(0.1)
                    break
                _, running = await asyncio.wait(running, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)
        if running:
            await asyncio.wait(running)


async def work(s: Settings) -> None:
    """Runs one process of a pool until all tasks are solved."""
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=None), timeout=10) as client:
        await Worker(s, client).run()


def start_process(s: Settings) -> None:
    asyncio.run(work(s))


def run_pool(s: Settings) -> None:
    """Runs all processes until all tasks are solved. A process that dies is replaced."""
    context = multiprocessing.get_context("spawn")
    processes = []
    while Tasks(s.tasks).left():
        processes = [p for p in processes if p.is_alive()]
        while len(processes) < s.processes:
            p = context.Process(target=start_process, args=(s,), daemon=True)
            p.start()
            print(f"worker {p.pid}", flush=True)
            processes.append(p)
        processes[0].join(0.2)
    for p in processes:
        p.join()


def settings(arguments=None) -> Settings:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--api", required=True, help="URL of the admission API")
    parser.add_argument("--tasks", required=True, help="SQLite file with the tasks")
    parser.add_argument("--backends", required=True, help="JSON file: where calls are sent, by model_backend_id")
    parser.add_argument("--lease-ttl", type=float, default=30.0, help="seconds, as configured in the gateway")
    parser.add_argument("--processes", type=int, default=3, help="worker processes")
    parser.add_argument("--most", type=int, default=200, help="tasks in flight at most, whatever is advised")
    a = parser.parse_args(arguments)
    with open(a.backends, encoding="utf-8") as f:
        backends = json.load(f)
    return Settings(a.api, os.environ["WARMGATE_TOKEN"], a.tasks, backends, a.lease_ttl, a.processes, a.most)


if __name__ == "__main__":
    run_pool(settings())
