"""A client of Warmgate's admission API."""

import asyncio
from contextlib import asynccontextmanager
from typing import NamedTuple, Optional

import httpx

REPEATS = 8  # of a call that is not answered, or by a server's error: every call may be repeated


class Place(NamedTuple):
    """Where a task was admitted."""

    model: str
    task_id: str


class Lost(Exception):
    """The lease of a task is over: it counts as abandoned, and another worker may have it."""


class Warmgate:
    """The API at a URL such as http://gateway:8080/warmgate/v1."""

    def __init__(self, url: str, token: str, lease_ttl: float, client: httpx.AsyncClient):
        self.url, self.lease_ttl, self._client = url.rstrip("/"), lease_ttl, client
        self._headers = {"authorization": f"Bearer {token}"}

    async def _call(self, method: str, path: str, body: Optional[dict] = None) -> dict:
        for left in reversed(range(REPEATS)):
            try:
                answer = await self._client.request(method, self.url + path, json=body, headers=self._headers)
                if answer.status_code < 500:
                    if answer.status_code not in (200, 404):
                        raise RuntimeError(f"{path}: {answer.status_code} {answer.text}")
                    return answer.json()
                error = RuntimeError(f"{path}: {answer.status_code} {answer.text}")
            except httpx.TransportError as e:
                error = e
            if left == 0:
                raise error
            await asyncio.sleep(0.2 * (REPEATS - left))

    async def schedule(self, tokens: int, key: str) -> Place:
        """Waits until a task of so many tokens may be sent to a model. A lost answer costs nothing: the same key gets
        the same answer."""
        while True:
            answer = await self._call("POST", "/schedule", {"estimated_tokens": tokens, "idempotency_key": key})
            if "wait_for_ms" not in answer:
                return Place(answer["model_backend_id"], answer["task_id"])
            await asyncio.sleep(answer["wait_for_ms"] / 1000)

    async def complete(self, task_id: str, tokens: Optional[int]) -> None:
        """Ends a task that has used so many tokens. None: unknown, and it stays charged for its estimate."""
        body = {"task_id": task_id}
        if tokens is not None:
            body["actual_tokens"] = tokens
        answer = await self._call("POST", "/complete", body)
        if not answer.get("ok"):
            raise Lost(f"{task_id}: {answer}")

    async def heartbeat(self, task_id: str) -> bool:
        """Renews a task. False: there is no such task, or none any more."""
        return (await self._call("POST", "/heartbeat", {"task_id": task_id}))["ok"]

    async def parallelism(self, most: int) -> int:
        """How many tasks should be in flight now, at most so many. Without an answer, that many: nothing depends on it
        but speed."""
        try:
            advised = (await self._call("GET", "/advice"))["suggested_parallelism"]
        except (httpx.TransportError, RuntimeError):
            advised = None
        return most if advised is None else min(advised, most)

    @asynccontextmanager
    async def renewed(self, task_id: str, also):
        """Sends heartbeats while the body runs, and calls also() after each. If the lease is lost, or also() returns
        False, the body is cancelled and Lost is raised."""
        body = asyncio.current_task()
        lost = False

        async def beat():
            nonlocal lost
            while True:
                await asyncio.sleep(self.lease_ttl / 3)
                if not await self.heartbeat(task_id) or not also():
                    lost = True
                    body.cancel()
                    return

        beats = asyncio.ensure_future(beat())
        try:
            yield
        except asyncio.CancelledError:
            if not lost:
                raise
            raise Lost(task_id) from None
        finally:
            beats.cancel()
