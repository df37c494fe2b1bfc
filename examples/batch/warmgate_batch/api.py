"""A client of Warmgate's admission API."""

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import NamedTuple, Optional, Sequence, Set

import httpx

LONGEST = 30.0  # seconds of a call: after one that was cancelled, httpx may wait for its connection for ever
REPEATS = 8  # of a call that is not answered, or by one of the statuses below: every call may be repeated
AGAIN = (408, 429, *range(500, 600))
MOST_TOKENS = 2_000_000  # that the API takes a task for


class Place(NamedTuple):
    """Where a task was admitted."""

    model: str
    task_id: str


class Lost(Exception):
    """The lease of a task is over: it counts as abandoned, and another worker may have it."""


class Misconfigured(Exception):
    """What goes wrong with every task until a setting is corrected."""


class Unavailable(Exception):
    """The API does not answer."""


async def came(event: asyncio.Event, seconds: float) -> bool:
    """Waits for an event, for so many seconds at most. Reports whether it came."""
    try:
        return await asyncio.wait_for(event.wait(), seconds)
    except asyncio.TimeoutError:
        return False


class Warmgate:
    """The API at a URL such as http://gateway:8080/warmgate/v1."""

    def __init__(self, url: str, token: str, lease_ttl: float, client: httpx.AsyncClient):
        self.url, self.lease_ttl, self._client = url.rstrip("/"), lease_ttl, client
        self._headers = {"authorization": f"Bearer {token}"}
        self._beats: Set[asyncio.Future] = set()

    async def _once(
        self,
        method: str,
        path: str,
        body: Optional[dict] = None,
        also: Sequence[int] = (),
        longest: Optional[float] = None,
    ) -> dict:
        """Makes a call once, and returns an answer with status 200 or one that the caller also takes."""
        longest = longest or LONGEST
        try:
            call = self._client.request(
                method, self.url + path, json=body, headers=self._headers, timeout=longest / 3
            )
            answer = await asyncio.wait_for(call, longest)
        except (httpx.TransportError, asyncio.TimeoutError) as e:
            raise Unavailable(f"{self.url}{path}: {e!r}") from e
        if answer.status_code == 200 or answer.status_code in also:
            return answer.json()
        text = f"{self.url}{path}: {answer.status_code} {answer.text[:300]}"
        raise (Unavailable if answer.status_code in AGAIN else Misconfigured)(text)

    async def _call(self, method: str, path: str, body: Optional[dict] = None, also: Sequence[int] = ()) -> dict:
        """Makes a call, and repeats it while it is not answered."""
        for repeat in range(1, REPEATS):
            try:
                return await self._once(method, path, body, also)
            except Unavailable:
                await asyncio.sleep(0.2 * repeat)
        return await self._once(method, path, body, also)

    async def schedule(self, tokens: int, key: str, models: Optional[Sequence[str]] = None) -> Place:
        """Waits until a task of so many tokens may be sent to a model, one of these or any. A lost answer costs
        nothing: the same key gets the same answer."""
        if not isinstance(tokens, int) or not 1 <= tokens <= MOST_TOKENS:
            raise ValueError(f"an estimate of {tokens} tokens: want a whole number from 1 to {MOST_TOKENS}")
        body = {"estimated_tokens": tokens, "idempotency_key": key}
        if models is not None:
            body["models"] = list(models)
        while True:
            answer = await self._call("POST", "/schedule", body)
            if "wait_for_ms" not in answer:
                return Place(answer["model_backend_id"], answer["task_id"])
            await asyncio.sleep(answer["wait_for_ms"] / 1000)

    async def complete(self, task_id: str, **told) -> None:
        """Ends a task. What is told of it is any of actual_tokens that it has used, status that a target has answered
        with and retry_after of that answer. Of neither: it stays charged for its estimate. What the API does not take
        is left out, so that the task ends, and while it does not answer, the task ends with its lease."""
        told = {name: value for name, value in told.items() if value is not None}
        try:
            answer = await self._call("POST", "/complete", {"task_id": task_id, **told}, also=(404,))
        except Unavailable as e:
            print(f"{task_id} is not completed: {e}", file=sys.stderr, flush=True)
            return
        except Misconfigured as e:
            if not told:
                raise
            print(f"{task_id} is completed without {told}: {e}", file=sys.stderr, flush=True)
            await self.complete(task_id)
            return
        if not answer.get("ok"):
            raise Lost(f"the lease of {task_id} was over: is lease_ttl that of the gateway?")

    async def heartbeat(self, task_id: str) -> bool:
        """Renews a task by one call. False: there is no such task, or none any more."""
        return (await self._once("POST", "/heartbeat", {"task_id": task_id}, longest=self.lease_ttl / 2))["ok"]

    async def parallelism(self, most: int) -> int:
        """How many tasks should be in flight now, at most so many. Without an answer, that many: nothing depends on it
        but speed."""
        try:
            advised = (await self._call("GET", "/advice"))["suggested_parallelism"]
        except Unavailable:
            advised = None
        return most if advised is None else min(advised, most)

    @asynccontextmanager
    async def renewed(self, task_id: str, also):
        """Sends heartbeats while the body runs, and calls also() before each. If the lease is lost, or also() returns
        False, the body is cancelled and Lost is raised. A heartbeat that is under way when the body ends is left to
        end by itself: see LONGEST."""
        body, ended = asyncio.current_task(), asyncio.Event()
        lost = False

        async def beat():
            nonlocal lost
            pause = self.lease_ttl / 3
            while not await came(ended, pause):
                pause = self.lease_ttl / 3
                try:
                    lost = not also()
                except Exception:  # noqa: BLE001: the database is away; the lease is worth keeping all the same
                    pass
                try:
                    lost = lost or not await self.heartbeat(task_id)
                except Exception:  # noqa: BLE001: the gateway is away, and may be back before the lease is over
                    pause = self.lease_ttl / 30
                    continue
                if lost and not ended.is_set():
                    body.cancel()
                    return

        beats = asyncio.ensure_future(beat())
        self._beats.add(beats)
        beats.add_done_callback(self._beats.discard)
        try:
            yield
        except asyncio.CancelledError:
            if not lost:
                raise
            raise Lost(f"the lease of {task_id}, or the claim, is over: is lease_ttl that of the gateway?") from None
        finally:
            ended.set()
