#!/usr/bin/python3
"""How fast are others' locks? peers.py redis-py|kazoo WORKLOAD SECONDS PORT

W1 is one thread on one lock, W3 eight threads on one lock, each with a lock object of its own, as
its users would write it: its defaults, and of redis-py a timeout of 30 s. Prints one JSON object,
with the fields of `holdfast bench --json`. Debian's own python3 is named above because it sees
Debian's python3-redis and python3-kazoo.
"""

import json
import os
import sys
import threading
import time

WARM_PART = 0.1  # of the time, uncounted before the rest
LEASE_S = 30
LIMIT_S = 60


def open_redis(port, name):
    """Makes locks."""
    import redis
    client = redis.Redis(port=port)
    return lambda: client.lock(name, timeout=LEASE_S)


def open_kazoo(port, name):
    import kazoo.client
    client = kazoo.client.KazooClient(hosts=f"127.0.0.1:{port}")
    client.start()
    return lambda: client.Lock(f"/{name}")


PEERS = {"redis-py": open_redis, "kazoo": open_kazoo}


class Contender:
    """One thread at one lock."""

    def __init__(self, lock):
        self.lock = lock
        self.samples_ns = []

    def work(self, counted, end, contended):
        now_ns = time.monotonic_ns
        while time.monotonic() < end:
            begun_ns = now_ns()
            if not self.lock.acquire():
                raise RuntimeError("acquire answered False")
            acquired_ns = now_ns()
            self.lock.release()
            if begun_ns >= counted:
                self.samples_ns.append((acquired_ns if contended else now_ns()) - begun_ns)


def run(peer, port, workload, seconds):
    make = PEERS[peer](port, f"holdfast-bench/{peer}/{os.getpid()}")
    contenders = [Contender(make()) for _ in range(8 if workload == "W3" else 1)]
    begun = time.monotonic()
    counted, end = begun + seconds * WARM_PART, begun + seconds
    threads = [threading.Thread(target=contender.work,
                                args=(counted * 1e9, end, workload == "W3"))
               for contender in contenders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A loser may sleep beyond the end, but whoever is last to cycle keeps up with the clock.
    return [contender.samples_ns for contender in contenders], end - counted


def main():
    peer, workload, seconds, port = sys.argv[1:]
    if workload not in ("W1", "W3"):
        sys.exit(f"no workload '{workload}' here")
    samples, wanted = [], float(seconds)
    while not samples and wanted < LIMIT_S:  # in a short time perhaps nobody gets in: then longer
        of_each, seconds = run(peer, int(port), workload, wanted)
        samples = sorted(ns for samples in of_each for ns in samples)
        wanted *= 2
    counts = [len(samples) for samples in of_each]
    if not samples:
        sys.exit("nobody got in")
    print(json.dumps({
        "cycles_per_s": len(samples) / seconds,
        "p50_us": samples[len(samples) // 2] / 1e3,
        "p99_us": samples[len(samples) * 99 // 100] / 1e3,
        "share_min": min(counts) / len(samples),
        "share_max": max(counts) / len(samples),
    }))


if __name__ == "__main__":
    main()
