"""Many who wait, in processes of their own (waiters.py): who is next, though some of them die?"""

import os
import subprocess
import sys

from harness import check, check_equal

PROCESSES, EACH = 10, 5
VICTIM = 4
LEASE_MS = 2000


class Waiters:
    """One process with several clients, and many claims."""

    def __init__(self, world, url, lease_ms, clients):
        library = os.path.join(os.path.dirname(world.command), "libholdfast.so")
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "waiters.py")
        self.process = subprocess.Popen(
            [sys.executable, program, library, url, str(lease_ms), str(clients)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
            env=world.environment)

    def stand(self, number, client, name, *soon):
        self.process.stdin.write(" ".join([str(number), str(client), name, *soon]) + "\n")
        check_equal(self.process.stdout.readline(), f"{number} in line\n", "it stands in line")

    def turns(self):
        """[(fence, number)] of all that had theirs."""
        told, _ = self.process.communicate()
        check_equal(self.process.returncode, 0, "its end")
        return [tuple(map(int, reversed(line.split()))) for line in told.splitlines()]

    def kill(self):
        self.process.kill()
        self.process.communicate()


def check_order(world, holder, url):
    """The holder has opened that URL. Each who waits has a client of its own, so that the server
    alone decides who is next."""
    first = holder.acquire("n").fence
    crowd = [Waiters(world, url, LEASE_MS, EACH) for _ in range(PROCESSES)]
    try:
        for number in range(PROCESSES * EACH):
            crowd[number % PROCESSES].stand(number, number // PROCESSES, "n")
        crowd[VICTIM].kill()
        holder.release()
        living = [waiters for i, waiters in enumerate(crowd) if i != VICTIM]
        turns = sorted(turn for waiters in living for turn in waiters.turns())
    finally:
        for waiters in crowd:
            waiters.kill()
    check_equal([number for _, number in turns],
                [n for n in range(PROCESSES * EACH) if n % PROCESSES != VICTIM], "the order")
    fences = [fence for fence, _ in turns]
    check(fences[0] > first and len(set(fences)) == len(fences), "fences rise")
