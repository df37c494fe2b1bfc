import io
import unittest

from warmgate_batch.progress import Progress, bar
from warmgate_batch.tasks import Counts


class Bar(unittest.TestCase):
    def test_bar(self):
        for counts, begun, seconds, want in (
            (Counts(0, 0, 0), Counts(0, 0, 0), 1, "[##############################] 0 of 0 solved"),
            (Counts(9, 0, 0), Counts(9, 0, 0), 1, "[..............................] 0 of 9 solved"),
            (Counts(60, 30, 10), Counts(80, 20, 0), 30,
             "[############..................] 30 of 100 solved, 10 failed, about 1:30 min left"),
            (Counts(5000, 1, 0), Counts(5001, 0, 0), 60,
             "[..............................] 1 of 5001 solved, about 83 h left"),
            (Counts(0, 99, 1), Counts(100, 0, 0), 60, "[##############################] 99 of 100 solved, 1 failed"),
        ):
            with self.subTest(counts):
                self.assertEqual(bar(counts, begun, seconds), want)

    def test_places(self):
        """In a terminal the bar stays in its line, and covers all of the one before."""
        for terminal in (True, False):
            with self.subTest(terminal=terminal):
                out = io.StringIO()
                out.isatty = lambda: terminal
                progress = Progress(Some(Counts(3, 0, 0), Counts(1, 1, 1), Counts(0, 3, 0)), out)
                progress.show(ended=True)
                progress.show()  # it is not time yet
                progress.show(ended=True)
                first, last = out.getvalue().split("\n")[:2]
                self.assertIn("[####################..........] 1 of 3 solved, 1 failed", first)
                self.assertEqual(last.strip(), "[##############################] 3 of 3 solved")
                self.assertEqual(out.getvalue().startswith("\r"), terminal)
                self.assertEqual(len(last) == len(first), terminal)


class Some:
    """Tasks that are counted a few times."""

    def __init__(self, *counts):
        self._counts = list(counts)

    def counts(self):
        return self._counts.pop(0)


if __name__ == "__main__":
    unittest.main()
