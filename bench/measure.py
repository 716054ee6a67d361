"""What bench/redis, zookeeper, etcd, postgres and mysql share: CPUs, floors, one table.

A store derives from Field: which servers it has, where they are, what it is measured beside, and
which floors there are. Servers are put on a CPU: `split` is the clients on one CPU and the servers
on another, `same` all of them on one; `free` is as the scheduler likes. `holdfast bench` measures
ours and raw in turns; other projects' locks follow, on the same servers and CPUs, as processes of
their own. The exit status is 1 if a floor is missed, 2 if it cannot be measured.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "test" / "servers"), str(ROOT / "test" / "lib")]

import servers  # noqa: E402

PYTHON = "/usr/bin/python3"  # Debian's, which sees Debian's modules
IDLE_S = "10"
KEEP_S = "90"
PLACEMENTS = ("split", "same", "free")
CPU_PERCENT_MAX = 2  # W7
REQUESTS_PER_S_MAX = 1  # W6


def say(text):
    print(text, file=sys.stderr, flush=True)


def pin(pid, cpus):
    """A process with all its threads."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), cpus)


def run_on(cpus, words):
    """Runs it there; returns the JSON that it prints."""
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, text=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, cpus), check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{words[0]} ended with status {done.returncode}")
    return json.loads(done.stdout)


def has_module(name):
    return subprocess.run([PYTHON, "-c", f"import {name}"], capture_output=True,
                          check=False).returncode == 0


class Field:
    """The servers, the CPUs, and what was found there."""

    # What is measured, and the floor of ours/raw: {recipe: {workload: floor}}; a number for all
    # placements, or one for each; None is no floor. Of W5 it is times that are compared, and so the
    # most that is allowed.
    ratios = {}
    idle = ()  # the recipes for W6, ...
    quiet = ()  # ... and those that must ask for next to nothing
    peers_known = ()
    peers_at = {}  # {recipe: the peers that do the same}
    peer_workloads = ("W1", "W3")  # that peers are measured in
    client = ""  # the package of the raw client
    placements = ("split", "same")

    def add_servers(self, place):
        """Starts them."""
        raise NotImplementedError

    def every_server(self):
        raise NotImplementedError

    def url(self, recipe):
        raise NotImplementedError

    def find_peers(self, directory):
        """Appends those to self.peers that are to be had."""
        raise NotImplementedError

    def peer_command(self, peer, recipe):
        """([words before the workload and the seconds], [words behind them])"""
        raise NotImplementedError

    def judge_peers(self, row):
        """As judge(), of the figures of others."""
        return []

    # What all stores share.

    def __init__(self, arguments, place):
        self.arguments = arguments
        self.cpus = sorted(os.sched_getaffinity(0))
        self.peers = []
        self.rows = []
        self.add_servers(place)

    def place(self, placement):
        """Puts the servers where they belong; returns the CPUs of the clients."""
        own = {"split": {self.cpus[-1]}, "same": {self.cpus[0]}, "free": set(self.cpus)}[placement]
        for server in self.every_server():
            pin(server.process.pid, own)
        return own if placement == "free" else {self.cpus[0]}

    def bench(self, cpus, recipe, workloads, seconds):
        """The rows of `holdfast bench`, which pins nothing itself."""
        say(f"{recipe} {workloads} ...")
        rows = run_on(cpus, [self.arguments.build / "holdfast", "bench", "--json", "--url",
                            self.url(recipe), "--workload", workloads, "--seconds", seconds,
                            "--slices", self.arguments.slices])
        return [row for row in rows if row["placement"] == "free"]

    def run_peer(self, cpus, peer, recipe, workload):
        say(f"{peer} {workload} ...")
        before, behind = self.peer_command(peer, recipe)
        return run_on(cpus, [*before, workload, self.arguments.seconds, *behind])

    def measure(self, recipe, placement):
        cpus = self.place(placement)
        rows = self.bench(cpus, recipe, ",".join(self.ratios[recipe]), self.arguments.seconds)
        if all(row["raw"]["p50_us"] is None for row in rows):
            raise RuntimeError(f"no raw figures: was this build set up without {self.client}? "
                               "'make clean' and build again")
        for row in rows:
            workload = row["workload"]
            row["placement"] = placement
            row["peers"] = {peer: self.run_peer(cpus, peer, recipe, workload)
                            for peer in self.peers_at.get(recipe, ())
                            if peer in self.peers and workload in self.peer_workloads}
            self.rows.append(row)

    def measure_alone(self, recipe, workload, seconds):
        """What has no raw side and is the same wherever it runs."""
        cpus = self.place("split")
        self.rows += self.bench(cpus, recipe, workload, seconds)

    def measure_all(self):
        arguments = self.arguments
        for placement in arguments.placements:
            if placement != "same" and len(self.cpus) < 2:
                say(f"{placement} is left out: there is only one CPU")
                continue
            for recipe in arguments.recipes:
                self.measure(recipe, placement)
        for recipe in arguments.recipes:
            if recipe in self.idle:
                self.measure_alone(recipe, "W6", arguments.idle_seconds)
            if arguments.long:
                self.measure_alone(recipe, "W7", arguments.keep_seconds)

    def judge(self, row):
        """[(what is wanted, is it so?)]"""
        ours, workload = row["ours"], row["workload"]
        if workload == "W7":
            percent = ours["client_cpu_s"] * 10
            return [("none lost", ours["lost"] == 0),
                    (f"CPU < {CPU_PERCENT_MAX} %", percent < CPU_PERCENT_MAX)]
        if workload == "W6":
            if row["recipe"] not in self.quiet:
                return []
            return [(f"<= {REQUESTS_PER_S_MAX}/s", ours["requests_per_s"] <= REQUESTS_PER_S_MAX)]
        floor = self.ratios[row["recipe"]][workload]
        if isinstance(floor, dict):
            floor = floor[row["placement"]]
        more = self.judge_peers(row)
        if floor is None:
            return more
        ratio = row["ratio"]  # None: one of them was never through in time
        if workload == "W5":
            return [(f"<= {floor:g}", ratio is not None and ratio <= floor)] + more
        return [(f">= {floor:g}", ratio is not None and ratio >= floor)] + more

    def print_table(self):
        lines = [["recipe", "work", "CPUs", "ours", "raw", "ratio", "floor",
                  *(f"{peer} (of raw)" for peer in self.peers_known)]]
        for row in self.rows:
            placement = "-" if row["workload"] in ("W6", "W7") else row["placement"]
            judged = "; ".join(f"{wanted} {'met' if met else 'MISSED'}"
                               for wanted, met in self.judge(row))
            lines.append([row["recipe"], row["workload"], placement, show_side(row, "ours"),
                          show_side(row, "raw"), show_ratio(row), judged or "-",
                          *(show_peer(row, peer) for peer in self.peers_known)])
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        for line in lines:
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def show_side(row, side):
    figures, workload = row[side], row["workload"]
    if workload == "W5":
        return "-" if figures["p50_us"] is None else f"{figures['p50_us']:.0f} us"
    if workload in ("W6", "W7"):
        if side == "raw":
            return "-"
        asked = "?" if figures["requests_per_s"] is None else f"{figures['requests_per_s']:.1f}/s"
        return f"{asked}, CPU {figures['client_cpu_s'] * 10:.2f} %"
    return f"{figures['cycles_per_s']:,.0f}/s"


