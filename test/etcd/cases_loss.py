"""What the network loses: answers, requests, events, at any byte."""

import random
import time

from client import Answer
from harness import case, check, check_equal, wait_until
from setting import (LEASE_MS, LONG_MS, ROOT, check_empty, check_nothing, check_pending, line,
                     setting, wait_line)

CUTS = 100
CUT_BYTES = 4000  # more than two connections, a claim and a release have
NOT_KNOWN = ("EBUSY", "ETIMEDOUT", "EUNREACHABLE", "EUNKNOWN")
KEY = ROOT + "n/w"  # of every claim


@case
def a_claim_whose_answer_was_lost_is_found_again(world):
    with setting(world, 2, through=True) as (here, client, other):
        here.open(client)
        here.open(other, through=False)
        client.acquire("n")
        client.release()
        for _ in range(5):
            lost = here.proxy.stat()["lost"]
            here.proxy.tell("on lose " + KEY)
            fence = client.acquire("n", wait_ms=LONG_MS).fence
            check(here.proxy.stat()["lost"] > lost, "an answer was lost")
            key, = line(here)
            check_equal(key.revision * 256, fence, "the fence")
            client.release()
            check_empty(here)
        other.acquire("n", wait_ms=0)
        check_nothing(here, client, other)


@case
def a_claim_whose_answer_was_lost_is_removed_when_it_is_given_up(world):
    with setting(world, 2, through=True) as (here, client, other):
        here.open(client)
        here.open(other, through=False)
        client.acquire("n")
        client.release()
        for _ in range(5):
            here.proxy.tell("lose")
            answer = Answer(client.ask("acquire 30000 300 n"))
            check(answer.status in ("EUNKNOWN", "EUNREACHABLE"), f"{answer}")
            here.proxy.tell("pass")
            check_empty(here, "the key of a claim that was given up")
        other.acquire("n", wait_ms=0)
        check_nothing(here, client, other)


@case
def a_claim_that_is_cancelled_before_its_answer_comes_leaves_nothing(world):
    with setting(world, 1, through=True) as (here, client):
        here.open(client)
        client.acquire("n")
        client.release()
        for order in ("hold", "lose", "delay 200"):
            here.proxy.tell(order)
            client.do("start 30000 -1 n")
            client.do("cancel")
            here.proxy.tell("pass")
            client.acquire("other", wait_ms=LONG_MS)  # what was cancelled had its say before
            client.release()
            check_empty(here, f"the key of a claim that was cancelled, {order}")
        check_nothing(here, client)


@case
def a_claim_that_comes_when_it_was_given_up_makes_no_key(world):
    """Its connection is dead and its sender has left; but the network had kept it."""
    with setting(world, 2, through=True) as (here, client, other):
        here.open(client)
        here.open(other, through=False)
        client.acquire("n", lease_ms=60000)
        client.release()
        for _ in range(3):
            fates = here.proxy.stat()["fates"]
            here.proxy.tell("on hold " + KEY)
            answer = Answer(client.ask("acquire 60000 500 n"))
            check(answer.status in ("EUNKNOWN", "EUNREACHABLE", "ETIMEDOUT"), f"{answer}")
            check_equal(here.proxy.stat()["fates"], fates + 1, "claims that were kept")
            client.acquire("other", lease_ms=60000, wait_ms=LONG_MS)
            client.release()
            check_empty(here, "before the late claim")
            revision = here.store.revision()
            here.proxy.tell("pass")  # now it comes
            time.sleep(0.3)
            check_equal(line(here), [], f"the line after the late claim ({revision})")
            other.acquire("n", wait_ms=0)
            other.release()
        client.acquire("n", lease_ms=60000, wait_ms=0)
        client.release()
        check_nothing(here, client, other)


def come_when_the_next_was_given_back(world, between):
    """The network had kept the first try; the second had the turn, which is over."""
    with setting(world, 2, through=True) as (here, client, other):
        here.open(client)
        here.open(other, through=False)
        client.acquire("n", lease_ms=60000)
        client.release()
        for _ in range(3):
            fates = here.proxy.stat()["fates"]
            here.proxy.tell("on hold " + KEY)
            client.acquire("n", lease_ms=60000, wait_ms=LONG_MS)
            check_equal(here.proxy.stat()["fates"], fates + 1, "claims that were kept")
            between(client)
            client.release()
            check_empty(here, "before the late claim")
            here.proxy.tell("pass")  # now it comes
            time.sleep(0.3)
            check_equal(line(here), [], "the line after the late claim")
            other.acquire("n", wait_ms=0)
            other.release()
        check_nothing(here, client, other)


