"""Three servers that are one: leaders that die or stand still, members cut off, no quorum."""

import contextlib
import os
import time

from client import Answer
from harness import case, check, check_equal, wait_until
from proxy import Proxy
from setting import (LEASE_MS, LONG_MS, check_nothing, check_pending, line, now_ns, three,
                     wait_line)

RESUMES_S = 10


def check_order(holder, waiter):
    """The holder, which cannot be saved, knows before the next begins. Returns the next's fence."""
    holder.send("hold")
    fence = waiter.do("wait -1").fence
    granted_ns = now_ns()
    seen_ns = int(holder.hear())
    check(0 < seen_ns < granted_ns, f"valid {(seen_ns - granted_ns) / 1e6} ms too long")
    check_equal(waiter.ask("valid"), "1", "the next one's grant")
    return fence


@case
def a_leader_that_is_killed_costs_nobody_the_lock(world):
    with three(world, 4) as (here, holder, waiter, third, other):
        here.open(holder, waiter, third, other)
        last = holder.acquire("n", lease_ms=LONG_MS).fence
        here.stand(waiter)
        here.stand(third)
        for _ in range(2):
            leader = here.store.leader()
            leader.kill()
            here.store.leader()
            began = time.monotonic()
            other.acquire("other", wait_ms=60000)
            spent_s = time.monotonic() - began
            check(spent_s < RESUMES_S, f"service came back after {spent_s} s")
            other.release()
            check_equal(holder.ask("valid"), "1", "valid")
            leader.start()
            wait_until(here.store.serving, "all serve")
        check_pending(waiter, "who waits")
        holder.release()
        for client in (waiter, third):
            fence = client.do("wait -1").fence
            check(fence > last, "fences rise")
            last = fence
            client.release()
        check_nothing(here, holder, waiter, third, other)


@case
def who_holds_and_who_waits_has_a_new_lease_when_another_leads(world):
    """No former leader knows of that one. Everybody keeps its place."""
    with three(world, 4) as (here, holder, waiter, third, other):
        here.open(holder, waiter, third, other)
        fence = holder.acquire("n", lease_ms=LEASE_MS).fence
        here.stand(waiter, lease_ms=LEASE_MS)
        here.stand(third, lease_ms=LEASE_MS)
        other.acquire("other", lease_ms=LEASE_MS)
        before = line(here) + line(here, "other")
        here.store.leader().kill()

        def have_moved():
            return all(one.lease != then.lease
                       for one, then in zip(line(here) + line(here, "other"), before))

        wait_until(have_moved, "all have moved")
        time.sleep(LEASE_MS / 1000)
        after = line(here) + line(here, "other")
        check_equal([(key.name, key.revision) for key in after],
                    [(key.name, key.revision) for key in before], "the line")
        check_equal(after[0].revision * 256, fence, "the fence")
        for client in (holder, other):
            check_equal(client.ask("valid"), "1", "valid with the new one")
            client.release()
        for client in (waiter, third):
            client.do("wait -1")
            client.release()
        here.store.start()
        check_nothing(here, holder, waiter, third, other)


@case
def a_leader_killed_while_the_holder_is_dead_delays_the_next_and_no_more(world):
    with three(world, 2) as (here, holder, waiter):
        here.open(holder, waiter)
        first = holder.acquire("n", lease_ms=LEASE_MS).fence
        here.stand(waiter)
        holder.process.kill()
        time.sleep(LEASE_MS / 1000 / 2)
        leader = here.store.leader()
        leader.kill()
        here.store.leader()
        check(waiter.do("wait -1").fence > first, "fences rise")
        waiter.release()
        leader.start()
        wait_until(here.store.serving, "all serve")
        check_nothing(here, waiter)