def show_peer(row, peer):
    figures = row.get("peers", {}).get(peer)
    if not figures:
        return "-"
    if row["workload"] == "W5":
        return f"{figures['p50_us']:.0f} us"
    rate, raw = figures["cycles_per_s"], row["raw"]["cycles_per_s"]
    return f"{rate:,.0f}/s ({rate / raw:.2f})" if raw else f"{rate:,.0f}/s"


def show_ratio(row):
    if row["workload"] == "W7":
        return f"lost {row['ours']['lost']}"
    return "-" if row["ratio"] is None else f"{row['ratio']:.2f}"


def words_of(known):
    def parse(text):
        words = text.split(",")
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"'{word}' is none of {' '.join(known)}")
        return words
    return parse


def parse_arguments(kind, description):
    recipes = tuple(kind.ratios)
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--seconds", default="5", help="for each workload and placement (5)")
    parser.add_argument("--slices", default="9", help="so often ours and raw take turns (9)")
    parser.add_argument("--recipes", type=words_of(recipes), default=recipes, metavar="LIST")
    parser.add_argument("--placements", type=words_of(PLACEMENTS), default=kind.placements,
                        metavar="LIST")
    parser.add_argument("--no-peers", action="store_true", help="ours and raw only")
    parser.add_argument("--long", action="store_true",
                        help="also 10 000 locks held for three leases: 90 s for each recipe")
    parser.add_argument("--idle-seconds", default=IDLE_S, help="for W6 (10)")
    parser.add_argument("--keep-seconds", default=KEEP_S, help="for W7, three leases (90)")
    parser.add_argument("--json", action="store_true", help="every figure, instead of the table")
    return parser.parse_args()


def measure(kind, arguments):
    with servers.Place() as place, tempfile.TemporaryDirectory(prefix="bench-") as directory:
        field = kind(arguments, place)
        if not arguments.no_peers:
            field.find_peers(directory)
        field.measure_all()
    order = list(field.ratios)
    field.rows.sort(key=lambda row: (order.index(row["recipe"]), row["workload"]))
    return field


def run(kind, description):
    """Measures a store; returns the exit status."""
    arguments = parse_arguments(kind, description)
    try:
        field = measure(kind, arguments)
    except (OSError, RuntimeError, ValueError, servers.ServerError) as error:
        say(f"{sys.argv[0]}: {error}")
        return 2
    judged = [met for row in field.rows for _, met in field.judge(row)]
    if arguments.json:
        print(json.dumps(field.rows, indent=1))
    else:
        field.print_table()
        print(f"{sum(judged)} floors met, {len(judged) - sum(judged)} missed")
    return 0 if all(judged) else 1