@case
def a_claim_that_comes_when_the_next_one_was_given_back_makes_no_key(world):
    come_when_the_next_was_given_back(world, lambda client: None)


@case
def a_claim_that_comes_when_the_next_one_was_moved_and_given_back_makes_no_key(world):
    """It names the lease that the turn had before it was extended by another."""
    come_when_the_next_was_given_back(world, lambda client: client.do("extend 90000"))


@case
def a_release_whose_answer_was_lost_frees_the_lock_and_only_once(world):
    with setting(world, 2, through=True) as (here, client, other):
        here.open(client)
        here.open(other, through=False)
        last = 0
        for _ in range(5):
            fence = client.acquire("n", wait_ms=LONG_MS).fence
            check(fence > last, "fences rise")
            here.proxy.tell("on lose " + KEY)
            answer = Answer(client.ask("release"))
            check(answer.status in ("OK", "EUNKNOWN"), f"{answer}")
            last = other.acquire("n", wait_ms=LONG_MS).fence
            check(last > fence, "fences rise")
            client.acquire("other", wait_ms=LONG_MS)  # what there was to repeat was repeated
            client.release()
            check_equal((other.ask("valid"), len(line(here))), ("1", 1), "the next one's turn")
            other.release()
            here.proxy.tell("pass")
        check_nothing(here, client, other)


@case
def the_same_client_locks_again_though_its_release_was_not_answered(world):
    """What is repeated of the old release must not end the new turn."""
    with setting(world, 2, through=True) as (here, client, other):
        here.open(client)
        here.open(other, through=False)
        for _ in range(5):
            first = client.acquire("n", wait_ms=LONG_MS).fence
            here.proxy.tell("on lose " + KEY)
            answer = Answer(client.ask("release"))
            check(answer.status in ("OK", "EUNKNOWN"), f"{answer}")
            second = client.acquire("n", wait_ms=LONG_MS).fence
            check(second > first, "fences rise")
            here.proxy.tell("cut")
            wait_until(lambda: Answer(client.ask("list *")).status == "OK", "it is back")
            check_equal(client.ask("valid"), "1", "the new turn")
            key, = line(here)
            check_equal(key.revision * 256, second, "the key")
            other.acquire("n", "EBUSY", wait_ms=0)
            client.release()
        check_nothing(here, client, other)


@case
def an_event_that_was_lost_with_its_connection_is_made_up_for(world):
    with setting(world, 2, through=True) as (here, holder, waiter):
        here.open(holder, through=False)
        here.open(waiter)
        for _ in range(3):
            holder.acquire("n")
            here.stand(waiter)
            events = here.proxy.stat()["events"]
            here.proxy.tell("delay 60000")
            holder.release()
            wait_until(lambda: here.proxy.stat()["events"] > events, "the event")
            check_pending(waiter, "who heard nothing")
            here.proxy.tell("cut")
            here.proxy.tell("pass")
            waiter.do("wait -1")
            waiter.release()
        check_nothing(here, holder, waiter)


@case
def who_hears_no_event_looks_by_itself(world):
    with setting(world, 2, through=True) as (here, holder, waiter):
        here.open(holder, through=False)
        here.open(waiter)
        holder.acquire("n")
        here.stand(waiter, lease_ms=LEASE_MS)
        here.proxy.tell("deaf")
        holder.release()
        waiter.do("wait -1")
        check(here.proxy.stat()["dropped"] > 0, "an event was left out")
        here.proxy.tell("pass")
        waiter.release()
        check_nothing(here, holder, waiter)


@case
def an_event_may_come_before_the_answer_that_it_belongs_to(world):
    """The watch has a connection of its own: the one ahead may be told to have left before the
    claim behind it knows whom it waits for."""
    with setting(world, 2, through=True) as (here, holder, waiter):
        here.open(holder, through=False)
        here.open(waiter)
        here.proxy.tell("delay 0 40")
        for number in range(30):
            holder.acquire("n")
            waiter.do("start 30000 -1 n")
            time.sleep(number * 0.002)
            holder.release()
            waiter.do("wait -1")
            waiter.release()
        here.proxy.tell("pass")
        check_nothing(here, holder, waiter)


