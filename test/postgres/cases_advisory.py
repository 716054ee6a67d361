"""Locks that are sessions': what excludes what, what is lost with a session, and what is not
promised.

The cases whose names say "weakness" show what the recipe's caveat names; beside each stands what
ours does about it.
"""

import os
import signal
import time

from client import Answer
from crowd import Waiters
from database import OWNER, stands_still
from harness import case, check, check_equal, wait_until
from setting import LONG_MS, setting

LEASE_MS = 2000
LEFT = "SELECT count(*) FROM hf_session"
MINE = "hf_advisory_key_1('n')"
HOLDERS = ("SELECT its_process FROM hf_advisory_locks_1() WHERE is_granted AND its_key = "
           + MINE)
WAITING = "SELECT count(*) FROM hf_advisory_locks_1() WHERE NOT is_granted"


def open_all(here, *clients, **options):
    here.open(*clients, recipe="advisory", **options)


def kill_holder(here):
    for number, in here.store.sql(HOLDERS):
        here.store.kill_connection(number)


def sessions(here):
    return [c for c in here.store.connections() if c.user == OWNER.name]


def now_ms():
    return time.monotonic() * 1000


def check_nothing_is_left(here, *clients):
    for client in clients:
        client.do("close")
    wait_until(lambda: here.store.sql("SELECT count(*) FROM hf_advisory_locks_1()") == [("0",)],
               "nobody has a lock")
    check_equal(here.store.sql(LEFT), [("0",)], "rows that are left")


# --- many at once ---

CROWD, CROWD_LEASE_MS = 1200, 60000
SLOW = """
    CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END';
    CREATE TRIGGER slowly BEFORE INSERT ON hf_session FOR EACH ROW EXECUTE FUNCTION slowly()"""


@case
def a_crowd_before_a_slow_server_costs_nobody_the_lock(world):
    """The last of them are too late for their deadlines, which makes the server's clock doubted;
    and the question for it stands behind a thousand others."""
    with setting(world) as (here, client):
        client.open(here.store.url(recipe="advisory"), connect_ms=CROWD_LEASE_MS)
        here.store.sql(SLOW)
        check_equal(client.ask(f"crowd {CROWD} {CROWD_LEASE_MS} n"), str(CROWD), "who holds it")
        check_nothing_is_left(here, client)


# --- keys ---


@case
def a_name_that_only_waiters_came_for_has_fences_too(world):
    """The try that was to write it down came too late, and was refused as stale."""
    with setting(world) as (here, client):
        open_all(here, client)
        entered = here.store.sql("SELECT hf_advisory_enter_1('n', hf_advisory_key_1('n'),"
                                 " gen_random_uuid(), false, 1000, '0', true, 'b', 't', 'w')")
        check_equal(entered, [("granted 256 0",)], "what it is given")


@case
def a_wait_that_is_cancelled_as_it_is_granted_leaves_nothing_locked(world):
    """A lock of a session outlives the statement that failed. What is left behind there would be
    free again when the seat is closed, and not before."""
    with setting(world) as (here, waiter):
        open_all(here, waiter)
        with here.store.session() as plain:
            plain.sql(f"SELECT pg_advisory_lock({MINE})")
            waiter.do(f"start {LONG_MS} -1 n")
            wait_until(lambda: plain.sql(WAITING) == [("1",)], "it waits")
            seat = int(plain.sql("SELECT its_process FROM hf_advisory_locks_1()"
                                 " WHERE NOT is_granted")[0][0])
            os.kill(seat, signal.SIGSTOP)
            wait_until(lambda: stands_still(seat), "its session stands still")
            plain.sql(f"SELECT pg_advisory_unlock({MINE})")
            plain.sql(f"SELECT pg_cancel_backend({seat})")
            os.kill(seat, signal.SIGCONT)
            waiter.do("wait -1")
            check(seat in [session.id for session in sessions(here)], "its session is still there")
            waiter.release()
            check_equal(plain.sql(f"SELECT pg_try_advisory_lock({MINE})"), [("t",)], "it is free")


@case
def two_names_do_not_share_a_given_key(world):
    with setting(world, 2) as (here, one, other):
        open_all(here, one, other, lock_key="-17")
        one.acquire("a", lease_ms=LEASE_MS)
        for client in (one, other):  # known here, and known to the server
            other_name = client.do(f"start {LEASE_MS} 0 b")
            check_equal(other_name.status, "OK", "the start")
            client.do("wait -1", "EINTEGRITY", "key")
        check_equal(here.store.sql("SELECT its_key FROM hf_advisory_locks_1()"), [("-17",)],
                    "the key")
        one.release()
        check_nothing_is_left(here, one, other)


@case
def a_name_does_not_have_two_keys(world):
    with setting(world, 2) as (here, one, other):
        open_all(here, one)
        open_all(here, other, lock_key="17")
        one.acquire("n", lease_ms=LEASE_MS)
        other.acquire("n", "EINTEGRITY", "one name has two", wait_ms=0)
        one.release()
        check_nothing_is_left(here, one, other)


