"""What many cost: one who leaves wakes one other, and who waits asks for hardly anything."""

import contextlib
import os
import subprocess
import time

import tree
from client import Answer
from harness import LIMIT_S, case, check, check_equal, wait_until
from setting import LEASE_MS, line, owner_of, path_of, setting, wait_line

MANY = 500
LINES = 200
LONG_MS = 60000
EACH_S = 15  # one who waits looks by itself so often


class Crowd:
    """crowd.c: so many clients in line, each with a session of its own; or with `holders` so many
    lines, and one client that waits in each for the one that is there."""

    def __init__(self, here, count, recipe="sequence", holders=None):
        program = os.path.join(os.path.dirname(here.world.command), "test", "zookeeper", "crowd")
        words = [program, here.url(recipe=recipe), "n", str(count), str(LONG_MS)]
        words += [holders] if holders else []
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=here.world.environment, text=True, bufsize=1)
        check_equal(self.hear(), "ready", "the crowd")

    def hear(self):
        return self.process.stdout.readline().rstrip("\n")

    def ask(self, order):
        self.process.stdin.write(order + "\n")
        return self.hear()

    def end(self):
        """Its clients close; returns the exit status."""
        self.process.stdin.close()
        status = self.process.wait(4 * LIMIT_S)
        self.process.stdout.close()
        return status


@contextlib.contextmanager
def crowd(here, count, **options):
    made = Crowd(here, count, **options)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()


class Line:
    """Who stands in it, and who watches whom."""

    def __init__(self, here, count):
        self.here, self.look = here, here.look()
        self.children = wait_line(self.look, count)
        self.owners = [owner_of(self.look, child) for child in self.children]

    def check_woken(self, number, act):
        """Of the others, only the one behind is told that this one goes."""
        own, watches = self.owners[number], tree.watches(self.here.store)
        watchers = watches.get(path_of("n", self.children[number]), set())
        check_equal(watchers - {own}, {self.owners[number + 1]}, f"who watches number {number}")
        check_equal(watches.get(path_of("n"), set()), set(), "who watches the whole line")
        before = self.here.proxy.stat()["events"]
        act(number)
        # Who holds watches its own node, and hears of its end, if it is still there.
        most = 1 + (own in tree.connections(self.here.store))
        wait_until(lambda: self.here.proxy.stat()["events"] > before, "the one behind is told")
        told = self.here.proxy.stat()["events"] - before
        check(told <= most, f"{told} events when number {number} goes, not {most}")


@case
def of_five_hundred_who_wait_one_is_woken(world):
    with setting(world, 0, through=True) as (here,), crowd(here, MANY) as many:
        members = Line(here, MANY)
        for number in range(20):
            members.check_woken(
                number, lambda at: check_equal(many.ask("next"), str(at + 1), "who is next"))
        for number in (250, 300, 350):  # leave from the middle
            members.check_woken(number, lambda at: many.ask(f"close {at}"))
        for number in (400, 450):  # die in the middle
            members.check_woken(
                number, lambda at: tree.expire(here.store, members.owners[at]))
        check_equal(many.ask("next"), "21", "who is next")


@case
def who_waits_and_who_holds_only_beats(world):
    with setting(world, 3, through=True) as (here, *clients):
        for client in clients:
            here.open(client, here.url(), LEASE_MS)
            if client is clients[0]:
                client.acquire("n", lease_ms=LEASE_MS)
            else:
                here.stand(client, lease_ms=LEASE_MS)
        wait_until(lambda: here.proxy.stat()["syncs"] >= 6, "all that was to be asked was asked")
        start, begun_s = here.proxy.stat(), time.monotonic()
        wait_until(lambda: here.proxy.stat()["syncs"] - start["syncs"] >= 12, "beats")
        end, lasted_s = here.proxy.stat(), time.monotonic() - begun_s
        looks = end["packets"] - start["packets"]
        check(looks <= 2 * (1 + lasted_s // EACH_S), f"{looks} requests of who waits and who holds")
        check_equal(end["events"] - start["events"], 0, "events")
        check_equal(clients[0].ask("valid"), "1", "valid after several sessions' time")
        clients[0].release()
        for client in clients[1:]:
            client.do("wait -1")
            client.release()


@case
def who_waits_in_two_hundred_lines_asks_less_than_once_a_second(world):
    with setting(world, 0, through=True) as (here,), \
            crowd(here, LINES, holders=here.url(through=False)) as many:
        start, begun_s = here.proxy.stat(), time.monotonic()
        wait_until(lambda: here.proxy.stat()["packets"] - start["packets"] >= 5, "looks")
        end, lasted_s = here.proxy.stat(), time.monotonic() - begun_s
        asked = sum(end[what] - start[what] for what in ("pings", "syncs", "packets"))
        print(f"    {asked} requests in {lasted_s:.1f} s")
        check(asked <= lasted_s, f"{asked} requests in {lasted_s:.1f} s")
        check_equal(many.end(), 0, "the crowd's end")


@case
def an_uncontended_turn_takes_few_requests(world):
    with setting(world, 1, through=True) as (here, client):
        here.open(client, here.url())
        client.acquire("n")
        client.release()
        counts = []

        def turns_of_two():
            start = here.proxy.stat()["packets"]
            for _ in range(10):
                client.acquire("n")
                client.release()
            counts.append(here.proxy.stat()["packets"] - start)
            return counts[-1] == 20

        # A beat may come in between, and who was not let run for 20 ms looks who comes meanwhile.
        wait_until(turns_of_two, "ten turns of a create and a delete each")
        print(f"    {counts} packets for 10 turns")


@case
def the_herd_of_the_node_recipe_is_as_big_as_it_is_said_to_be(world):
    with setting(world, 0, through=True) as (here,):
        clients = [here.client() for _ in range(12)]
        for client in clients:
            here.open(client, here.url(recipe="node"))
        clients[0].acquire("n")
        for client in clients[1:]:
            here.stand(client)
        events = here.proxy.stat()["events"]
        clients[0].release()
        wait_until(lambda: here.proxy.stat()["events"] - events >= 11, "all are woken")
        served = set()
        while len(served) < 11:
            for number, client in enumerate(clients[1:]):
                if number not in served and Answer(client.ask("wait 50")).status == "OK":
                    client.release()
                    served.add(number)
        check_equal(line(here.look()), [], "a line")