@case
def requests_that_come_late_take_nothing_that_lasts(world):
    """They arrive when whoever sent them is dead: the end of the lease follows them."""
    with setting(world, 2, through=True) as (here, client, other):
        here.open(client)
        here.open(other, through=False)
        client.acquire("x", lease_ms=LEASE_MS)
        client.release()
        here.proxy.tell("hold")
        answer = Answer(client.ask(f"acquire {LEASE_MS} 300 n"))
        check(answer.status in ("EUNKNOWN", "EUNREACHABLE"), f"{answer}")
        client.process.kill()
        here.proxy.tell("pass")
        other.acquire("n", wait_ms=LONG_MS)
        other.release()
        check_nothing(here, other)


@case
def a_hundred_cuts_at_any_byte_leave_no_orphan_and_no_second_holder(world):
    dice = random.Random()
    seed = dice.randrange(1 << 32)
    dice.seed(seed)
    print(f"    seed {seed}")
    with setting(world, 2, through=True) as (here, client, other):
        here.open(client)
        here.open(other, through=False)
        granted, last = 0, 0
        while here.proxy.stat()["cuts"] < CUTS:
            here.proxy.tell(f"cut {dice.choice(('up', 'down'))} {dice.randrange(CUT_BYTES)}")
            answer = Answer(client.ask(f"acquire 30000 {dice.choice((0, 500, 20000))} n"))
            check(answer.status in ("OK",) + NOT_KNOWN, f"{answer}")
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
        other.acquire("n", wait_ms=0)
        check_nothing(here, client, other)


@case
def who_waits_and_who_holds_asks_for_hardly_anything(world):
    with setting(world, 3, through=True) as (here, *clients):
        here.open(*clients)
        clients[0].acquire("n", lease_ms=LEASE_MS)
        for client in clients[1:]:
            here.stand(client, lease_ms=LEASE_MS)
        wait_line(here, 3)
        start, began_ns = here.proxy.stat(), time.monotonic_ns()
        wait_until(lambda: here.proxy.stat()["messages"] - start["messages"] >= 24, "beats")
        spent_s = (time.monotonic_ns() - began_ns) / 1e9
        calls = here.proxy.stat()["calls"] - start["calls"]
        # Three a lease to learn that the server leads, and a look of each waiter every 2 s.
        check(calls <= 3 * (spent_s + 2) + 3, f"{calls} calls of three clients in {spent_s} s")
        check_equal(clients[0].ask("valid"), "1", "valid after several leases' time")
        clients[0].release()
        for client in clients[1:]:
            client.do("wait -1")
            client.release()


@case
def an_uncontended_turn_takes_two_calls(world):
    with setting(world, 1, through=True) as (here, client):
        here.open(client)
        client.acquire("n", lease_ms=60000)
        client.release()
        start = here.proxy.stat()["calls"]
        for _ in range(10):
            client.acquire("n", lease_ms=60000)
            client.release()
        check_equal(here.proxy.stat()["calls"] - start, 20, "calls of 10 turns")


@case
def a_release_that_comes_when_it_was_repeated_ends_no_later_turn(world):
    """Keys are used again: but not one that a release may still be on its way to."""
    with setting(world, 1, through=True) as (here, client):
        here.open(client)
        for _ in range(3):
            client.acquire("n", lease_ms=60000, wait_ms=LONG_MS)
            key, = line(here)
            fates = here.proxy.stat()["fates"]
            here.proxy.tell("on hold " + KEY)
            answer = Answer(client.ask("release"))
            check(answer.status in ("OK", "EUNKNOWN"), f"{answer}")
            check_equal(here.proxy.stat()["fates"], fates + 1, "releases that were kept")
            client.acquire("other", lease_ms=60000, wait_ms=LONG_MS)
            client.release()
            check_empty(here, "before the late release")
            client.acquire("n", lease_ms=60000, wait_ms=LONG_MS)
            again, = line(here)
            check(again.name != key.name, "the key that the late release names is another one")
            here.proxy.tell("pass")  # now it comes
            time.sleep(0.3)
            check_equal(line(here)[0].revision, again.revision, "the turn after the late release")
            check_equal(client.ask("valid"), "1", "the turn")
            client.release()
            check_empty(here)
        check_nothing(here, client)
