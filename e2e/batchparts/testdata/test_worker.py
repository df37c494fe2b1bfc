"""A worker before an admission API and models that are made up."""

import asyncio
import contextlib
import io
import json
import os
import re
import tempfile
import unittest

import httpx

from warmgate_batch import api, worker
from warmgate_batch.api import Lost, Misconfigured
from warmgate_batch.backends import open_backend, retry_after
from warmgate_batch.tasks import Counts, open_tasks

CHAT = {"m": "http://m/chat"}
SINGLE = {"service": {"single": "http://m/single"}}
BATCH = {"service": {"batch": "http://m/batch", "most": 2, "seconds": 0.5}}
REJECTED = (400, {"error": "prompt"})


def told_of(complete):
    return complete.get("actual_tokens"), complete.get("status")


def solved(entry):
    return 200, {"answer": entry["prompt"].upper(), "tokens": 3}


def problem(path, text):
    """What is wrong with a call of the API, by the rules of plugin/config/apicall.go. e2e/batch has the API."""
    body = json.loads(text or "{}", parse_float=str)  # it takes no exponents
    tokens = body.get("estimated_tokens" if path == "/schedule" else "actual_tokens", 1)
    status, after = body.get("status", 200), body.get("retry_after")
    if type(tokens) is not int or not (path == "/schedule") <= tokens <= 2_000_000:
        return f"tokens: {tokens!r}"
    if type(status) is not int or not 100 <= status <= 599:
        return f"status: {status!r}"
    if after is not None and (status not in (429, 503, 529) or not re.fullmatch(r"\d+(\.\d+)?", str(after))):
        return f"retry_after: {after!r} with {status}"
    return None


class Lab:
    """Answers all calls: of the API at http://api, of models at http://m."""

    def __init__(self, solve=solved):
        self.solve = solve  # a task's entry: to status and answer
        self.schedules, self.completes, self.batches = [], [], []
        self.api = {}  # answers of the API that are others, by path: a status, or some for the first calls
        self.refused = []  # what was wrong with calls of the API

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content or "{}")
        path = request.url.path
        status = self.api.get(path)
        if isinstance(status, list):
            status = status.pop() if status else None
        if status:
            return httpx.Response(status, text="no")
        if wrong := request.url.host == "api" and problem(path, request.content):
            self.refused.append(wrong)
            return httpx.Response(400, json={"error": wrong})
        if path == "/schedule":
            self.schedules.append(body)
            return httpx.Response(200, json={"model_backend_id": "m", "task_id": body["idempotency_key"]})
        if path == "/complete":
            self.completes.append(body)
        if request.url.host == "api":
            return httpx.Response(200, json={"ok": True, "suggested_parallelism": 10})
        if path == "/batch":
            return self.batch(body["tasks"])
        if path == "/chat":
            body = {"id": int(request.headers["x-task"]), "prompt": body["messages"][0]["content"]}
        status, answer = self.solve(body)
        if path == "/chat" and status == 200:
            answer = {"choices": [{"message": {"content": answer["answer"]}}], "usage": {"total_tokens": 3}}
        headers = {name: str(value) for name, value in answer.items() if name.startswith("retry-after")}
        return httpx.Response(status, json=answer, headers=headers)

    def batch(self, tasks):
        """Solves a batch, or rejects it as a whole for a prompt that says so."""
        self.batches.append(len(tasks))
        results = []
        for entry in tasks:
            status, answer = self.solve(entry)
            if "all" in entry["prompt"] and status != 200:
                return httpx.Response(status, text="one of them")
            results.append(answer if status == 200 else {"status": status, **answer})
        return httpx.Response(200, json={"results": results})