@case
def names_with_the_same_hash_are_told_apart(world):
    with setting(world, 1) as (here, client):
        open_all(here, client)
        here.store.sql(f"INSERT INTO hf_fence VALUES ('somebody else', 256, {MINE})")
        client.acquire("n", "EINTEGRITY", "two names have one key", wait_ms=0)
        client.acquire("n", "EINTEGRITY", "two names have one key")
        client.acquire("m")
        client.release()
        check_nothing_is_left(here, client)


@case
def a_key_that_is_no_number_of_64_bits_is_refused(world):
    with setting(world, 1) as (here, client):
        for key in ("", "x", "1.0", "9223372036854775808", "-9223372036854775809", "0x10", "--1"):
            client.open(here.store.url(recipe="advisory", lock_key=key), "EURL", "lock_key")
        client.open(here.store.url(lock_key="1"), "EURL", "recipe=advisory")
        for key in ("9223372036854775807", "-9223372036854775808"):
            open_all(here, client, lock_key=key)
            client.acquire(f"n{key}")
            check_equal(here.store.sql("SELECT its_key FROM hf_advisory_locks_1()"), [(key,)],
                        "the key")
            client.release()
            client.do("close")


# --- other programs ---


@case
def another_program_excludes_ours_and_is_listed(world):
    with setting(world, 1) as (here, client):
        open_all(here, client)
        client.acquire("n")
        client.release()
        with here.store.session() as plain:
            plain.sql(f"SELECT pg_advisory_lock({MINE})")
            client.acquire("n", "EBUSY", wait_ms=0)
            check_equal(client.ask("list n"), "0 1", "what is listed")
            client.do(f"start {LONG_MS} -1 n")
            wait_until(lambda: plain.sql(WAITING) == [("1",)], "ours waits")
            plain.sql(f"SELECT pg_advisory_unlock({MINE})")
            client.do("wait -1")
            check_equal(plain.sql(f"SELECT pg_try_advisory_lock({MINE})"), [("f",)], "the try")
            client.release()
            check_equal(plain.sql(f"SELECT pg_try_advisory_lock({MINE})"), [("t",)], "the try")
        check_nothing_is_left(here, client)


# --- the end of a session ---


@case
def weakness_other_programs_get_in_at_once_when_the_session_dies_and_ours_do_not(world):
    with setting(world, 2) as (here, holder, waiter):
        open_all(here, holder, waiter)
        first = holder.acquire("n", lease_ms=LEASE_MS).fence
        left_ms, then_ms = int(holder.ask("remaining")), now_ms()
        os.kill(holder.process.pid, signal.SIGSTOP)
        kill_holder(here)
        with here.store.session() as plain:
            wait_until(lambda: plain.sql(f"SELECT pg_try_advisory_lock({MINE})") == [("t",)],
                       "the plain program is in")
            plain.sql(f"SELECT pg_advisory_unlock({MINE})")
        check(waiter.do(f"acquire {LEASE_MS} -1 n").fence > first, "fences rise")
        check(now_ms() - then_ms >= left_ms, "ours waited until the lost one must know")
        os.kill(holder.process.pid, signal.SIGCONT)
        check_equal(holder.ask("valid"), "0", "valid")
        holder.release("ELOST")
        waiter.release()
        check_nothing_is_left(here, holder, waiter)


@case
def who_loses_its_session_is_told(world):
    with setting(world, 1) as (here, holder):
        open_all(here, holder)
        holder.acquire("n", lease_ms=LONG_MS)
        kill_holder(here)
        check_equal(holder.event("lost"), "session ended", "the cause")
        check_equal(holder.ask("valid"), "0", "valid")
        holder.release("ELOST")
        holder.acquire("n", lease_ms=LONG_MS)
        holder.release()


@case
def the_server_frees_what_a_holder_that_stands_still_has_and_not_before_it_must_know(world):
    with setting(world, 1) as (here, holder):
        open_all(here, holder)
        with here.store.session() as plain:
            for _ in range(3):
                holder.acquire("n", lease_ms=LEASE_MS)
                time.sleep(LEASE_MS / 1000 * 1.5)  # it is renewed
                left_ms, then_ms = int(holder.ask("remaining")), now_ms()
                os.kill(holder.process.pid, signal.SIGSTOP)
                wait_until(lambda: plain.sql(f"SELECT pg_try_advisory_lock({MINE})") == [("t",)],
                           "the session has been ended")
                took_ms = now_ms() - then_ms
                check(took_ms >= left_ms, f"freed after {took_ms} ms, valid for {left_ms} ms")
                plain.sql(f"SELECT pg_advisory_unlock({MINE})")
                os.kill(holder.process.pid, signal.SIGCONT)
                check_equal(holder.ask("valid"), "0", "valid")
                holder.release("ELOST")
        check("idle-session timeout" in here.store.log(), "that was the reason")


