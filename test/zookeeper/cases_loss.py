"""What the network loses: answers, requests, events, at any byte."""

import random
import time

import tree
from client import SHARED, Answer
from harness import case, check, check_equal, wait_until
from setting import LEASE_MS, OWN, RECIPES, check_empty, line, path_of, setting

CUTS = 200
CUT_BYTES = 1500  # more than a session, a claim and a release have
NOT_KNOWN = ("EBUSY", "ETIMEDOUT", "EUNREACHABLE", "EUNKNOWN")


def tokens(look):
    """Of all our nodes in line; a claim has one."""
    return [OWN.fullmatch(child).group(3) for child in line(look)]


@case
def a_create_whose_answer_was_lost_is_found_again(world):
    for recipe in RECIPES:
        with setting(world, 2, through=True) as (here, client, other):
            look = here.look()
            here.open(client, here.url(recipe=recipe))
            client.acquire("n")
            client.release()
            for _ in range(5):
                here.proxy.tell("on lose " + path_of("n"))
                client.acquire("n", wait_ms=30000)
                check_equal(here.proxy.stat()["lost"] > 0, True, "an answer was lost")
                if recipe == "sequence":
                    check_equal(len(tokens(look)), 1, "nodes")
                client.release()
                check_empty(here)
            here.open(other, here.url(through=False, recipe=recipe))
            other.acquire("n", wait_ms=0)


@case
def a_create_that_is_answered_late_is_not_made_twice(world):
    """Later than a claim waits for: it is asked again, while the first is still on its way."""
    for recipe in RECIPES:
        with setting(world, 1, through=True) as (here, client):
            look = here.look()
            here.open(client, here.url(recipe=recipe), connect_ms=60000)
            for delay_ms in (0, 300, 800, 1500, 2500):
                here.proxy.tell(f"delay {delay_ms}")
                client.send("acquire 3000 60000 n")
                time.sleep(2 * delay_ms / 1000)
                here.proxy.tell("pass")
                check_equal(Answer(client.hear()).status, "OK", "the late answer")
                if recipe == "sequence":
                    wait_until(lambda: len(tokens(look)) == 1, "one node")
                client.release()
                check_empty(here)


@case
def a_create_whose_answer_was_lost_is_removed_when_it_is_given_up(world):
    for recipe in RECIPES:
        with setting(world, 2, through=True) as (here, client, other):
            here.open(client, here.url(recipe=recipe))
            client.acquire("n")
            client.release()
            for _ in range(5):
                here.proxy.tell("lose")
                answer = Answer(client.ask("acquire 30000 300 n"))
                check(answer.status in ("EUNKNOWN", "EUNREACHABLE"), f"{answer}")
                here.proxy.tell("pass")
                check_empty(here, "the node of a claim that was given up")
            here.open(other, here.url(through=False, recipe=recipe))
            other.acquire("n", wait_ms=0)


@case
def a_claim_that_is_cancelled_before_its_answer_comes_leaves_nothing(world):
    for recipe in RECIPES:
        with setting(world, 1, through=True) as (here, client):
            here.open(client, here.url(recipe=recipe))
            client.acquire("n")
            client.release()
            for order in ("hold", "lose", "delay 200"):
                here.proxy.tell(order)
                client.do("start 30000 -1 n")
                client.do("cancel")
                here.proxy.tell("pass")
                client.acquire("other", wait_ms=30000)  # what was cancelled had its say before
                client.release()
                check_empty(here, f"the node of a claim that was cancelled, {order}")


@case
def a_release_whose_answer_was_lost_frees_the_lock(world):
    for recipe in RECIPES:
        with setting(world, 2, through=True) as (here, client, other):
            here.open(client, here.url(recipe=recipe))
            here.open(other, here.url(through=False, recipe=recipe))
            last = 0
            for _ in range(5):
                fence = client.acquire("n", wait_ms=30000).fence
                check(fence > last, "fences rise")
                here.proxy.tell("on lose " + path_of("n"))
                answer = Answer(client.ask("release"))
                check(answer.status in ("OK", "EUNKNOWN"), f"{answer}")
                last = other.acquire("n", wait_ms=30000).fence
                check(last > fence, "fences rise")
                other.release()
                here.proxy.tell("pass")