@case
def a_leader_that_stood_still_keeps_nobody_valid(world):
    """It stops for longer than the lease, with the holder at it who knows nobody else. The others
    elect another leader, who lets the lease end; then it goes on, and still believes it leads."""
    with three(world, 2) as (here, holder, waiter):
        leader = here.store.leader()
        others = [f"127.0.0.1:{server.port}" for server in here.servers if server is not leader]
        holder.open(here.store.url(at=[f"127.0.0.1:{leader.port}"]))
        waiter.open(here.store.url(at=others))
        first = holder.acquire("n", lease_ms=LEASE_MS).fence
        here.stand(waiter)
        leader.freeze()
        second = check_order(holder, waiter)
        check(second > first, "fences rise")
        leader.thaw()
        holder.release("ELOST")
        check_equal(waiter.ask("valid"), "1", "valid after the late release")
        waiter.release()
        wait_until(here.store.serving, "all serve")
        check_nothing(here, holder, waiter)


@case
def a_leader_that_stands_still_again_and_again_never_makes_two_holders(world):
    """For a time near the lease, so that what it says when it goes on is sometimes still true."""
    with three(world, 2, through=True) as (here, first, second):
        clients, last = [first, second], 0
        for client in clients:
            client.open(here.url(), connect_ms=60000)
        for number in range(4):
            holder, waiter = clients
            last, before = holder.acquire("n", lease_ms=LEASE_MS, wait_ms=60000).fence, last
            check(last > before, "fences rise")
            waiter.do(f"start {LEASE_MS} -1 n")
            wait_until(lambda: len(line(here)) > 1 or holder.ask("valid") == "0", "it waits")
            leader = here.store.leader()
            leader.freeze()
            time.sleep(LEASE_MS / 1000 * (0.6 + 0.3 * number))
            leader.thaw()
            if holder.ask("valid") == "1":
                answer = Answer(holder.ask("release"))
                check(answer.status in ("OK", "ELOST", "EUNKNOWN"), f"{answer}")
            else:
                holder.release("ELOST")
            fence = waiter.do("wait -1").fence
            check(fence > last, "fences rise")
            last = fence
            waiter.release()
            wait_until(here.store.serving, "all serve")
            clients.reverse()
        check_nothing(here, first, second)


MENDED = ((3, 4, 31), (3, 5, 13))  # etcd's issue 15247
PENDING_REVOKES = 16  # so many leases a server ends at a time
CANARY_S = 10
ROUNDS_MAX = 5


class Canary:
    """A key whose lease is kept alive in the plain way, as other programs do it."""

    def __init__(self, here, ttl_s):
        self.here = here
        self.lease = here.look().call("lease/grant", TTL=ttl_s)["ID"]
        here.look().put("canary", lease=self.lease)

    def lives(self):
        """Gives a sign of life, and tells whether there is still anything to keep."""
        self.here.look().call("lease/keepalive", ID=self.lease)
        return bool(self.here.look().found("canary"))


    def dies(self):
        """Soon, or not at all."""
        end = time.monotonic() + CANARY_S
        while self.lives():
            if time.monotonic() > end:
                return False
            time.sleep(CANARY_S / 50)
        return True


def is_mended(server):
    version = tuple(int(part) for part in server.status()["version"].split("."))
    return version >= MENDED[1] or MENDED[0] <= version < (3, 5)


