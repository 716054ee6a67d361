"""What the cases of this folder have in common: a place, a command, patience, and tidiness.

Time never decides here. A case waits for what must come, and LIMIT_S only ends a wait that would
never end; how long it took is not looked at.
"""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

LIMIT_S = 60  # for one wait
CASE_LIMIT_S = 240  # for a case: then it hangs
LOOK_S = 0.005
CASES = []


class Failure(Exception):
    """What a case expected did not come true."""


def case(function):
    """Registers a case. Its name is the sentence that it shows."""
    CASES.append(function)
    return function


def name_of(function):
    module = function.__module__.removeprefix("cases_")
    return f"{module}: {function.__name__.replace('_', ' ')}"


def check(condition, what):
    if not condition:
        raise Failure(what)


def check_equal(found, wanted, what):
    if found != wanted:
        raise Failure(f"{what}: {found!r}, not {wanted!r}")


def wait_until(condition, what, limit_s=LIMIT_S):
    """Looks until the condition holds, and returns what it gave."""
    end = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"waited {limit_s} s in vain: {what}")
        time.sleep(LOOK_S)


def processes_marked(mark):
    """The processes that were started with this in their environment, as (pid, command line)."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if mark.encode() not in file.read().split(b"\0"):
                    continue
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                line = file.read().replace(b"\0", b" ").decode(errors="replace")
            found.append((int(entry), line.strip()))
        except OSError:
            continue  # it ended while we looked
    return found


def stat_of(pid):
    """(state, parent, group, session) of a process; None: there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3])


def is_alive(pid):
    stat = stat_of(pid)
    return stat is not None and stat[0] not in "ZX"


