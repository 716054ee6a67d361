"""What becomes of who holds and who waits when a session ends, servers restart, clients stop."""

import os
import re
import signal
import socket

import tree
from client import Answer, check_run
from harness import LIMIT_S, case, check, check_equal, wait_until
from proxy import Proxy
from setting import (LEASE_MS, RECIPES, check_empty, line, now_ns, owner_of, path_of, setting,
                     three, wait_line)



@case
def a_session_is_as_long_as_the_lease_if_the_server_agrees(world):
    for asked_ms, sessions, wanted_ms in ((3000, (1000, 60000), 3000), (500, (1000, 9000), 1000),
                                          (30000, (1000, 9000), 9000)):
        with setting(world, sessions=sessions) as (here, client):
            here.open(client, here.url(), asked_ms)
            check_equal(list(tree.connections(here.store).values()), [wanted_ms], "the session")
            client.acquire("n", lease_ms=60000)
            remaining_ms = int(client.ask("remaining"))
            check(wanted_ms // 2 < remaining_ms < wanted_ms,
                  f"{remaining_ms} ms are left of a session of {wanted_ms} ms")
            client.release()


@case
def a_command_runs_though_sessions_are_shorter_than_its_lease(world):
    with setting(world, 0, sessions=(1000, 4000)) as (here,):
        for recipe in RECIPES:
            check_run(world, 0, [], here.url(recipe=recipe), name=recipe,
                      command=("sleep", "6"))


@case
def who_closes_leaves_nothing_and_no_session(world):
    for recipe in RECIPES:
        with setting(world, 2) as (here, holder, waiter):
            here.open(holder, here.url(recipe=recipe))
            here.open(waiter, here.url(recipe=recipe))
            holder.acquire("n")
            here.stand(waiter)
            waiter.do("close")
            holder.do("close")
            check_empty(here)
            wait_until(lambda: not tree.connections(here.store), "the end of the sessions")


@case
def a_killed_holder_is_followed_when_its_session_ends(world):
    for recipe in RECIPES:
        with setting(world, 2) as (here, holder, waiter):
            here.open(holder, here.url(recipe=recipe), LEASE_MS)
            here.open(waiter, here.url(recipe=recipe), LEASE_MS)
            first = holder.acquire("n").fence
            here.stand(waiter)
            holder.process.kill()
            check(waiter.do("wait -1").fence > first, "fences rise")
            waiter.release()
            check_empty(here)


@case
def a_holder_whose_session_was_ended_is_told(world):
    for recipe in RECIPES:
        with setting(world, 2) as (here, holder, waiter):
            session_id = here.open(holder, here.url(recipe=recipe))
            here.open(waiter, here.url(recipe=recipe))
            first = holder.acquire("n").fence
            here.stand(waiter)
            tree.expire(here.store, session_id)
            wait_until(lambda: holder.ask("event").startswith("lost"), "the loss")
            check_equal(holder.ask("valid"), "0", "valid after the loss")
            holder.release("ELOST")
            second = waiter.do("wait -1").fence
            check(second > first, "fences rise")
            waiter.release()
            check(holder.acquire("n").fence > second, "with a new session it goes on")
            check(session_id not in tree.connections(here.store), "another session")
            holder.release()
            check_empty(here)


@case
def a_waiter_whose_session_was_ended_waits_again_at_the_end(world):
    with setting(world, 3) as (here, holder, second, third):
        here.open(holder, here.url())
        holder.acquire("n")
        for client in (second, third):
            here.open(client, here.url())
            here.stand(client)
        session_id = here.sessions[second]
        tree.expire(here.store, session_id)
        look = here.look()
        wait_until(lambda: len(line(look)) == 3 and session_id not in
                   [owner_of(look, child) for child in line(look)], "it stands in line again")
        holder.release()
        third.do("wait -1")
        check_equal(Answer(second.ask("wait 0")).status, "PENDING", "who came again")
        third.release()
        second.do("wait -1")
        second.release()
        check_empty(here)