def go_on_after_a_lease(world):
    """The leader, with more leases than it ends at a time. Returns whether all is proven: that the
    canary has died of it, or that no server does so any more."""
    with three(world, 2) as (here, holder, waiter):
        leader = here.store.leader()
        others = [f"127.0.0.1:{each.port}" for each in here.servers if each is not leader]
        for client in (holder, waiter):
            client.open(here.store.url(at=others))
        first = holder.acquire("n", lease_ms=LEASE_MS).fence
        here.stand(waiter, lease_ms=LEASE_MS)
        for _ in range(2 * PENDING_REVOKES):
            leader.call("lease/grant", TTL=2)
        canary = Canary(here, LEASE_MS // 1000)
        leader.freeze()
        began = time.monotonic()
        while time.monotonic() < began + 2 * LEASE_MS / 1000:
            check(canary.lives(), "its lease is kept alive")
            time.sleep(LEASE_MS / 1000 / 6)
        check_equal(holder.ask("valid"), "1", "valid while it stands still")
        leader.thaw()
        is_proven = canary.dies() or is_mended(leader)
        check_equal(holder.ask("valid"), "1", "valid when it goes on")
        check_pending(waiter, "who waits")
        holder.release()
        check(waiter.do("wait -1").fence > first, "fences rise")
        waiter.release()
        wait_until(here.store.serving, "all serve")
        here.look().delete("canary")
        check_nothing(here, holder, waiter)
        return is_proven


@case
def a_leader_that_goes_on_ends_leases_but_none_that_ours_live_by(world):
    """One that stood still for longer than a lease has leases ended that were kept alive at its
    successor, unless it hears of that one first."""
    check(any(go_on_after_a_lease(world) for _ in range(ROUNDS_MAX)), "the canary died")


@case
def who_is_at_a_leader_that_stands_still_goes_to_another(world):
    with three(world, 2, through=True) as (here, holder, other):
        leader = here.store.leader()
        here.open_at(holder, here.servers.index(leader))
        holder.acquire("n", lease_ms=9000)
        leader.freeze()
        other.open(here.url(), connect_ms=60000)
        other.acquire("n", "EBUSY", wait_ms=0)
        for _ in range(3):
            time.sleep(4)
            check_equal(holder.ask("valid"), "1", "valid beyond the lease")
        other.acquire("n", "EBUSY", wait_ms=0)
        holder.release()
        leader.thaw()
        wait_until(here.store.serving, "all serve")
        check_nothing(here, holder, other)


@case
def without_a_quorum_for_longer_than_a_lease_nobody_believes_and_all_goes_on(world):
    with three(world, 3) as (here, holder, waiter, other):
        here.open(holder, waiter, other)
        first = holder.acquire("n", lease_ms=LEASE_MS).fence
        here.stand(waiter)
        for server in here.servers[:2]:
            server.kill()
        holder.ask("hold")
        answer = Answer(other.ask("acquire 30000 1000 other"))
        check(answer.status in ("EUNREACHABLE", "EUNKNOWN", "ETIMEDOUT"), f"{answer}")
        here.store.start()
        began = time.monotonic()
        other.acquire("other", wait_ms=60000)
        spent_s = time.monotonic() - began
        check(spent_s < RESUMES_S, f"service came back after {spent_s} s")
        other.release()
        answer = Answer(holder.ask("release"))
        check_equal(answer.status, "ELOST", f"{answer}")
        check(waiter.do("wait -1").fence > first, "fences rise")
        waiter.release()
        check_nothing(here, holder, waiter, other)


@case
def without_a_quorum_for_less_than_a_lease_the_holder_goes_on(world):
    with three(world, 2) as (here, holder, waiter):
        here.open(holder, waiter)
        holder.acquire("n", lease_ms=LONG_MS)
        here.stand(waiter)
        for server in here.servers[:2]:
            server.kill()
        time.sleep(2)
        here.store.start()
        check_equal(holder.ask("valid"), "1", "valid")
        check_pending(waiter, "who waits")
        holder.release()
        waiter.do("wait -1")
        waiter.release()
        check_nothing(here, holder, waiter)


class Net:
    """What the three say to each other; one of them can be cut off, and goes on listening to its
    clients."""

    def __init__(self, world):
        self.program = os.path.join(os.path.dirname(world.command), "test", "proxy", "proxy")
        self.ways = []

    def between(self, to, port):
        assert to == len(self.ways)
        self.ways.append(Proxy(self.program, port, speech=None))
        return self.ways[to].port

    def cut_off(self, here, server):
        """Whoever comes to it, and it itself wherever it comes, is reset."""
        number, member = here.servers.index(server), server.member()
        for to, way in enumerate(self.ways):
            way.tell("ban " + ("X-Server-From: " if to == number else f"X-Server-From: {member}"))
            way.tell("cut")

    def mend(self):
        for way in self.ways:
            way.tell("pass")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for way in self.ways:
            way.close()


@contextlib.contextmanager
def divided(world, clients, **options):
    with Net(world) as net, three(world, clients, through=True, between=net.between,
                                  **options) as all_here:
        yield [net] + all_here


@case
def a_leader_that_is_cut_off_keeps_nobody_valid(world):
    """It answers its clients until it notices, and takes itself for the leader."""
    with divided(world, 2) as (net, here, holder, waiter):
        leader = here.store.leader()
        others = [f"127.0.0.1:{server.port}" for server in here.servers if server is not leader]
        holder.open(here.store.url(at=[f"127.0.0.1:{leader.port}"]))
        waiter.open(here.store.url(at=others))
        first = holder.acquire("n", lease_ms=LEASE_MS).fence
        here.stand(waiter)
        net.cut_off(here, leader)
        check(check_order(holder, waiter) > first, "fences rise")
        net.mend()
        wait_until(here.store.serving, "all serve")
        holder.release("ELOST")
        check_equal(waiter.ask("valid"), "1", "valid after the late release")
        waiter.release()
        check_nothing(here, holder, waiter)


@case
def a_follower_that_is_cut_off_keeps_nobody_valid(world):
    with divided(world, 2) as (net, here, holder, waiter):
        follower = here.store.followers()[0]
        others = [f"127.0.0.1:{server.port}" for server in here.servers if server is not follower]
        holder.open(here.store.url(at=[f"127.0.0.1:{follower.port}"]))
        waiter.open(here.store.url(at=others))
        first = holder.acquire("n", lease_ms=LEASE_MS).fence
        here.stand(waiter)
        net.cut_off(here, follower)
        check(check_order(holder, waiter) > first, "fences rise")
        net.mend()
        wait_until(here.store.serving, "all serve")
        holder.release("ELOST")
        waiter.release()
        check_nothing(here, holder, waiter)


@case
def who_is_at_a_member_that_is_cut_off_goes_to_another(world):
    for which in ("leader", "follower"):
        with divided(world, 2) as (net, here, holder, waiter):
            member = (here.store.leader() if which == "leader" else here.store.followers()[0])
            for client in (holder, waiter):
                here.open_at(client, here.servers.index(member))
            first = holder.acquire("n", lease_ms=9000).fence
            here.stand(waiter)
            net.cut_off(here, member)
            for _ in range(3):
                time.sleep(4)
                check_equal(holder.ask("valid"), "1", f"valid beyond the lease, {which}")
            holder.release()
            check(waiter.do("wait -1").fence > first, "fences rise")
            waiter.release()
            net.mend()
            wait_until(here.store.serving, "all serve")
            check_nothing(here, holder, waiter)


@case
def members_that_are_down_are_passed_over(world):
    with three(world, 6) as (here, *clients):
        here.store.followers()[0].kill()
        here.store.leader()
        for client in clients:
            client.open(here.url())
            client.acquire("n", wait_ms=20000)
            client.release()
        check_equal(line(here), [], "the line")


@case
def members_are_killed_one_after_the_other_while_many_want_the_lock(world):
    with three(world, 4) as (here, *clients):
        for client in clients:
            client.open(here.url(), connect_ms=60000)
        last, waiting = 0, list(clients)
        for client in clients:
            client.do("start 30000 -1 n")
        for number in range(9):
            client = wait_until(lambda: next(
                (c for c in waiting if Answer(c.ask("wait 20")).status == "OK"), None), "a grant")
            fence = line(here)[0].revision * 256
            check(fence > last, "fences rise")
            last = fence
            if number % 3 == 0:
                server = here.servers[number // 3]
                server.kill()
                here.store.leader()
                server.start()
            check_equal(client.ask("valid"), "1", "valid")
            client.release()
            client.do("cancel")
            client.do("start 30000 -1 n")
        for client in clients:
            client.do("close")
        wait_line(here, 0)
