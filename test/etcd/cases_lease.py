"""What becomes of who holds and who waits when a lease ends, the server restarts, clients stop."""

import os
import signal
import time

from etcd import text_of
from harness import check, check_equal, case, wait_until
from setting import (LEASE_MS, ROOT, check_empty, check_nothing, check_pending, line, now_ns,
                     setting, wait_line, wait_lost)


def seconds_of(here, key):
    return int(here.store.call("lease/timetolive", ID=key.lease)["grantedTTL"])


@case
def a_lease_has_the_whole_seconds_that_a_turn_needs(world):
    with setting(world) as (here, client):
        here.open(client)
        for asked_ms, wanted_s in ((3000, 3), (2500, 3), (500, 2), (60000, 60)):
            client.acquire("n", lease_ms=asked_ms)
            key, = line(here)
            check_equal(seconds_of(here, key), wanted_s, f"the lease for {asked_ms} ms")
            left_ms = int(client.ask("remaining"))
            check(asked_ms // 2 < left_ms < asked_ms, f"{left_ms} of {asked_ms} ms are left")
            client.release()
        check_nothing(here, client)


@case
def turns_of_one_length_share_a_lease(world):
    with setting(world, 2) as (here, client, other):
        here.open(client, other)
        first = client.do(f"acquire {LEASE_MS} -1 a").fence
        for name in "bc":
            client.do(f"start {LEASE_MS} -1 {name}")
            client.do("wait -1")
        keys = [line(here, name)[0] for name in "abc"]
        check_equal(len({key.lease for key in keys}), 1, "leases of one client")
        check_equal(keys[0].revision * 256, first, "the fence")
        other.acquire("d", lease_ms=LEASE_MS)
        check(line(here, "d")[0].lease != keys[0].lease, "another client has another lease")
        check_nothing(here, other, client)


@case
def a_killed_holder_is_followed_when_its_lease_ends(world):
    with setting(world, 2) as (here, holder, waiter):
        here.open(holder, waiter)
        first = holder.acquire("n", lease_ms=LEASE_MS).fence
        here.stand(waiter)
        holder.process.kill()
        check(waiter.do("wait -1").fence > first, "fences rise")
        waiter.release()
        check_nothing(here, waiter)


@case
def a_holder_whose_lease_was_revoked_is_told(world):
    with setting(world, 2) as (here, holder, waiter):
        here.open(holder, waiter)
        first = holder.acquire("n").fence
        here.stand(waiter)
        lease = line(here)[0].lease
        here.store.revoke(lease)
        wait_lost(holder)
        check_equal(holder.ask("valid"), "0", "valid after the loss")
        holder.release("ELOST")
        second = waiter.do("wait -1").fence
        check(second > first, "fences rise")
        waiter.release()
        check(holder.acquire("n").fence > second, "with a new lease it goes on")
        check(line(here)[0].lease != lease, "another lease")
        holder.release()
        check_nothing(here, holder, waiter)


@case
def a_waiter_whose_lease_was_revoked_waits_again_at_the_end(world):
    with setting(world, 3) as (here, holder, second, third):
        here.open(holder, second, third)
        holder.acquire("n")
        here.stand(second)
        here.stand(third)
        old = line(here)[1]
        here.store.revoke(old.lease)
        wait_until(lambda: len(line(here)) == 3 and old.lease not in
                   [key.lease for key in line(here)], "it stands in line again")
        holder.release()
        third.do("wait -1")
        check_pending(second, "who came again")
        third.release()
        second.do("wait -1")
        second.release()
        check_nothing(here, holder, second, third)


@case
def a_waiter_whose_lease_died_while_nobody_heard_it_is_not_granted(world):
    """The mistake that was found in etcd's own lock: whoever waited looked at those ahead, and not
    whether it was still in line itself."""
    with setting(world, 3, through=True) as (here, holder, waiter, third):
        here.open(holder, third, through=False)
        here.open(waiter)
        holder.acquire("n")
        here.stand(waiter)
        lease = line(here)[1].lease
        here.proxy.tell("stop")
        here.store.revoke(lease)
        holder.release()
        third.acquire("n")
        here.proxy.tell("go")
        wait_line(here, 2)
        check_pending(waiter, "who was not in line any more")
        check_equal(third.ask("valid"), "1", "valid")
        third.release()
        waiter.do("wait -1")
        waiter.release()
        check_nothing(here, holder, waiter, third)


@case
def a_waiter_that_was_stopped_beyond_its_lease_is_not_granted(world):
    with setting(world, 3) as (here, holder, waiter, third):
        here.open(holder, waiter, third)
        holder.acquire("n")
        here.stand(waiter, lease_ms=LEASE_MS)
        os.kill(waiter.process.pid, signal.SIGSTOP)
        wait_line(here, 1)
        holder.release()
        third.acquire("n")
        waiter.send("wait 0")
        os.kill(waiter.process.pid, signal.SIGCONT)
        check(waiter.hear().startswith("1"), "it is pending")
        wait_line(here, 2)
        check_pending(waiter, "who came again")
        check_equal(third.ask("valid"), "1", "valid")
        third.release()
        waiter.do("wait -1")
        waiter.release()
        check_nothing(here, holder, waiter, third)


@case
def a_holder_stopped_beyond_its_lease_knows_at_its_first_look(world):
    with setting(world, 2) as (here, holder, waiter):
        here.open(holder, waiter)
        holder.acquire("n", lease_ms=LEASE_MS)
        os.kill(holder.process.pid, signal.SIGSTOP)
        waiter.acquire("n")
        holder.send("valid")
        os.kill(holder.process.pid, signal.SIGCONT)
        check_equal(holder.hear(), "0", "valid after the pause")
        holder.release("ELOST")
        check_equal(waiter.ask("valid"), "1", "the next one's grant")
        waiter.release()
        check_nothing(here, holder, waiter)


@case
def a_claimant_stopped_before_it_read_its_grant_does_not_believe_it(world):
    with setting(world, 2, through=True) as (here, client, other):
        here.open(client)
        here.open(other, through=False)
        client.acquire("x", lease_ms=LEASE_MS)
        client.release()
        here.proxy.tell("delay 300")
        client.do(f"start {LEASE_MS} -1 n")
        wait_line(here, 1)  # it is granted, and does not know it yet
        os.kill(client.process.pid, signal.SIGSTOP)
        other.acquire("n")  # when the lease has ended
        here.proxy.tell("pass")
        client.send("wait 0")
        os.kill(client.process.pid, signal.SIGCONT)
        check(client.hear().startswith("1"), "it is pending")
        check_equal(other.ask("valid"), "1", "valid")
        other.release()
        client.do("wait -1")
        client.release()
        check_nothing(here, client, other)


@case
def who_is_cut_off_knows_before_the_next_comes(world):
    with setting(world, 2, through=True) as (here, holder, waiter):
        here.open(holder)
        here.open(waiter, through=False)
        holder.acquire("n", lease_ms=LEASE_MS)
        here.stand(waiter)
        here.proxy.tell("stop")
        holder.send("hold")
        waiter.do("wait -1")
        granted_ns = now_ns()
        seen_ns = int(holder.hear())
        check(0 < seen_ns < granted_ns, f"valid {seen_ns - granted_ns} ns too long")
        here.proxy.tell("go")
        holder.release("ELOST")
        check_equal(waiter.ask("valid"), "1", "the next one's grant after the late release")
        waiter.release()
        check_nothing(here, holder, waiter)


@case
def who_is_cut_off_for_less_than_a_lease_goes_on(world):
    with setting(world, 2, through=True) as (here, holder, waiter):
        here.open(holder, waiter)
        first = holder.acquire("n").fence
        here.stand(waiter)
        for _ in range(5):
            links = here.proxy.stat()["links"]
            here.proxy.tell("cut")
            wait_until(lambda: here.proxy.stat()["links"] >= links + 4, "both are back")
            check_equal(holder.ask("valid"), "1", "valid")
        check_pending(waiter, "who waits")
        holder.release()
        check(waiter.do("wait -1").fence > first, "fences rise")
        waiter.release()
        check_nothing(here, holder, waiter)


@case
def at_risk_is_told_while_nobody_answers_and_safe_when_they_do_again(world):
    with setting(world, 1) as (here, holder):
        here.open(holder)
        holder.acquire("n", lease_ms=9000)
        here.store.freeze()
        holder.event("at-risk")
        check_equal(holder.ask("valid"), "1", "valid in the meantime")
        here.store.thaw()
        holder.event("safe")
        holder.release()


@case
def whose_rights_are_taken_away_holds_on(world):
    """What it may not read any more cannot tell it who leads; its lease lives all the same."""
    with setting(world, 1, auth=("app", "of-the-lease", ROOT)) as (here, holder):
        here.open(holder)
        holder.acquire("n", lease_ms=LEASE_MS)
        right = {"key": text_of(ROOT), "range_end": text_of("holdfast0")}
        here.store.call("auth/role/revoke", role="lockers", **right)
        asked = here.store.metric("etcd_debugging_lease_renewed_total")
        time.sleep(2 * LEASE_MS / 1000)
        check_equal(holder.ask("valid"), "1", "valid beyond the lease")
        asked = here.store.metric("etcd_debugging_lease_renewed_total") - asked
        check(3 <= asked <= 24, f"{asked} signs of life in the time of two leases")
        here.store.call("auth/role/grant", name="lockers",
                        perm={"permType": "READWRITE", **right})
        holder.release()
        check_nothing(here, holder)


@case
def a_restart_of_the_server_costs_nobody_the_lock(world):
    with setting(world, 2, through=True) as (here, holder, waiter):
        here.open(holder, waiter)
        first = holder.acquire("n").fence
        here.stand(waiter)
        for _ in range(2):
            links = here.proxy.stat()["links"]
            here.store.kill()
            here.store.start()
            wait_until(lambda: here.proxy.stat()["links"] >= links + 4, "both are back")
            check_equal(holder.ask("valid"), "1", "valid after the restart")
        check_pending(waiter, "who waits")
        holder.release()
        check(waiter.do("wait -1").fence > first, "fences rise")
        waiter.release()
        check_nothing(here, holder, waiter)


@case
def a_restart_that_lasts_longer_than_a_lease_ends_it_for_the_holder(world):
    with setting(world, 2) as (here, holder, waiter):
        here.open(holder, waiter)
        holder.acquire("n", lease_ms=LEASE_MS)
        here.stand(waiter)
        here.store.kill()
        holder.ask("hold")
        here.store.start()
        waiter.do("wait -1")
        holder.release("ELOST")
        check_equal(waiter.ask("valid"), "1", "the next one's grant")
        waiter.release()
        check_nothing(here, holder, waiter)


@case
def fences_rise_whatever_was_deleted_compacted_and_restarted(world):
    with setting(world, 1) as (here, client):
        client.open(here.url(), connect_ms=60000)
        last = 0
        for _ in range(3):
            fence = client.acquire("n", wait_ms=20000).fence
            check(fence > last, f"{fence} after {last}")
            last = fence
            client.release()
            compact(here)
            here.store.kill()
            here.store.start()


def compact(here):
    """The server forgets what was, up to now."""
    here.store.put("another program's")
    here.store.call("kv/compaction", revision=here.store.revision(), physical=True)
    here.store.delete("another program's")


@case
def a_compaction_during_a_wait_costs_nobody_its_place(world):
    with setting(world, 3, through=True) as (here, holder, waiter, third):
        here.open(holder, through=False)
        here.open(waiter, third)
        holder.acquire("n")
        here.stand(waiter)
        here.stand(third)
        compact(here)
        links = here.proxy.stat()["links"]
        here.proxy.tell("stop")
        here.proxy.tell("cut")
        compact(here)  # what they have heard last is forgotten
        holder.release()
        compact(here)
        here.proxy.tell("go")
        waiter.do("wait -1")
        check(here.proxy.stat()["links"] > links, "they came again")
        check_pending(third, "the last")
        compact(here)
        waiter.release()
        third.do("wait -1")
        third.release()
        check_nothing(here, holder, waiter, third)


@case
def a_lease_that_ended_while_nobody_used_it_is_not_missed(world):
    with setting(world, 1) as (here, client):
        here.open(client)
        for wait in (lambda: wait_until(lambda: not here.store.leases(), "the end of the lease"),
                     lambda: here.store.revoke(*here.store.leases()),
                     lambda: time.sleep(LEASE_MS / 1000 * 0.6)):
            client.acquire("n", lease_ms=LEASE_MS)
            client.release()
            wait()
            client.acquire("n", lease_ms=LEASE_MS, wait_ms=0)
            check_equal(client.ask("valid"), "1", "valid")
            check(int(client.ask("remaining")) > LEASE_MS // 3, "time is left")
            time.sleep(LEASE_MS / 1000 / 2)
            check_equal(client.ask("valid"), "1", "valid, renewed")
            client.release()
        check_empty(here)


@case
def a_turn_is_extended_by_another_lease(world):
    with setting(world, 2) as (here, client, other):
        here.open(client, other)
        fence = client.acquire("n", lease_ms=LEASE_MS).fence
        before, = line(here)
        client.do("extend 60000")
        after, = line(here)
        check_equal((after.revision * 256, after.name), (fence, before.name), "the key")
        check_equal(seconds_of(here, after), 60, "the lease")
        check(int(client.ask("remaining")) > 50000, "what is left")
        other.acquire("n", "EBUSY", wait_ms=0)
        client.release()
        check_nothing(here, client, other)