@case
def who_is_cut_off_knows_before_the_next_comes(world):
    for recipe in RECIPES:
        with setting(world, 2, through=True) as (here, holder, waiter):
            here.open(holder, here.url(recipe=recipe), LEASE_MS)
            here.open(waiter, here.url(through=False, recipe=recipe), LEASE_MS)
            holder.acquire("n")
            here.stand(waiter)
            here.proxy.tell("stop")
            holder.send("hold")
            waiter.do("wait -1")
            granted_ns = now_ns()
            seen_ns = int(holder.hear())
            check(0 < seen_ns < granted_ns, f"{recipe}: valid {seen_ns - granted_ns} ns too long")
            check_equal(waiter.ask("valid"), "1", "the next one's grant")
            here.proxy.tell("go")
            holder.release("ELOST")
            check_equal(waiter.ask("valid"), "1", "the next one's grant after the late release")
            waiter.release()
            check_empty(here)


@case
def who_is_cut_off_for_less_than_a_session_goes_on(world):
    for recipe in RECIPES:
        with setting(world, 2, through=True) as (here, holder, waiter):
            for client in (holder, waiter):
                here.open(client, here.url(recipe=recipe))
            first = holder.acquire("n").fence
            here.stand(waiter)
            sessions = set(tree.connections(here.store))
            for _ in range(5):
                here.proxy.tell("cut")
                wait_until(lambda: set(tree.connections(here.store)) == sessions, "both are back")
                check_equal(holder.ask("valid"), "1", "valid")
            check_equal(Answer(waiter.ask("wait 0")).status, "PENDING", "who waits")
            holder.release()
            check(waiter.do("wait -1").fence > first, "fences rise")
            waiter.release()
            check_empty(here)


@case
def at_risk_is_told_while_nobody_answers_and_safe_when_they_do_again(world):
    with setting(world, 1, through=True) as (here, holder):
        here.open(holder, here.url())
        holder.acquire("n")
        here.proxy.tell("cut")
        here.store.freeze()
        holder.event("at-risk")
        check_equal(holder.ask("valid"), "1", "valid in the meantime")
        here.store.thaw()
        holder.event("safe")
        holder.release()


@case
def a_holder_stopped_beyond_its_session_knows_at_its_first_look(world):
    for recipe in RECIPES:
        with setting(world, 2) as (here, holder, waiter):
            here.open(holder, here.url(recipe=recipe), LEASE_MS)
            here.open(waiter, here.url(recipe=recipe), LEASE_MS)
            holder.acquire("n")
            os.kill(holder.process.pid, signal.SIGSTOP)
            waiter.acquire("n")
            holder.send("valid")
            os.kill(holder.process.pid, signal.SIGCONT)
            check_equal(holder.hear(), "0", "valid after the pause")
            holder.release("ELOST")
            check_equal(waiter.ask("valid"), "1", "the next one's grant")
            waiter.release()


@case
def a_restart_of_the_server_costs_nobody_the_lock(world):
    for recipe in RECIPES:
        with setting(world, 2) as (here, holder, waiter):
            for client in (holder, waiter):
                here.open(client, here.url(recipe=recipe))
            first = holder.acquire("n").fence
            here.stand(waiter)
            for _ in range(2):
                here.store.kill()
                here.store.start()
                wait_until(lambda: len(tree.connections(here.store)) == 2, "both are back")
                check_equal(holder.ask("valid"), "1", "valid after the restart")
            check_equal(Answer(waiter.ask("wait 0")).status, "PENDING", "who waits")
            holder.release()
            check(waiter.do("wait -1").fence > first, "fences rise")
            waiter.release()
            check_empty(here)


