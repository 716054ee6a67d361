#!/usr/bin/python3
"""Takes `etcdctl lock` again and again beside other programs:

    player_etcdctl.py SERVER NAME DIRECTORY SECONDS READERS

Each turn is a process of etcdctl's: it prints its key when it has the lock, and gives it back when
it is interrupted. What is done inside, and written down, is written in player.c. Its fence is made
as ours are, from the revision at which its key was made. It has no shared mode: READERS is passed
over.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time

FENCE_STEP = 256
TTL_S = "5"


class Player:
    """One process at one lock."""

    def __init__(self, server, name, directory):
        self.directory = directory
        self.command = ["etcdctl", "--endpoints", server, "--write-out", "json", "lock", "--ttl",
                        TTL_S, name]
        self.environment = {**os.environ, "ETCDCTL_API": "3"}

    def add_one(self):
        inside = f"{self.directory}/inside"
        os.close(os.open(inside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with open(f"{self.directory}/count", encoding="ascii") as file:
            number = int(file.read())
        time.sleep(0.0003)
        with open(f"{self.directory}/count", "w", encoding="ascii") as file:
            file.write(f"{number + 1}\n")
        os.unlink(inside)

    def take_note(self, what, fence):
        line = f"{what} w {fence} theirs-{os.getpid()}\n"
        file = os.open(f"{self.directory}/turns", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        os.write(file, line.encode("ascii"))
        os.close(file)

    def take_turn(self):
        with subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              env=self.environment, text=True) as process:
            line = process.stdout.readline()
            if not line:
                sys.exit(f"etcdctl ended without the lock: status {process.wait()}")
            fence = json.loads(line)["kvs"][0]["create_revision"] * FENCE_STEP
            self.take_note("enter", fence)
            self.add_one()
            self.take_note("leave", fence)
            process.send_signal(signal.SIGINT)
            if process.wait() != 0:
                sys.exit(f"etcdctl gave the lock back with status {process.returncode}")

    def play(self, seconds):
        with open(f"{self.directory}/ready.{os.getpid()}", "x", encoding="ascii"):
            pass
        while not os.path.exists(f"{self.directory}/go"):
            time.sleep(0.001)
        end = time.monotonic() + seconds
        times = 0
        while time.monotonic() < end:
            self.take_turn()
            times += 1
            time.sleep(random.random() * 0.01)
        return times


def main():
    server, name, directory, seconds, _readers = sys.argv[1:]
    print(Player(server, name, directory).play(float(seconds)))


if __name__ == "__main__":
    main()