class Result:
    """How a command ended, and what it printed."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def __repr__(self):
        return f"status {self.status}, out {self.out[-2000:]!r}, err {self.err[-2000:]!r}"


class Case:
    """The world of one case."""

    def __init__(self, command, folder, mark):
        self.command = command
        self.folder = folder
        self.environment = {**os.environ, "HOLDFAST_URL": f"file:{folder}/locks",
                            "LC_ALL": "C.UTF-8", "HOLDFAST_CASE": mark, "TERM": "xterm"}
        self.environment.pop("HOLDFAST_PASSWORD", None)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text, executable=False):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        if executable:
            os.chmod(self.path(name), 0o755)
        return self.path(name)

    def read(self, name):
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def read_line(self, name):
        """The first line of a file, once it is there and whole."""
        return wait_until(lambda: re.match("(.+)\n", self.read(name)), f"a line in {name}").group(1)

    def read_pid(self, name):
        return int(self.read_line(name))

    def start(self, *words, **options):
        """Starts holdfast; the caller waits for it with end()."""
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                   "stderr": subprocess.PIPE, "cwd": self.folder, "env": self.environment,
                   **options}
        return subprocess.Popen([self.command, *words], **options)

    def holdfast(self, *words, **options):
        """Runs holdfast to its end."""
        return self.end(self.start(*words, **options))

    def end(self, process, data=None):
        """Waits for its end."""
        try:
            out, err = process.communicate(data, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            raise Failure(f"{process.args} did not end") from None
        return Result(process.returncode, decoded(out), decoded(err))

    def expect(self, status, *words, **options):
        """Runs holdfast and wants this exit status."""
        result = self.holdfast(*words, **options)
        check(result.status == status, f"holdfast {words}: wanted {status}: {result}")
        return result

    def show(self, name):
        """What `show --json` tells, as Python sees it."""
        result = self.holdfast("show", "--json", name)
        check(result.status in (0, 1), f"show: {result}")
        return json.loads(result.out)

    def holders(self, name):
        return [entry["pid"] for entry in self.show(name)["holders"]]

    def waiters(self, name):
        return [entry["pid"] for entry in self.show(name)["waiters"]]

    def fence_of(self, name):
        return self.show(name)["holders"][0]["fence"]

    def wait_waiting(self, name, pid):
        wait_until(lambda: pid in self.waiters(name), f"{pid} waits for {name}")

    def check_free(self, name):
        check_equal(self.holdfast("show", "-q", name).status, 1, f"status of show, {name} free")

    def hold(self, name, *options):
        """Somebody who has the lock until end() is called."""
        return Holder(self, name, options)

    def marked(self):
        return processes_marked("HOLDFAST_CASE=" + self.environment["HOLDFAST_CASE"])

    def guard_of(self, pid):
        """The guard of this holdfast: a child of that name."""

        def find():
            for candidate, _ in self.marked():
                try:
                    with open(f"/proc/{candidate}/comm", encoding="utf-8") as file:
                        name = file.read().strip()
                except OSError:
                    continue
                stat = stat_of(candidate)
                if name == "holdfast-guard" and stat and stat[1] == pid and stat[0] not in "ZX":
                    return candidate
            return None

        return wait_until(find, f"the guard of {pid}")


def decoded(data):
    return data.decode(errors="replace") if isinstance(data, bytes) else (data or "")


class Holder:
    """`holdfast run NAME -- cat`: has the lock when hello came back, until its input ends."""

    def __init__(self, world, name, options=()):
        self.world = world
        self.process = world.start("run", *options, name, "--", "cat", stdin=subprocess.PIPE)
        self.pid = self.process.pid

    def ready(self):
        self.process.stdin.write(b"hello\n")
        self.process.stdin.flush()
        readable, _, _ = select.select([self.process.stdout], [], [], LIMIT_S)
        check(readable, "the holder does not answer")
        check_equal(self.process.stdout.readline(), b"hello\n", "what cat gives back")
        return self

    def end(self):
        return self.world.end(self.process)


def run_one(function, command, log):
    """In a process of its own: 0 passed, 1 failed."""
    os.setsid()
    os.dup2(log, 1)
    os.dup2(log, 2)
    folder = tempfile.mkdtemp(prefix="case-")
    mark = f"{os.getpid()}-{time.time_ns()}"
    world = Case(command, folder, mark)
    failed = 0
    try:
        function(world)
        wait_until(lambda: not world.marked(), "the end of all that was started")
    except Failure as failure:
        failed = 1
        own = [f for f in traceback.extract_tb(failure.__traceback__) if "cases_" in f.filename]
        print(f"    line {own[-1].lineno if own else '?'}: {failure}")
    except BaseException:
        failed = 1
        traceback.print_exc()
    for pid, line in world.marked():
        print(f"    left behind: {pid} {stat_of(pid)} {line}")
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.flush()
    return failed


class Running:
    """A case under way."""

    def __init__(self, function, command):
        self.function = function
        self.log = tempfile.TemporaryFile()
        self.end = time.monotonic() + CASE_LIMIT_S
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                status = run_one(function, command, self.log.fileno())
            finally:
                os._exit(status)

    def ended(self):
        """None: not yet. Else whether it passed."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0 and time.monotonic() < self.end:
            return None
        if pid == 0:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            status = 1
        return status == 0

    def report(self, passed):
        self.log.seek(0)
        text = self.log.read().decode(errors="replace")
        print(f"{'passed' if passed else 'FAILED'}  {name_of(self.function)}")
        if not passed:
            print(text or "    it did not end", flush=True)


def run_all(command, words, jobs, repeat):
    chosen = [c for c in CASES if not words or any(w in name_of(c) for w in words)]
    todo = chosen * repeat
    running, passed, failed = [], 0, 0
    while todo or running:
        while todo and len(running) < jobs:
            running.append(Running(todo.pop(0), command))
        for one in running[:]:
            good = one.ended()
            if good is None:
                continue
            running.remove(one)
            one.report(good)
            passed, failed = passed + good, failed + (not good)
        time.sleep(LOOK_S)
    print(f"{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1
