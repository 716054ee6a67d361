"""The fault proxy (proxy.c), as a test starts and orders it."""

import os
import subprocess


class ProxyError(Exception):
    """It did not do what it was told."""


class Proxy:
    """with Proxy(program, port_of_server) as proxy: ... proxy.port, proxy.tell("cut")"""

    def __init__(self, program, to, seed=None, mild=False, speech="redis"):
        words = [program, "--to", str(to)]
        if seed is None and os.environ.get("HOLDFAST_SEED"):
            seed = int(os.environ["HOLDFAST_SEED"])
        words += ["--seed", str(seed)] if seed is not None else []
        words += ["--mild"] if mild else []
        words += ["--" + speech] if speech else []
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, bufsize=1)
        first = self.process.stdout.readline().split()
        if len(first) != 4:
            raise ProxyError("the proxy does not start")
        self.port, self.seed = int(first[1]), int(first[3])
        print(f"proxy: seed {self.seed}", flush=True)

    def tell(self, order):
        """Returns what stands behind the `ok`."""
        self.process.stdin.write(order + "\n")
        answer = self.process.stdout.readline().rstrip("\n")
        if not answer.startswith("ok"):
            raise ProxyError(f"{order}: {answer or 'the proxy has ended'}")
        return answer[3:]

    def stat(self):
        words = self.tell("stat").split()
        return {name: int(number) for name, number in zip(words[::2], words[1::2])}

    def close(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            raise ProxyError(f"the proxy ended with {self.process.returncode}")
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