def silent_server(port):
    """Somebody came to a server that was just starting: it never answers (ZooKeeper 3.8 does so).
    Returns the connection."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        wait_until(lambda: listener.bind(("127.0.0.1", port)) is None, "the port")
        listener.listen()
        listener.settimeout(LIMIT_S)
        return listener.accept()[0]


@case
def who_came_too_early_to_a_server_comes_again_in_time(world):
    for recipe in RECIPES:
        with setting(world, 1) as (here, holder):
            here.open(holder, here.url(recipe=recipe), 4 * LEASE_MS)
            holder.acquire("n")
            here.store.kill()
            with silent_server(here.store.port):
                here.store.start()
                holder.event("at-risk")
                holder.event("safe")
            check_equal(holder.ask("valid"), "1", "valid")
            holder.release()


@case
def a_restart_that_lasts_longer_than_a_session_ends_it_for_the_holder(world):
    for recipe in RECIPES:
        with setting(world, 2) as (here, holder, waiter):
            for client in (holder, waiter):
                here.open(client, here.url(recipe=recipe), LEASE_MS)
            holder.acquire("n")
            here.stand(waiter)
            here.store.kill()
            holder.ask("hold")
            here.store.start()
            waiter.do("wait -1")
            holder.release("ELOST")
            check_equal(waiter.ask("valid"), "1", "the next one's grant")
            waiter.release()
            check_empty(here)


@case
def fences_rise_whatever_was_deleted_and_restarted(world):
    for recipe in RECIPES:
        with setting(world, 1) as (here, client):
            here.open(client, here.url(recipe=recipe), connect_ms=60000)
            last = 0
            for _ in range(3):
                fence = client.acquire("n", wait_ms=20000).fence
                check(fence > last, f"{fence} after {last}")
                last = fence
                client.release()
                here.look().remove("/holdfast")
                here.store.kill()
                here.store.start()


@case
def a_follower_that_dies_after_a_beat_costs_the_holder_its_time(world):
    """The leader hears who lives only when it asks its followers, every half tick. Of this one it
    never does: it lets the session end as if the one before had been the last. The client, which
    reaches nobody else, must not believe longer than that, though it had an answer."""
    with three(world, 1, through=True) as (here, holder):
        follower = here.store.followers()[0]
        number = here.servers.index(follower)
        at = here.proxies[number]
        others = [proxy for proxy in here.proxies if proxy is not at]
        here.open(holder, here.url(), 2 * LEASE_MS)
        while not tree.connections(follower):  # they choose by chance
            holder.do("close")
            here.open(holder, here.url(), 2 * LEASE_MS)
        holder.acquire("n")
        look = here.look(here.store.leader())
        child, = wait_line(look, 1)
        look.stat(path_of("n", child), watch=True)
        for proxy in others:
            proxy.tell("stop")
        before = at.stat()
        wait_until(lambda: at.stat()["syncs"] > before["syncs"] and
                   at.stat()["down"] > before["down"], "the answer to a beat")
        follower.kill()
        holder.send("hold")
        check_equal(look.wait_event(), ("deleted", path_of("n", child)), "what the leader tells")
        gone_ns = now_ns()
        seen_ns = int(holder.hear())
        check(0 < seen_ns < gone_ns, f"valid {seen_ns - gone_ns} ns after its node was gone")


class Lag:
    """Three servers, one of which is told everything late."""

    def __init__(self, world):
        self.program = os.path.join(os.path.dirname(world.command), "test", "proxy", "proxy")
        self.ways = {}  # (of, to): whoever follows `to` goes there

    def between(self, of, to, port):
        self.ways[of, to] = Proxy(self.program, port, speech=None)
        return self.ways[of, to].port

    def begin(self, here):
        """Returns the leader, and the follower that lags from now on."""
        leader, follower = here.store.leader(), here.store.followers()[0]
        self.way = self.ways[here.servers.index(follower), here.servers.index(leader)]
        return leader, follower

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for way in self.ways.values():
            way.close()


@case
def a_new_session_on_a_server_that_lags_behind_takes_no_old_node_for_its_own(world):
    with Lag(world) as lag, three(world, 2, between=lag.between) as (here, client, other):
        leader, follower = lag.begin(here)
        session_id = here.open(client, here.store.url(at=[f"127.0.0.1:{follower.port}"]))
        first = client.acquire("n").fence
        look, behind = here.look(leader), here.look(follower)
        old, = wait_line(look, 1)
        lag.way.tell("delay 800")
        tree.expire(leader, session_id)
        check_equal(owner_of(look, old), None, "the node, at the leader")
        check_equal(owner_of(behind, old), session_id, "the node, at the follower")
        wait_until(lambda: client.ask("event").startswith("lost"), "the loss")
        client.release("ELOST")
        fence = client.acquire("n", wait_ms=20000).fence
        lag.way.tell("pass")
        new, = wait_line(look, 1)
        check(fence > first and new != old, "a node and a fence of its own")
        check(owner_of(look, new) != session_id, "it is of another session")
        here.open(other, here.url())
        other.acquire("n", "EBUSY", wait_ms=0)
        client.release()
        check_empty(here)


@case
def a_break_through_a_server_that_lags_behind_finds_who_holds(world):
    for recipe in RECIPES:
        with Lag(world) as lag, three(world, 2, between=lag.between) as (here, holder, breaker):
            leader, follower = lag.begin(here)
            here.open(holder, here.store.url(at=[f"127.0.0.1:{leader.port}"], recipe=recipe))
            here.open(breaker, here.store.url(at=[f"127.0.0.1:{follower.port}"], recipe=recipe))
            lag.way.tell("delay 500")
            fence = holder.acquire("n").fence
            breaker.do(f"break {fence} n")
            wait_until(lambda: holder.ask("event").startswith("lost"), "the loss")
            lag.way.tell("pass")
            holder.release("ELOST")
            check_empty(here)


def zxid_of(server):
    """Of the last transaction."""
    return int(re.search(r"^Zxid: (\w+)$", server.ask("srvr"), re.M).group(1), 16)


@case
def a_break_looks_behind_a_transaction(world):
    """A leader lets its followers commit before it does so itself, and answers a sync without
    waiting for that: it would say that a turn is over which one of them has just granted."""
    for recipe in RECIPES:
        with setting(world, 2) as (here, holder, breaker):
            here.open(holder, here.url(recipe=recipe))
            here.open(breaker, here.url(recipe=recipe))
            fence = holder.acquire("n").fence
            before = zxid_of(here.store)
            check_equal(Answer(breaker.ask(f"break {fence + 256} n")).status, "ELOST", "another")
            check_equal(zxid_of(here.store), before + 1, f"{recipe}: transactions of a look")
            breaker.do(f"break {fence} n")
            check_equal(zxid_of(here.store), before + 3, f"{recipe}: and of a break")
            wait_until(lambda: holder.ask("event").startswith("lost"), "the loss")
            holder.release("ELOST")
            check_empty(here)


@case
def a_follower_that_is_cut_off_from_its_leader_keeps_nobody_valid(world):
    """It answers pings and questions by itself until it notices, after syncLimit ticks. The leader,
    which has the other one, lets the session end meanwhile: its node is gone."""
    config = {"syncLimit": 60}
    with Lag(world) as lag, three(world, 1, between=lag.between, config=config) as (here, holder):
        leader, follower = lag.begin(here)
        here.open(holder, here.store.url(at=[f"127.0.0.1:{follower.port}"]), 2 * LEASE_MS)
        holder.acquire("n")
        look = here.look(leader)
        child, = wait_line(look, 1)
        look.stat(path_of("n", child), watch=True)
        lag.way.tell("stop")
        holder.send("hold")
        check_equal(look.wait_event(), ("deleted", path_of("n", child)), "what the leader tells")
        gone_ns = now_ns()
        seen_ns = int(holder.hear())
        check(0 < seen_ns < gone_ns, f"valid {seen_ns - gone_ns} ns after its node was gone")
