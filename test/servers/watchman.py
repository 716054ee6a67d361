"""Has this machine stood still? No lease of a second outlasts one that does something else."""

import threading
import time

NAP_S = 0.02
STALL_MS = 200


class Watchman(threading.Thread):
    """Sleeps, and notes by how much he overslept: so long nobody here may have got a CPU."""

    def __init__(self):
        super().__init__(daemon=True)
        self.overslept = []  # (until when, ms)
        self.told = time.monotonic()
        self.start()

    def run(self):
        while True:
            before = time.monotonic()
            time.sleep(NAP_S)
            until = time.monotonic()
            late_ms = int((until - before - NAP_S) * 1000)
            if late_ms >= STALL_MS:
                self.overslept.append((until, late_ms))

    def stalls_since(self, moment):
        """{what: the longest in ms}"""
        found = [ms for until, ms in self.overslept if until >= moment]
        return {"no CPU": max(found)} if found else {}

    def stalls(self):
        """Since this was last asked."""
        since, self.told = self.told, time.monotonic()
        return self.stalls_since(since)
