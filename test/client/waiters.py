#!/usr/bin/env python3
"""Many claims in one process: waiters.py LIBRARY URL LEASE_MS CLIENTS

Reads a line for each claim, "NUMBER CLIENT NAME", answers "NUMBER in line" when it is known to
stand there ("NUMBER CLIENT NAME soon": at once), and prints "NUMBER FENCE" when it has had its
turn. With a client for each, the server alone decides who is next. Ends when there are no more
lines, and all were served.
"""

import ctypes
import sys
import threading
import time


class OpenOptions(ctypes.Structure):
    """struct hf_open_options"""

    _fields_ = [("struct_size", ctypes.c_size_t), ("require", ctypes.c_uint32),
                ("caller_driven", ctypes.c_bool), ("connect_ms", ctypes.c_int64),
                ("lease_ms", ctypes.c_int64), ("purpose", ctypes.c_char_p),
                ("trace", ctypes.c_void_p), ("trace_context", ctypes.c_void_p)]


def load(path):
    library = ctypes.CDLL(path)
    library.hf_claim_wait.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
    library.hf_claim_position.argtypes = [ctypes.c_void_p]
    library.hf_grant_fence.argtypes = [ctypes.c_void_p]
    library.hf_grant_fence.restype = ctypes.c_uint64
    library.hf_release.argtypes = [ctypes.c_void_p]
    return library


def expect_ok(status, what):
    if status != 0:
        raise SystemExit(f"{what}: {status}")


def serve(library, number, claim, said):
    grant = ctypes.c_void_p()
    expect_ok(library.hf_claim_wait(claim, -1, ctypes.byref(grant)), "wait")
    with said:  # before the next one can be in
        print(number, library.hf_grant_fence(grant), flush=True)
    expect_ok(library.hf_release(grant), "release")


def main():
    path, url, lease_ms, count = sys.argv[1:]
    library = load(path)
    said = threading.Lock()
    threads = []
    options = OpenOptions(struct_size=ctypes.sizeof(OpenOptions), lease_ms=int(lease_ms))
    clients = []
    for _ in range(int(count)):
        client = ctypes.c_void_p()
        expect_ok(library.hf_open(url.encode(), ctypes.byref(options), ctypes.byref(client)),
                  "open")
        clients.append(client)
    for line in sys.stdin:
        number, client, name, *soon = line.split()
        claim = ctypes.c_void_p()
        expect_ok(library.hf_claim_start(clients[int(client)], name.encode(), None,
                                         ctypes.byref(claim)), "start")
        while not soon and library.hf_claim_position(claim) <= 0:
            time.sleep(0.001)
        with said:
            print(number, "in line", flush=True)
        threads.append(threading.Thread(target=serve, args=(library, number, claim, said)))
        threads[-1].start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
