#!/usr/bin/python3
"""Takes redis-py's Lock again and again beside others: player.py PORT NAME DIRECTORY SECONDS

What it does inside is written in player.c. Debian's own python3 is named above because it sees
Debian's python3-redis.
"""

import os
import random
import sys
import time

import redis


def add_one(directory):
    inside, count = f"{directory}/inside", f"{directory}/count"
    os.close(os.open(inside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with open(count, encoding="ascii") as file:
        number = int(file.read())
    time.sleep(0.0003)
    with open(count, "w", encoding="ascii") as file:
        file.write(f"{number + 1}\n")
    os.unlink(inside)


def main():
    port, name, directory, seconds = sys.argv[1:]
    client = redis.Redis(port=int(port))
    end = time.monotonic() + float(seconds)
    times = 0
    while time.monotonic() < end:
        lock = client.lock(name, timeout=2, sleep=0.002)
        if not lock.acquire():
            sys.exit("acquire answered False")
        add_one(directory)
        lock.release()
        times += 1
        time.sleep(random.random() * 0.01)
    print(times)


if __name__ == "__main__":
    main()
