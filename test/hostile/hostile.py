"""What the hostile suites of all servers have in common, beside test/hostile/run.

A suite has cases, and a world in which they are played; the client of a case can be told that the
server has become honest, where the one in the middle has `mended`.
"""

import argparse
import concurrent.futures
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "servers"))

import watchman  # noqa: E402


def load_run():
    """What is the same for all servers."""
    loader = importlib.machinery.SourceFileLoader("hostile_run", os.path.join(HERE, "run"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("hostile_run", loader))
    sys.modules["hostile_run"] = module
    loader.exec_module(module)
    return module


run = load_run()
MENDED = {"good-broken": {run.OK}, "break-other": run.CHANGES, "mended-open": {run.OK},
          "mended": {run.OK}, "mended-release": {run.OK}}
# What a complaint says if somebody was only late.
LATENESS = re.compile(r" took \d+ ms$|^an honest server does not serve it|^mended\S* answered "
                      f"({run.ETIMEDOUT}|{run.EUNREACHABLE}|{run.EUNKNOWN}), ")


class World(run.World):
    """One whose clients come back when the server is honest again."""

    def __init__(self, build, judges_memory):  # pylint: disable=super-init-not-called
        self.build, self.judges_memory = build, judges_memory
        self.watchman = watchman.Watchman()
        self.memory_kib = 0  # of an honest conversation
        self.most_kib = 0

    def talk(self, harm, *words):
        """Plays the client, and mends the one in the middle when it asks for that."""
        words = [os.path.join(self.build, "test/hostile/client"), *words]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, errors="replace",
                                   env=self.environment())
        late, said, lines = threading.Event(), [], []
        limit = threading.Timer(run.LIMIT_S, lambda: (late.set(), process.kill()))
        reader = threading.Thread(target=lambda: said.append(process.stderr.read()))
        limit.start()
        reader.start()
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if lines[-1] == "mend":
                harm.mend()
                process.stdin.write("mended\n")
                process.stdin.flush()
        status = process.wait()
        limit.cancel()
        reader.join()
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()
        return lines, [f"did not end; said {lines}"] if late.is_set() else [
            f"ended with {status}: {lines} {said[0][-3000:]}"] if status else []

    def converse(self, harm, url, good_url, name, *orders):
        """({call: (status, ms, text)}, {call: fence}, KiB, complaints)"""
        lines, complaints = self.talk(harm, url, good_url, name, *orders)
        calls, fences, kib = {}, {}, 0
        for line in lines:
            words = line.split(" ", 3)
            if words[0] == "memory":
                kib = int(words[1])
            elif words[0] == "fence":
                fences[words[1]] = int(words[2])
            elif words[2:] and words[1].lstrip("-").isdigit() and words[2].isdigit():
                calls[words[0]] = int(words[1]), int(words[2]), words[3] if words[3:] else ""
            elif line != "mend":
                complaints.append(f"a text is of several lines: {line!r}")
        self.most_kib = max(self.most_kib, kib)
        return calls, fences, kib, complaints


def judge_harmless(calls):
    """Of what every client must understand."""
    wanted = {"open": run.OK, "acquire": run.OK, "extend": run.OK, "release": run.OK,
              "list": run.OK, "wait": run.ETIMEDOUT}
    if "crowd" in calls:
        wanted["crowd"] = run.OK
    for call, status in wanted.items():
        if calls.get(call, (None,))[0] != status:
            yield f"{call} did not understand an honest answer: {calls}"


def judge_fences(fences):
    order = [fences[call] for call in ("good-before", "acquire", "good-after") if call in fences]
    if "good-after" not in fences or order != sorted(set(order)):
        yield f"fences do not rise: {fences}"


def why_again(world, complaints, began):
    """Some steps are come to only at certain moments; and nobody is in time on a machine that has
    stood still. Nothing else is forgiven: not a lock that two hold, for one."""
    if complaints == [run.NEVER_PLAYED]:
        return "the trick was not played"
    stalls = world.watchman.stalls_since(began)
    if complaints and stalls and all(LATENESS.search(text) for text in complaints):
        return f"the machine stood still for (ms) {stalls}: {complaints}"
    return None


def forgives_only_lateness():
    """The complaints about why_again() itself."""
    world = argparse.Namespace(watchman=watchman.Watchman())
    began = time.monotonic()
    late = ["mended-release answered -5, which is not documented: no answer in time",
            "an honest server does not serve it: {}", "wait took 9000 ms"]
    grave = ["two hold it: {}", "fences do not rise: {}", "acquire took it for an answer: {}",
             "mended answered -16, which is not documented: x", "left behind: {}", "did not end",
             "open did not understand an honest answer: {}", run.NEVER_PLAYED]
    if why_again(world, late, began):
        yield "forgiven, though the machine went on"
    world.watchman.overslept.append((time.monotonic(), watchman.STALL_MS))
    if not why_again(world, late, began):
        yield "not forgiven, though it stood still"
    yield from (f"forgiven: {one}" for one in grave if why_again(world, late + [one], began))


def play(play_once, world, case):
    for repeats_left in range(run.REPEATS_MAX, -1, -1):
        began = time.monotonic()
        complaints = play_once(world, case)
        why = why_again(world, complaints, began) if repeats_left else None
        if not why:
            break
        print(f"again, for {why}: {case}", flush=True)
    return complaints


def parse(text, jobs):
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--case", action="append", help="only those whose names hold this")
    parser.add_argument("--full", action="store_true", help="every trick for every step")
    parser.add_argument("--memory", action="store_true", help="look at what they need of it")
    parser.add_argument("--jobs", type=int, default=jobs)
    return parser.parse_args()


class Count:
    """Of what passed, and what did not."""

    def __init__(self):
        self.passed = self.failed = 0

    def tell(self, case, complaints):
        self.passed, self.failed = self.passed + (not complaints), self.failed + bool(complaints)
        print(f"{'FAILED' if complaints else 'passed'}  {case}", flush=True)
        for complaint in complaints:
            print(f"    {complaint}", flush=True)

    def finish(self, world):
        print(f"memory: {world.memory_kib} KiB with an honest server, {world.most_kib} at the most")
        print(f"{self.passed} passed, {self.failed} failed")
        return 0 if self.passed and not self.failed else 1


def play_all(count, arguments, chosen, play_one):
    """Those that were asked for, so many at a time. `play_one` gets a case: its complaints."""
    count.tell("only lateness is forgiven", list(forgives_only_lateness()))
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        running = [(case, pool.submit(play_one, case)) for case in chosen if not arguments.case
                   or any(text in str(case) for text in arguments.case)]
        for case, future in running:
            count.tell(case, future.result())
