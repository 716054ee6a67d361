"""A Redis server of one's own, for tests: it keeps what it is told, and is gone afterwards."""

import os
import shutil
import socket
import subprocess
import tempfile
import time

LIMIT_S = 30


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """with Server() as server: server.port, server.url("set")"""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="redis-", dir=os.environ.get("TMPDIR"))
        self.port = free_port()
        with open(f"{self.directory}/log", "wb") as log:
            self.process = subprocess.Popen(
                ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1",
                 "--dir", self.directory, "--save", "", "--appendonly", "yes",
                 "--appendfsync", "always"], stdout=log, stderr=subprocess.STDOUT)

    def __enter__(self):
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                time.sleep(0.01)
        with open(f"{self.directory}/log", encoding="utf-8", errors="replace") as log:
            text = log.read()
        self.__exit__()
        raise RuntimeError(f"redis-server does not come up: {text}")

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def url(self, recipe, port=None):
        return f"redis://127.0.0.1:{port or self.port}?recipe={recipe}"