@case
def an_event_that_was_lost_with_its_connection_is_made_up_for(world):
    for recipe in RECIPES:
        with setting(world, 2, through=True) as (here, holder, waiter):
            here.open(holder, here.url(through=False, recipe=recipe))
            here.open(waiter, here.url(recipe=recipe))
            for _ in range(3):
                holder.acquire("n")
                here.stand(waiter)
                events = here.proxy.stat()["events"]
                here.proxy.tell("delay 60000")
                holder.release()
                wait_until(lambda: here.proxy.stat()["events"] > events, "the event")
                check_equal(Answer(waiter.ask("wait 0")).status, "PENDING", "who heard nothing")
                here.proxy.tell("cut")
                here.proxy.tell("pass")
                waiter.do("wait -1")
                waiter.release()
            check_empty(here)


@case
def who_waits_is_served_though_every_event_is_lost(world):
    with setting(world, 3, through=True) as (here, holder, waiter, reader):
        here.open(holder, here.url(through=False))
        for client in (waiter, reader):
            here.open(client, here.url())
        here.proxy.tell("deaf")
        holder.acquire("n")
        here.stand(waiter)
        holder.release()
        waiter.do("wait -1")
        waiter.release()
        holder.acquire("n")
        reader.do(f"mode {SHARED}")
        here.stand(reader)
        holder.do("downgrade")
        reader.do("wait -1")
        check(here.proxy.stat()["dropped"] >= 2, "events were lost")
        reader.release()
        holder.release()
        check_empty(here)


@case
def the_one_ahead_that_goes_before_it_is_watched_is_not_waited_for(world):
    with setting(world, 2, through=True) as (here, holder, waiter):
        here.open(holder, here.url(through=False))
        here.open(waiter, here.url())
        for _ in range(3):
            holder.acquire("n")
            child, = line(here.look())
            here.proxy.tell("on hold " + child)
            waiter.do("start 30000 -1 n")
            wait_until(lambda: here.proxy.stat()["fates"] > 0, "it asks about the one ahead")
            holder.release()
            here.proxy.tell("pass")
            waiter.do("wait -1")
            waiter.release()
        check_empty(here)


@case
def requests_that_come_late_take_nothing_that_lasts(world):
    """They arrive when whoever sent them has left: the session's end follows them."""
    for recipe in RECIPES:
        with setting(world, 2, through=True) as (here, client, other):
            here.open(client, here.url(recipe=recipe), LEASE_MS)
            here.open(other, here.url(through=False, recipe=recipe))
            here.proxy.tell("hold")
            answer = Answer(client.ask("acquire 30000 300 n"))
            check(answer.status in ("EUNKNOWN", "EUNREACHABLE"), f"{answer}")
            client.process.kill()
            here.proxy.tell("pass")
            other.acquire("n", wait_ms=30000)
            other.release()
            check_empty(here)


@case
def two_hundred_cuts_at_any_byte_leave_no_orphan_and_no_second_holder(world):
    dice = random.Random()
    seed = dice.randrange(1 << 32)
    dice.seed(seed)
    print(f"    seed {seed}")
    with setting(world, 2, through=True) as (here, client, other):
        look = here.look()
        here.open(client, here.url())
        here.open(other, here.url(through=False))
        granted, last = 0, 0
        while here.proxy.stat()["cuts"] < CUTS:
            here.proxy.tell(f"cut {dice.choice(('up', 'down'))} {dice.randrange(CUT_BYTES)}")
            answer = Answer(client.ask(f"acquire 30000 {dice.choice((0, 500, 20000))} n"))
            check(answer.status in ("OK",) + NOT_KNOWN, f"{answer}")
            ours = tokens(look)
            check(len(set(ours)) == len(ours), f"one node for a claim: {ours}")
            if answer.status != "OK":
                continue
            granted += 1
            check(answer.fence > last, "fences rise")
            rival = Answer(other.ask("acquire 30000 0 n"))
            held = client.ask("valid") == "1"
            check(rival.status == "EBUSY" or not held, f"two hold it: {rival}")
            last = rival.fence if rival.status == "OK" else answer.fence
            if rival.status == "OK":
                other.release()
            answer = Answer(client.ask("release"))
            check(answer.status in ("OK", "EUNKNOWN", "ELOST"), f"{answer}")
        here.proxy.tell("pass")
        print(f"    {granted} grants, {here.proxy.stat()}")
        check(granted > CUTS // 20, f"only {granted} grants")
        check_empty(here, "orphans")
        check_equal(set(tree.connections(here.store)) >= {look.id}, True, "sessions")
        other.acquire("n", wait_ms=0)
