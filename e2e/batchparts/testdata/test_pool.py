"""The command, with an API that refuses its token."""

import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest

from warmgate_batch.tasks import open_tasks


class Refuses(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_error(401, "token")

    do_GET = do_POST

    def log_message(self, *_):
        pass


class Pool(unittest.TestCase):
    def test_misconfigured(self):
        """The pool ends with a message, and does not replace workers for ever."""
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refuses)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever).start()
        with tempfile.TemporaryDirectory() as folder:
            where = os.path.join(folder, "tasks.db")
            open_tasks(where).add([("word", 7)])
            with open(os.path.join(folder, "backends.json"), "w", encoding="utf-8") as f:
                json.dump({"m": "http://127.0.0.1:1/"}, f)
            done = subprocess.run(
                [sys.executable, "pool.py", "--api", f"http://127.0.0.1:{server.server_port}", "--tasks", where,
                 "--backends", f.name, "--processes", "1"],
                cwd=os.environ["EXAMPLE"], env={**os.environ, "WARMGATE_TOKEN": "t"}, capture_output=True, text=True,
                check=False,
            )
            self.assertEqual(done.returncode, 2)
            self.assertIn("/advice: 401", done.stderr)
            self.assertIn("0 of 1 solved", done.stderr)
            self.assertEqual(done.stdout.count("worker "), 1)


if __name__ == "__main__":
    unittest.main()
