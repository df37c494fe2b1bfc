"""Where calls to models go: to a URL for each model in OpenAI's form, or to one service for all of them."""

import asyncio
import calendar
import time
from email.utils import parsedate
from typing import Dict, List, NamedTuple, Optional

import httpx

from .api import MOST_TOKENS, Misconfigured
from .tasks import Task

# Statuses of which no task can be the reason, those after which a model may have worked on a task, and those with which
# the API takes retry_after.
MISCONFIGURED = (401, 404, 405)
WORKED = (408, 499)
CLOSED = (429, 503, 529)

LONGEST = 3600.0  # seconds that a model may be closed: the gateway believes no more


class Answer(NamedTuple):
    text: str
    tokens: Optional[int]  # that the task has used, if the answer says so


def read_answer(text, tokens) -> Answer:
    """Returns the answer that a backend has sent. A number of tokens that no task uses says nothing."""
    if not isinstance(text, str):
        raise ValueError(f"the answer is no text: {text!r:.100}")
    known = isinstance(tokens, (int, float)) and 0 <= tokens <= MOST_TOKENS
    return Answer(text, int(tokens) if known else None)


class Unsolved(Exception):
    """A backend has answered something other than the solution of a task."""

    def __init__(self, status: int, text: str, retry_after: Optional[float] = None):
        super().__init__(f"{status} {text[:300]}")
        self.status, self.retry_after = status, retry_after

    @property
    def refused(self) -> bool:
        """The model has less left than the gateway knows."""
        return self.status == 429

    @property
    def misconfigured(self) -> bool:
        return self.status in MISCONFIGURED

    @property
    def rejected(self) -> bool:
        """The model does not take this task."""
        return 400 <= self.status < 500 and not (self.refused or self.misconfigured or self.status in WORKED)


def read_date(headers, name: str) -> Optional[float]:
    """Reads a header with a date, as seconds since 1970; None if there is no date."""
    try:
        return calendar.timegm(parsedate(str(headers.get(name, ""))))
    except (IndexError, OverflowError, TypeError, ValueError):
        return None


def retry_after(headers) -> Optional[float]:
    """In how many seconds a model takes calls again; None if it does not say. To the millisecond, which JSON has
    without an exponent: the API takes none."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except (OverflowError, TypeError, ValueError):
            then, now = read_date(headers, name), read_date(headers, "date")
            if then is None:
                continue
            seconds = max(0.0, then - (time.time() if now is None else now))
        if 0 <= seconds < float("inf"):
            return round(min(seconds, LONGEST), 3)
    return None


def check(status: int, text: str, headers) -> None:
    if type(status) is not int or not 100 <= status < 600:  # noqa: E721: a bool is none
        raise ValueError(f"got {status!r} as status")
    if status != 200:
        raise Unsolved(status, text, retry_after(headers) if status in CLOSED else None)


class Backend:
    """What calls have in common."""

    models: Optional[List[str]] = None  # that can be called; None: all

    def __init__(self, client: httpx.AsyncClient, timeout: float):
        self._client, self._timeout = client, timeout

    async def _post(self, url: str, body: dict, headers: Optional[dict] = None) -> dict:
        call = self._client.post(url, json=body, headers=headers, timeout=self._timeout)
        try:
            answer = await asyncio.wait_for(call, 1.2 * self._timeout)  # httpx ends it before, if it can
        except asyncio.TimeoutError:
            raise TimeoutError(f"no answer within {self._timeout:g} s") from None
        check(answer.status_code, answer.text, answer.headers)
        return answer.json()

    async def ask(self, model: str, task: Task) -> Answer:
        """Sends a task to a model."""
        raise NotImplementedError


class Chat(Backend):
    """A URL for each model, with the API of OpenAI's chat completions."""

    def __init__(self, urls: Dict[str, str], client: httpx.AsyncClient, timeout: float):
        super().__init__(client, timeout)
        self._urls, self.models = urls, sorted(urls)

    async def ask(self, model: str, task: Task) -> Answer:
        messages = [{"role": "user", "content": task.prompt}]
        body = {"model": model, "max_tokens": task.max_tokens, "messages": messages}
        answer = await self._post(self._urls[model], body, {"x-task": str(task.id)})
        used = (answer.get("usage") or {}).get("total_tokens")
        return read_answer(answer["choices"][0]["message"]["content"], used)


