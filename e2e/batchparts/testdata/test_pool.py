"""The command, with an API that refuses its token, or does not work."""

import contextlib
import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

from warmgate_batch.tasks import open_tasks


class Refuses(http.server.BaseHTTPRequestHandler):
    status = 401

    def do_POST(self):
        self.send_error(self.status)

    do_GET = do_POST

    def log_message(self, *_):
        pass


class Fails(Refuses):
    status = 503


class Pool(unittest.TestCase):
    def start(self, handler):
        """Starts the pool with one task and one worker."""
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever).start()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        where = os.path.join(folder.name, "tasks.db")
        open_tasks(where).add([("word", 7)])
        with open(os.path.join(folder.name, "backends.json"), "w", encoding="utf-8") as f:
            json.dump({"m": "http://127.0.0.1:1/"}, f)
        pool = subprocess.Popen(
            [sys.executable, "pool.py", "--api", f"http://127.0.0.1:{server.server_port}", "--tasks", where,
             "--backends", f.name, "--processes", "1"],
            cwd=os.environ["EXAMPLE"], env={**os.environ, "WARMGATE_TOKEN": "t"}, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )
        self.addCleanup(pool.kill)
        return pool

    def test_misconfigured(self):
        """The pool ends with a message, and does not replace workers for ever."""
        pool = self.start(Refuses)
        out, err = pool.communicate()
        self.assertEqual(pool.returncode, 2)
        self.assertIn("/advice: 401", err)
        self.assertIn("0 of 1 solved", err)
        self.assertEqual(out.count("worker "), 1)

    def test_killed(self):
        """A pool that is killed leaves no worker behind."""
        pool = self.start(Fails)
        worker = int(pool.stdout.readline().split()[1])
        pool.kill()
        try:
            pool.communicate(timeout=120)  # the worker has its output, too
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)


if __name__ == "__main__":
    unittest.main()
