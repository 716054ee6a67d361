"""Who is next, when many wait in several processes, and some of them die or change their mind?"""

import random

from client import EXCLUSIVE, SHARED
from crowd import check_order
from harness import case, check, check_equal, wait_until
from setting import LONG_MS, check_nothing, setting

# As a hand-over leaves it: the holder's place, in which it had waited, is still there.
LAG = ("INSERT INTO hf_place SELECT name, token, front, 0, false, false, ends_us, lease_us,"
       " grace_us, since_us, bell, tag, NULL, account, who FROM hf_lock;"
       "UPDATE hf_lock SET lagging = true")
WAITING = "SELECT count(*) FROM hf_place WHERE fence = 0"
# Of an heir that is noted: it is in line, as it was noted, nobody is before it, and it shares with
# nobody.
FALSE_HEIRS = """
    SELECT l.heir_ticket, l.front FROM hf_lock AS l LEFT JOIN hf_place AS p
        ON p.name = l.name AND p.token = l.heir AND p.fence = 0 AND NOT p.shared
            AND p.ticket = l.heir_ticket AND p.ends_us = l.heir_ends_us
            AND p.lease_us = l.heir_lease_us AND p.grace_us = l.heir_grace_us
            AND p.bell = l.heir_bell AND p.tag = l.heir_tag AND p.account = l.heir_account
            AND p.who = l.heir_who
    WHERE l.heir_ends_us > 0 AND NOT l.lagging AND (p.name IS NULL OR EXISTS (
        SELECT 1 FROM hf_place AS q WHERE q.name = l.name AND q.fence = 0
            AND q.ticket > l.front AND q.ticket < p.ticket))"""
MISCOUNTED = """
    SELECT l.places, l.lagging FROM hf_lock AS l WHERE l.places + l.lagging
        <> (SELECT count(*) FROM hf_place AS p WHERE p.name = l.name)"""
STEPS, WALKERS, SHORT_MS, LONGER_MS = 600, 5, 400, 1500


@case
def fifty_waiters_of_ten_processes_are_served_in_order_though_one_is_killed(world):
    with setting(world) as (here, holder):
        here.open(holder, recipe="queue")
        check_order(world, holder, here.store.url(recipe="queue"))


@case
def the_first_who_leaves_is_followed_by_the_second(world):
    with setting(world, 4) as (here, holder, second, third, fourth):
        here.open(holder, second, third, fourth)
        fences = [holder.acquire("n").fence]
        here.stand(second, 1)
        here.stand(third, 2)
        here.stand(fourth, 3)
        second.do("cancel")
        holder.release()
        for client in (third, fourth):
            fences.append(client.do("wait -1").fence)
            client.release()
        check_equal(fences, sorted(set(fences)), "fences in order")
        check_nothing(here, holder, second, third, fourth)


@case
def a_place_that_lags_is_nobodys(world):
    """It is not listed, and is removed by whatever is done next to the lock."""
    with setting(world, 2) as (here, holder, other):
        here.open(holder, other)
        for step in (lambda: holder.do(f"extend {LONG_MS}"),
                     lambda: other.acquire("n", "EBUSY", wait_ms=0),
                     lambda: holder.do("downgrade"), holder.release):
            if holder.ask("valid") != "1":
                holder.acquire("n")
            here.store.sql(LAG)
            check_equal(holder.do("list *").text, "1", "entries of the list")
            step()
            check_equal(here.store.sql(WAITING), [("0",)], "places of waiters")
            check_equal(here.store.sql("SELECT lagging FROM hf_lock"), [("0",)], "it lags")
        check_nothing(here, holder, other)


@case
def a_holder_whose_place_lags_is_broken_or_passed_by_like_any(world):
    with setting(world, 2) as (here, holder, other):
        here.open(holder, other)
        fence = holder.acquire("n").fence
        here.store.sql(LAG)
        other.do(f"break {fence} n")
        check(other.acquire("n").fence > fence, "fences rise")
        other.release()
        holder.release("ELOST")
        check_equal(here.store.sql(WAITING), [("0",)], "places of waiters")


def step_at_random(chance, client, others, name="n"):
    """What it may do next, of which some is in vain: its lease may be short."""
    does = getattr(client, "does", "nothing")
    if does == "nothing":
        client.do(f"mode {chance.choice([EXCLUSIVE, EXCLUSIVE, SHARED])}")
        client.do(f"start {chance.choice([SHORT_MS, LONGER_MS])} -1 {name}")
        client.does = "waits"
    elif does == "waits" and chance.random() < 0.15:
        client.do("cancel")
        client.does = "nothing"
    elif does == "waits":
        answer = client.ask("wait 0")
        if answer.startswith("0 "):
            client.does, client.fence = "holds", answer.split()[1]
    else:
        kind = chance.choice(["release", "release", "extend", "downgrade", "break"])
        if kind == "break":
            chance.choice(others).ask(f"break {client.fence} {name}")
        elif kind != "release":
            client.ask(f"extend {LONGER_MS}" if kind == "extend" else kind)
        if kind in ("release", "break"):
            client.ask("release")
            client.do("cancel")
            client.does = "nothing"


def replace(here, clients, client):
    """It dies as it stands, and another comes."""
    client.process.kill()
    clients.remove(client)
    clients.append(here.client())
    here.open(clients[-1])


@case
def the_heir_that_is_noted_is_the_first_in_line(world):
    """Whatever readers and writers do before it was its turn."""
    with setting(world, WALKERS) as (here, *clients):
        here.open(*clients)
        chance = random.Random(7)
        for step in range(STEPS):
            client = chance.choice(clients)
            if chance.random() < 0.01:
                replace(here, clients, client)
            else:
                step_at_random(chance, client, [other for other in clients if other is not client])
            check_equal(here.store.sql(FALSE_HEIRS), [], f"heirs that are none, after step {step}")
            check_equal(here.store.sql(MISCOUNTED), [], f"miscounted, after step {step}")
        for client in clients:
            client.do("close")
        wait_until(lambda: not here.living(), "nobody is left")
