"""The client (client.c) that a case orders about, and what is expected of its answers."""

import os
import select
import subprocess

from harness import LIMIT_S, Failure, check, check_equal

EXCLUSIVE, SHARED = 0, 1
NAMES = ("PENDING OK EBUSY ETIMEDOUT ECANCELLED EUNREACHABLE EUNKNOWN ELOST EINVAL ENAME EURL"
         " EUNSUPPORTED EPROMISE EDEADLOCK EFORKED EDENIED EPROTOCOL EINTEGRITY ELIMIT ENOMEM"
         " ESYSTEM").split()
PROMISES = "fence fair wakeup shared durable failover crash".split()


class Answer:
    """The name of a status, and what stood behind it."""

    def __init__(self, line):
        number, _, self.text = line.partition(" ")
        self.status = NAMES[1 - int(number)]

    @property
    def fence(self):
        return int(self.text)

    def __repr__(self):
        return f"{self.status} {self.text!r}"


class Client:
    """One process with one client of the library."""

    def __init__(self, world):
        program = os.path.join(os.path.dirname(world.command), "test", "client", "client")
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=world.environment, text=True, bufsize=1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def send(self, order):
        self.process.stdin.write(order + "\n")

    def hear(self):
        readable, _, _ = select.select([self.process.stdout], [], [], 2 * LIMIT_S)
        line = self.process.stdout.readline() if readable else ""
        if not line:
            raise Failure("the client gives no answer")
        return line.rstrip("\n")

    def ask(self, order):
        self.send(order)
        return self.hear()

    def do(self, order, status="OK", *texts):
        """This status must be the answer, and its text must hold these."""
        answer = Answer(self.ask(order))
        check(answer.status == status and all(text in answer.text for text in texts),
              f"{order}: wanted {status} {texts}: {answer}")
        return answer

    def open(self, url, status="OK", *texts, connect_ms=0, require=()):
        wanted = sum(1 << PROMISES.index(promise) for promise in require)
        return self.do(f"open {connect_ms} {wanted} {url}", status, *texts)

    def acquire(self, name, status="OK", *texts, lease_ms=30000, wait_ms=-1):
        return self.do(f"acquire {lease_ms} {wait_ms} {name}", status, *texts)

    def release(self, status="OK"):
        return self.do("release", status)

    def promises(self):
        kept = int(self.ask("promises"))
        return {promise for bit, promise in enumerate(PROMISES) if kept >> bit & 1}

    def event(self, wanted):
        kind, _, cause = self.ask("event").partition(" ")
        check_equal(kind, wanted, "the event")
        return cause


def run(world, url, *options, name="n", environment=None, command=("true",)):
    """holdfast run, to its end."""
    return world.holdfast("run", *options, "-u", url, name, "--", *command,
                          env={**world.environment, **(environment or {})})


def check_run(world, status, texts, url, *options, **more):
    """It must end with this status, and say this."""
    result = run(world, url, *options, **more)
    check(result.status == status and all(text in result.err for text in texts),
          f"run {url} {options}: wanted {status} {texts}: {result}")