def entry(model: str, task: Task) -> dict:
    """What the service is told of a task."""
    return {"id": task.id, "model_backend_id": model, "prompt": task.prompt, "max_tokens": task.max_tokens}


class Single(Backend):
    """A service that solves one prompt by each call."""

    def __init__(self, url: str, client: httpx.AsyncClient, timeout: float):
        super().__init__(client, timeout)
        self._url = url

    async def ask(self, model: str, task: Task) -> Answer:
        answer = await self._post(self._url, entry(model, task))
        return read_answer(answer["answer"], answer.get("tokens"))


class Batches(Backend):
    """A service that solves several prompts by each call, and answers when it has solved all of them.

    A batch has what was admitted within a moment, by whichever model: so it is as large as models have room. So that
    a bad task harms no other, a batch that is rejected as a whole is sent again task by task, and a task that has
    failed before is sent alone.
    """

    def __init__(self, url: str, client: httpx.AsyncClient, timeout: float, most: int = 10, seconds: float = 0.05):
        super().__init__(client, timeout)
        self._url, self._most, self._seconds = url, most, seconds
        self._next: list = []  # entries and the futures of their answers
        self._sending: set = set()

    async def ask(self, model: str, task: Task) -> Answer:
        answer = asyncio.get_running_loop().create_future()
        if task.attempt > 1:
            await self._solve([(entry(model, task), answer)])
            return await answer
        self._next.append((entry(model, task), answer))
        if len(self._next) == 1:
            asyncio.get_running_loop().call_later(self._seconds, self._send, self._next)
        if len(self._next) == self._most:
            self._send(self._next)
        return await answer

    def _send(self, batch: list) -> None:
        if batch is not self._next:
            return  # it was full before its time
        self._next = []
        batch = [one for one in batch if not one[1].cancelled()]
        if batch:
            sending = asyncio.ensure_future(self._solve(batch))
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)

    async def _solve(self, batch: list) -> None:
        """Has a batch solved, and gives each task what came of it."""
        try:
            answer = await self._post(self._url, {"tasks": [task for task, _ in batch]})
            results = answer["results"]
            if len(results) != len(batch):
                raise ValueError(f"{len(results)} results for {len(batch)} tasks")
        except Exception as e:  # noqa: BLE001: whatever came of the call
            if isinstance(e, Unsolved) and e.rejected and len(batch) > 1:
                await asyncio.gather(*(self._solve([one]) for one in batch))
                return
            for _, future in batch:
                self._end(future, e)
        else:
            for (_, future), result in zip(batch, results):
                self._end(future, result)

    @staticmethod
    def _end(future: asyncio.Future, result) -> None:
        if future.done():
            return  # nobody waits for it any more
        try:
            if isinstance(result, Exception):
                raise result
            check(result.get("status", 200), str(result.get("error")), result)
            future.set_result(read_answer(result["answer"], result.get("tokens")))
        except Exception as e:  # noqa: BLE001: whatever came of the task
            future.set_exception(e)


def open_backend(spec: dict, client: httpx.AsyncClient, timeout: float) -> Backend:
    """Makes a backend of what backends.json says."""
    service = spec.get("service")
    if not isinstance(service, dict):
        if not spec or not all(isinstance(url, str) for url in spec.values()):
            raise Misconfigured('backends: want {"model": "URL", ...} or {"service": {"single": "URL"}}')
        return Chat(spec, client, timeout)
    if list(service) == ["single"]:
        return Single(service["single"], client, timeout)
    if "batch" in service and set(service) <= {"batch", "most", "seconds"}:
        options = {name: service[name] for name in ("most", "seconds") if name in service}
        return Batches(service["batch"], client, timeout, **options)
    raise Misconfigured(f"backends: service has {sorted(service)}: want single, or batch with most and seconds")