@case
def weakness_a_restart_costs_the_lock_and_fences_rise_all_the_same(world):
    with setting(world, 2) as (here, holder, waiter):
        open_all(here, holder, waiter)
        first = holder.acquire("n", lease_ms=LEASE_MS).fence
        left_ms, then_ms = int(holder.ask("remaining")), now_ms()
        waiter.do(f"start {LEASE_MS} -1 n")
        wait_until(lambda: waiter.ask("position") == "1", "it stands in line")
        here.store.kill()
        here.store.start()
        check_equal(holder.event("lost"), "session ended", "the cause")
        check(waiter.do("wait -1").fence > first, "fences rise")
        check(now_ms() - then_ms >= left_ms, "not before the lost one must know")
        holder.release("ELOST")
        waiter.release()
        check_nothing_is_left(here, holder, waiter)


@case
def weakness_nothing_is_promised_to_last(world):
    with setting(world, 2) as (here, client, demanding):
        open_all(here, client)
        check_equal(client.promises(), {"fence", "fair", "wakeup", "shared", "crash"}, "promises")
        demanding.open(here.store.url(recipe="advisory"), "EPROMISE", require=("durable",))


@case
def who_only_tries_gets_in_too_when_a_dead_ones_lease_has_ended(world):
    with setting(world, 2) as (here, holder, other):
        open_all(here, holder, other)
        first = holder.acquire("n", lease_ms=LEASE_MS).fence
        holder.process.kill()
        answers = []
        wait_until(lambda: answers.append(Answer(other.ask("acquire 30000 0 n")))
                   or answers[-1].status == "OK", "it is in")
        check_equal({answer.status for answer in answers[:-1]}, {"EBUSY"}, "the others")
        check(answers[-1].fence > first, "fences rise")
        other.release()
        check_nothing_is_left(here, other)


# --- seats ---


@case
def sixteen_wait_in_sessions_of_their_own_and_more_ask_again(world):
    names, seats = 20, 16
    with setting(world, 1) as (here, first):
        open_all(here, first)
        first.do("close")
        waiters = Waiters(world, here.store.url(recipe="advisory"), LONG_MS, 1)
        try:
            with here.store.session() as plain:
                for number in range(names):
                    plain.sql(f"SELECT pg_advisory_lock(hf_advisory_key_1('{number}'))")
                for number in range(names):
                    waiters.stand(number, 0, str(number), "soon")
                wait_until(lambda: plain.sql(WAITING) == [(str(seats),)], "so many wait")
                time.sleep(0.5)
                check_equal(plain.sql(WAITING), [(str(seats),)], "and no more")
                check_equal(len(sessions(here)), seats + 1, "sessions")
                plain.sql("SELECT pg_advisory_unlock_all()")
                served = sorted(number for _, number in waiters.turns())
            check_equal(served, list(range(names)), "all were served")
        finally:
            waiters.kill()
        check_nothing_is_left(here)


@case
def weakness_who_waits_keeps_back_vacuum(world):
    with setting(world, 2) as (here, holder, waiter):
        open_all(here, holder, waiter)
        holder.acquire("n")
        waiter.do(f"start {LONG_MS} -1 n")
        wait_until(lambda: here.store.sql(WAITING) == [("1",)], "it waits")
        check_equal(here.store.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event ="
                                   " 'advisory' AND backend_xmin IS NOT NULL"), [("1",)],
                    "a session with an old view of things")
        waiter.do("cancel")
        holder.release()
        check_nothing_is_left(here, holder, waiter)


@case
def limits_of_the_account_end_no_wait(world):
    with setting(world, 2) as (here, holder, waiter):
        for name in ("lock_timeout", "statement_timeout", "idle_session_timeout"):
            here.store.sql(f"ALTER ROLE {OWNER.name} SET {name} = 300")
        open_all(here, holder, waiter)
        first = holder.acquire("n").fence
        waiter.do(f"start {LONG_MS} -1 n")
        wait_until(lambda: here.store.sql(WAITING) == [("1",)], "it waits")
        time.sleep(1)
        check_equal(here.store.sql(WAITING), [("1",)], "still waiting")
        holder.release()
        check(waiter.do("wait -1").fence > first, "fences rise")
        waiter.release()
        time.sleep(1)
        check_equal(len(sessions(here)), 3, "sessions: none was ended")
        check_nothing_is_left(here, holder, waiter)


@case
def a_server_without_room_for_another_session_makes_it_ask_again(world):
    with setting(world, 2, max_connections=7) as (here, holder, waiter):
        open_all(here, holder, waiter)
        holder.acquire("n", lease_ms=LONG_MS)
        with here.store.session(), here.store.session(), here.store.session():
            others = []
            try:
                while True:
                    others.append(here.store.session())
            except Exception:  # noqa: BLE001  pylint: disable=broad-except
                pass
            waiter.do(f"start {LONG_MS} -1 n")
            wait_until(lambda: "too many" in here.store.log() or "remaining" in here.store.log(),
                       "there is no room")
            holder.release()
            waiter.do("wait -1")
            waiter.release()
            for other in others:
                other.close()
        check_nothing_is_left(here, holder, waiter)