class Worker(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.where = os.path.join(folder.name, "tasks.db")
        self.tasks = open_tasks(self.where)
        self.addCleanup(setattr, worker, "PAUSE", worker.PAUSE)
        worker.PAUSE = 0.01

    def work(self, lab, backends, seconds=None, **settings):
        """Runs a worker. Returns what it has told."""
        s = worker.Settings("http://api", "t", self.where, backends, workers=1, seconds=seconds, **settings)

        async def run():
            async with httpx.AsyncClient(transport=httpx.MockTransport(lab)) as client:
                await worker.Worker(s, client).run()

        with contextlib.redirect_stderr(io.StringIO()) as told:
            asyncio.run(run())
        return told.getvalue()

    def test_solves(self):
        for number, backends in enumerate((CHAT, SINGLE, BATCH), 1):
            with self.subTest(backends):
                lab = Lab()
                self.tasks.add([("word", 7)] * 5)
                self.assertEqual(self.work(lab, backends), "")
                self.assertEqual(self.tasks.counts(), Counts(0, 5 * number, 0))
                self.assertEqual([c["actual_tokens"] for c in lab.completes], [3] * 5)
                models = [s.get("models") for s in lab.schedules]
                self.assertEqual(models, [["m"] if backends is CHAT else None] * 5)
                if backends is BATCH:  # as large as what was admitted at a time
                    self.assertEqual(sum(lab.batches), 5)
                    self.assertLess(len(lab.batches), 5)

    def test_poison(self):
        """A task that a model rejects is tried as often as it may be, costs no tokens and harms no other."""
        for number, backends in enumerate((CHAT, SINGLE, BATCH), 1):
            with self.subTest(backends):
                calls = []

                def solve(entry):
                    calls.append(entry["id"])
                    return REJECTED if "poison" in entry["prompt"] else solved(entry)

                lab = Lab(solve)
                self.tasks.add([("poison", 7)] + [("word", 7)] * 4 + [("poison for all", 7)] + [("word", 7)] * 4)
                told = self.work(lab, backends, attempts=3)
                self.assertEqual(self.tasks.counts(), Counts(0, 8 * number, 2 * number))
                self.assertEqual(sorted(map(told_of, lab.completes), key=str), [(3, None)] * 8 + [(None, 400)] * 6)
                self.assertEqual(told.count("attempt 3: Unsolved: 400"), 2)
                if backends is not BATCH:
                    self.assertEqual(len(calls), 14)

    def test_pauses(self):
        """However many attempts a task has, the pauses between them stay short."""
        worker.PAUSE = 0.001
        self.tasks.add([("poison", 7)])
        self.work(Lab(lambda entry: REJECTED), SINGLE, seconds=60, attempts=12)
        self.assertEqual(self.tasks.counts(), Counts(0, 0, 1))

    def test_server_fails(self):
        """What a model has worked on is charged; the next attempt may succeed."""
        failures = [500, 503]
        lab = Lab(lambda entry: (failures.pop(), {}) if failures else solved(entry))
        self.tasks.add([("word", 7)])
        self.work(lab, SINGLE)
        self.assertEqual(self.tasks.counts(), Counts(0, 1, 0))
        self.assertEqual(list(map(told_of, lab.completes)), [(None, 503), (None, 500), (3, None)])

    def test_refused(self):
        """A refusal is no attempt. The gateway is told of it, and asked again."""
        for backends in (CHAT, SINGLE, BATCH):
            with self.subTest(backends):
                refusals = [(429, {}), (429, {"retry-after-ms": 1500})]
                lab = Lab(lambda entry: refusals.pop() if refusals else solved(entry))
                self.tasks.add([("word", 7)])
                self.assertEqual(self.work(lab, backends, attempts=1), "")
                self.assertEqual(list(map(told_of, lab.completes)), [(None, 429), (None, 429), (3, None)])
                self.assertEqual([c.get("retry_after") for c in lab.completes], [1.5, None, None])
                keys = [s["idempotency_key"].split("/")[2:] for s in lab.schedules]
                self.assertEqual(keys, [["1", "0"], ["1", "1"], ["1", "2"]])

    def test_retry_after(self):
        date = "Sun, 06 Nov 1994 08:49:37 GMT"
        dates = ("Sun, 06 Nov 1994 08:49:40 GMT", "Sunday, 06-Nov-94 08:49:40 GMT", "Sun Nov  6 08:49:40 1994")
        for headers, want in (
            ({}, None), ({"retry-after": "2"}, 2), ({"retry-after": 2}, 2), ({"retry-after": date}, 0),
            ({"retry-after-ms": "30", "retry-after": "1"}, 0.03), ({"retry-after-ms": "", "retry-after": "1"}, 1),
            ({"retry-after": "nan"}, None), ({"retry-after": "-1"}, None), ({"retry-after": "inf"}, None),
            ({"retry-after": "soon"}, None), ({"retry-after": "Sun, 06 Foo 1994 08:49:37 GMT"}, None),
            ({"retry-after": "1e-05"}, 0), ({"retry-after": "1e30"}, 3600), ({"retry-after-ms": 0.4}, 0),
            ({"retry-after": 10**400}, None), ({"retry-after": [2]}, None),
            *(({"retry-after": later, "date": date}, 3) for later in dates),
        ):
            with self.subTest(headers):
                self.assertEqual(retry_after(headers), want)

    def test_odd_answers(self):
        """Whatever a model answers, the API is told what it takes, and the task is solved by the next attempt."""
        odd = (
            (400, {"retry-after": 2}), (500, {"retry-after-ms": 7}), (503, {"retry-after-ms": 0.01}),
            (529, {"retry-after": "Sun, 06 Nov 1994 08:49:37 GMT"}), (503, {"retry-after": "Sun, 99 Foo"}),
            (700, {}), (200, {"status": "429"}), (200, {"status": True}), (200, {"answer": None}),
        )
        tokens = (2_000_001, -1, 3.5, "3", None)
        for number, backends in enumerate((SINGLE, BATCH), 1):
            with self.subTest(backends):
                first = dict(enumerate(odd + tuple((200, {"answer": "A", "tokens": used}) for used in tokens)))
                self.tasks.add([(str(one), 7) for one in first])
                tasks = len(first)
                lab = Lab(lambda entry: first.pop(int(entry["prompt"]), None) or solved(entry))
                self.work(lab, backends)
                self.assertEqual((lab.refused, self.tasks.counts()), ([], Counts(0, number * tasks, 0)))

    def test_complete_refused(self):
        """A task of which the API is told something that it does not take ends nevertheless."""
        lab = Lab()
        lab.api["/complete"] = [400]
        self.tasks.add([("word", 7)])
        self.assertIn("is completed without {'actual_tokens': 3}", self.work(lab, SINGLE))
        self.assertEqual((self.tasks.counts(), list(map(told_of, lab.completes))), (Counts(0, 1, 0), [(None, None)]))

    def test_too_large(self):
        """A task that the API does not take fails, and harms no other."""
        self.tasks.add([("word", 2_000_000), ("word", 7)])
        self.assertIn("2000001 tokens", self.work(Lab(), SINGLE, attempts=2))
        self.assertEqual(self.tasks.counts(), Counts(0, 1, 1))

    def test_unavailable(self):
        """While the API does not answer, tasks lose no attempts; one that cannot be completed is solved."""
        self.addCleanup(setattr, api, "REPEATS", api.REPEATS)
        api.REPEATS = 1
        lab = Lab()
        lab.api = {"/schedule": [503, 429, 408, 500], "/complete": [503]}
        self.tasks.add([("word", 7)])
        told = self.work(lab, SINGLE, attempts=1)
        self.assertEqual((self.tasks.counts(), told.count("Unavailable"), lab.completes), (Counts(0, 1, 0), 4, []))

    def test_lease_lost(self):
        """A task whose lease is over before each answer ends: lease_ttl may be longer than the gateway's."""

        class Late(Lab):
            async def __call__(self, request):
                if request.url.path == "/heartbeat":
                    return httpx.Response(200, json={"ok": False, "reason": "not_found"})
                if request.url.path == "/single":
                    await asyncio.sleep(300)
                return await super().__call__(request)

        self.tasks.add([("word", 7)])
        told = self.work(Late(), SINGLE, seconds=60, lease_ttl=1.5, attempts=2)
        self.assertEqual(self.tasks.counts(), Counts(0, 0, 1))
        self.assertIn("is lease_ttl that of the gateway?", told)

    def test_keeping(self):
        """While a worker waits, it renews its claim; once somebody else has the task, it waits no longer."""

        async def run():
            w = worker.Worker(worker.Settings("http://api", "t", self.where, SINGLE, lease_ttl=0.01), None)
            renewed = asyncio.Event()
            w.tasks.renew = lambda task, seconds: renewed.set() or True
            self.assertTrue(await asyncio.wait_for(w.keeping(None, renewed.wait()), 300))
            w.tasks.renew = lambda task, seconds: False
            with self.assertRaises(Lost):
                await w.keeping(worker.Task(1, "", 1, 1, 1), asyncio.Event().wait())

        asyncio.run(run())

    def test_renewed(self):
        """While the gateway does not answer heartbeats, a claim is renewed nevertheless."""
        lab = Lab()
        lab.api["/heartbeat"] = 503

        async def run():
            renewed = asyncio.Event()
            async with httpx.AsyncClient(transport=httpx.MockTransport(lab)) as client:
                warmgate = api.Warmgate("http://api", "t", 0.01, client)
                async with warmgate.renewed("task", lambda: renewed.set() or True):
                    await asyncio.wait_for(renewed.wait(), 60)

        asyncio.run(run())

    def test_heartbeat_under_way(self):
        """A heartbeat that is under way when its task has ended is not broken off: httpx, with calls that are, may keep
        others waiting for ever."""
        begun, go, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        class Slow(Lab):
            async def __call__(self, request):
                begun.set()
                await go.wait()
                ended.set()
                return await super().__call__(request)

        async def run():
            async with httpx.AsyncClient(transport=httpx.MockTransport(Slow())) as client:
                warmgate = api.Warmgate("http://api", "t", 60, client)
                warmgate.lease_ttl = 0.01
                async with warmgate.renewed("task", lambda: setattr(warmgate, "lease_ttl", 600) or True):
                    await begun.wait()
                go.set()
                await asyncio.wait_for(ended.wait(), 60)

        asyncio.run(run())

    def test_stuck(self):
        """A call that httpx never ends is made again."""
        self.addCleanup(setattr, api, "LONGEST", api.LONGEST)
        api.LONGEST = 0.05
        stuck = [True]

        class Stuck(Lab):
            async def __call__(self, request):
                if stuck and stuck.pop():
                    await asyncio.Event().wait()
                return await super().__call__(request)

        async def run():
            async with httpx.AsyncClient(transport=httpx.MockTransport(Stuck())) as client:
                self.assertEqual(await api.Warmgate("http://api", "t", 60, client).parallelism(7), 7)
                self.assertEqual(stuck, [])
                with self.assertRaisesRegex(TimeoutError, "no answer within"):
                    stuck.append(True)
                    await open_backend(SINGLE, client, 0.05).ask("m", worker.Task(1, "word", 7, 1, 1))

        asyncio.run(run())

    def test_misconfigured(self):
        """What no task can help ends the worker with a message, and is no attempt."""
        self.tasks.add([("word", 7)])
        for path, status in (("/schedule", 401), ("/schedule", 400), ("/schedule", 404), ("/single", 401),
                             ("/single", 404)):
            with self.subTest(path=path, status=status):
                lab = Lab()
                lab.api[path] = status
                with self.assertRaisesRegex(Misconfigured, str(status)):
                    self.work(lab, SINGLE, attempts=1)
                self.assertEqual(self.tasks.counts(), Counts(1, 0, 0))
        for backends in ({}, {"m": 1}, {"service": {}}, {"service": {"single": "a", "batch": "b"}}):
            with self.subTest(backends), self.assertRaises(Misconfigured):
                self.work(Lab(), backends)

    def test_time_is_over(self):
        """A worker whose time is over begins no more tasks, and ends those that it has."""
        lab = Lab()
        self.tasks.add([("word", 7)] * 3)
        self.work(lab, SINGLE, seconds=0)
        self.assertEqual((self.tasks.counts(), lab.schedules), (Counts(3, 0, 0), []))

    def test_cancelled(self):
        """A worker that is told to end gives back what it has: its tasks can be claimed at once."""
        begun = asyncio.Event()

        class Slow(Lab):
            async def __call__(self, request):
                if request.url.path == "/single":
                    begun.set()
                    await asyncio.sleep(60)
                return await super().__call__(request)

        lab = Slow()
        self.tasks.add([("word", 7)])
        s = worker.Settings("http://api", "t", self.where, SINGLE, workers=1)

        async def run():
            async with httpx.AsyncClient(transport=httpx.MockTransport(lab)) as client:
                running = asyncio.ensure_future(worker.Worker(s, client).run())
                await begun.wait()
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

        asyncio.run(run())
        self.assertEqual(self.tasks.claim(60, 5).attempt, 1)
        self.assertEqual([c.get("actual_tokens") for c in lab.completes], [None])


if __name__ == "__main__":
    unittest.main()
