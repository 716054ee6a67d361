#!/usr/bin/python3
"""Takes kazoo's locks again and again beside other programs:

    player_kazoo.py SERVER PATH DIRECTORY SECONDS READERS lock|readwrite

What it does inside, and what it writes down, is written in player.c. Its fence is made as ours are,
from the number that the server gave to the creation of its node. A ReadLock of kazoo 2.8 waits for
writers that came after it, too, and they for it: so it gives up after a while, and tries again.
Debian's own python3 is named above because it sees Debian's python3-kazoo.
"""

import os
import random
import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

FENCE_STEP = 256
PATIENCE_S = 0.1


class Player:
    """One process at one path."""

    def __init__(self, server, path, directory, readers, kind):
        self.client = KazooClient(hosts=server)
        self.path, self.directory, self.readers = path, directory, int(readers)
        self.writer = self.client.Lock if kind == "lock" else self.client.WriteLock

    def count(self):
        with open(f"{self.directory}/count", encoding="ascii") as file:
            return int(file.read())

    def add_one(self):
        inside = f"{self.directory}/inside"
        os.close(os.open(inside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        number = self.count()
        time.sleep(0.0003)
        with open(f"{self.directory}/count", "w", encoding="ascii") as file:
            file.write(f"{number + 1}\n")
        os.unlink(inside)

    def look(self):
        number = self.count()
        time.sleep(0.0003)
        if os.path.exists(f"{self.directory}/inside"):
            sys.exit("reading: a writer is inside")
        if self.count() != number:
            sys.exit("reading: somebody wrote")

    def take_note(self, what, reads, fence):
        line = f"{what} {'r' if reads else 'w'} {fence} theirs-{os.getpid()}\n"
        file = os.open(f"{self.directory}/turns", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        os.write(file, line.encode("ascii"))
        os.close(file)

    def acquire(self, reads):
        while True:
            lock = self.client.ReadLock(self.path) if reads else self.writer(self.path)
            try:
                if lock.acquire(timeout=PATIENCE_S if reads else None):
                    return lock
            except LockTimeout:
                time.sleep(random.random() * 0.01)

    def take_turn(self):
        """1 if it wrote."""
        reads = random.randrange(100) < self.readers
        lock = self.acquire(reads)
        fence = self.client.exists(f"{self.path}/{lock.node}").czxid * FENCE_STEP
        self.take_note("enter", reads, fence)
        if reads:
            self.look()
        else:
            self.add_one()
        self.take_note("leave", reads, fence)
        lock.release()
        return 0 if reads else 1

    def play(self, seconds):
        self.client.start()
        with open(f"{self.directory}/ready.{os.getpid()}", "x", encoding="ascii"):
            pass
        while not os.path.exists(f"{self.directory}/go"):
            time.sleep(0.001)
        end = time.monotonic() + seconds
        times = 0
        while time.monotonic() < end:
            times += self.take_turn()
            time.sleep(random.random() * 0.01)
        self.client.stop()
        return times


def main():
    server, path, directory, seconds, readers, kind = sys.argv[1:]
    print(Player(server, path, directory, readers, kind).play(float(seconds)))


if __name__ == "__main__":
    main()
