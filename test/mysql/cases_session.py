"""Locks that are a session's: `named` (GET_LOCK) and `for-update` (a transaction that stays open).
What excludes what, what is lost with a session, and what is not promised.

The cases whose names say "weakness" show what the recipes' caveats name; beside each stands what
ours does about it.
"""

import contextlib
import os
import signal
import time

from client import Answer
from database import OWNER, Refused
from harness import case, check, check_equal, wait_until
from setting import LONG_MS, setting

LEASE_MS = 2000
KINDS = {"named": "hf_named", "for-update": "hf_for_update"}
BLOCKED = ("SELECT count(*) FROM information_schema.processlist"
           f" WHERE command = 'Execute' AND user = '{OWNER.name}'"
           " AND (info LIKE '%''locked''%' OR info LIKE '%FOR UPDATE%')")


class Plain:
    """Another program, which locks the way the recipe does."""

    def __init__(self, here, recipe, table="hf_for_update"):
        self.session, self.recipe, self.table = here.store.session(), recipe, table

    def lock(self, name="n"):
        """False: somebody else has it."""
        if self.recipe == "named":
            return self.session.sql(f"SELECT get_lock('{name}', 0)") == [("1",)]
        try:
            self.session.sql("START TRANSACTION")
            rows = self.session.sql(f"SELECT name FROM {self.table} WHERE name = '{name}'"
                                    " FOR UPDATE NOWAIT")
        except Refused:
            self.session.sql("ROLLBACK")
            return False
        check_equal(rows, [(name,)], "the row")
        return True

    def unlock(self, name="n"):
        self.session.sql(f"DO release_lock('{name}')" if self.recipe == "named" else "COMMIT")


@contextlib.contextmanager
def plain(here, recipe, **options):
    program = Plain(here, recipe, **options)
    with program.session:
        yield program


def now_ms():
    return time.monotonic() * 1000


def kill_holder(here, recipe):
    for number, in here.store.sql(f"SELECT session FROM hf_session WHERE kind = '{KINDS[recipe]}'"):
        here.store.kill_connection(number)


def check_nothing_is_left(here, *clients):
    for client in clients:
        client.do("close")
    wait_until(lambda: here.store.sql("SELECT count(*) FROM hf_session") == [("0",)],
               "nobody is written down")
    wait_until(lambda: not here.store.connections(), "no session is left")


def each_recipe(function):
    """The same case for both, under a name for each."""
    for recipe in KINDS:
        def play(world, wanted=recipe):
            function(world, wanted)
        play.__name__ = f"{function.__name__}_{recipe.replace('-', '_')}"
        case(play)
    return function


# --- other programs ---


@each_recipe
def another_program_excludes_ours_and_ours_exclude_it(world, recipe):
    with setting(world) as (here, client):
        here.open(client, recipe=recipe)
        client.acquire("n")
        client.release()
        with plain(here, recipe) as other:
            check(other.lock(), "it is free")
            client.acquire("n", "EBUSY", wait_ms=0)
            client.do(f"start {LONG_MS} -1 n")
            wait_until(lambda: here.store.sql(BLOCKED) == [("1",)], "ours waits")
            other.unlock()
            client.do("wait -1")
            check(not other.lock(), "it is ours")
            client.release()
            check(other.lock(), "it is free")
            other.unlock()
        check_nothing_is_left(here, client)


@case
def names_are_the_servers_as_they_are_and_the_longest_by_their_digest(world):
    """MariaDB compares bytes, and takes 192 of them."""
    with setting(world, 2) as (here, client, other):
        here.open(client, other, recipe="named")
        with plain(here, "named") as program:
            for name in ("Jobs", "jobs", "x" * 192):
                client.acquire(name, wait_ms=0)
                check(not program.lock(name), f"{name} is ours")
                other.acquire(name, "EBUSY", wait_ms=0)
                client.release()
            check(program.lock("JOBS"), "theirs")
            client.acquire("jobs", wait_ms=0)
            client.release()
        client.acquire("y" * 500 + "a", wait_ms=0)
        other.acquire("y" * 500 + "a", "EBUSY", wait_ms=0)
        other.acquire("y" * 500 + "b", wait_ms=0)
        other.release()
        client.release()
        check_nothing_is_left(here, client, other)


@case
def a_table_of_another_program_is_locked_row_by_row(world):
    """Its names are text: a row that somebody else has locked is in nobody's way."""
    with setting(world, 2) as (here, client, apart):
        here.store.sql("CREATE TABLE jobs (name varchar(200) PRIMARY KEY, note varchar(20)"
                       " DEFAULT 'x') CHARACTER SET utf8mb4")
        here.store.sql("INSERT INTO jobs (name) VALUES ('a'), ('n'), ('z')")
        here.open(client, recipe="for-update", table="jobs")
        here.open(apart, recipe="for-update")
        with plain(here, "for-update", table="jobs") as program, \
                plain(here, "for-update", table="jobs") as third:
            check(program.lock("a"), "a row beside")
            check(third.lock("z"), "another one")
            client.acquire("n", wait_ms=0)
            apart.acquire("n", wait_ms=0)
            client.release()
            client.acquire("new", wait_ms=0)
            check_equal(here.store.sql("SELECT note FROM jobs WHERE name = 'new'"), [("x",)],
                        "the row that was missing")
            client.release()
            client.acquire("N", "EINTEGRITY", "collation", wait_ms=0)


# --- the end of a session ---


@each_recipe
def who_loses_its_session_is_told(world, recipe):
    with setting(world) as (here, holder):
        here.open(holder, recipe=recipe)
        first = holder.acquire("n", lease_ms=LEASE_MS).fence
        kill_holder(here, recipe)
        check_equal(holder.event("lost"), "session ended", "the cause")
        check_equal(holder.ask("valid"), "0", "valid")
        holder.release("ELOST")
        check(holder.acquire("n", lease_ms=LEASE_MS).fence > first, "fences rise")
        holder.release()
        check_nothing_is_left(here, holder)


@each_recipe
def weakness_other_programs_get_in_at_once_when_the_session_dies_and_ours_do_not(world, recipe):
    with setting(world, 2) as (here, holder, waiter):
        here.open(holder, waiter, recipe=recipe)
        first = holder.acquire("n", lease_ms=LEASE_MS).fence
        left_ms, then_ms = int(holder.ask("remaining")), now_ms()
        os.kill(holder.process.pid, signal.SIGSTOP)
        kill_holder(here, recipe)
        with plain(here, recipe) as program:
            wait_until(program.lock, "the other program is in")
            program.unlock()
        check(waiter.acquire("n", lease_ms=LEASE_MS).fence > first, "fences rise")
        check(now_ms() - then_ms >= left_ms, "ours waited until the lost one must know")
        os.kill(holder.process.pid, signal.SIGCONT)
        check_equal(holder.ask("valid"), "0", "valid")
        holder.release("ELOST")
        waiter.release()
        check_nothing_is_left(here, holder, waiter)


@each_recipe
def the_server_frees_what_a_holder_that_stands_still_has_and_not_before_it_must_know(world,
                                                                                     recipe):
    with setting(world) as (here, holder):
        here.open(holder, recipe=recipe)
        with plain(here, recipe) as program:
            for _ in range(2):
                holder.acquire("n", lease_ms=LEASE_MS)
                time.sleep(LEASE_MS / 1000 * 1.5)  # it is renewed
                left_ms, then_ms = int(holder.ask("remaining")), now_ms()
                os.kill(holder.process.pid, signal.SIGSTOP)
                wait_until(program.lock, "the session has been ended")
                took_ms = now_ms() - then_ms
                check(took_ms >= left_ms, f"freed after {took_ms} ms, valid for {left_ms} ms")
                program.unlock()
                os.kill(holder.process.pid, signal.SIGCONT)
                check_equal(holder.ask("valid"), "0", "valid")
                holder.release("ELOST")


@each_recipe
def weakness_a_restart_costs_the_lock_and_fences_rise_all_the_same(world, recipe):
    with setting(world, 2) as (here, holder, waiter):
        here.open(holder, waiter, recipe=recipe)
        first = holder.acquire("n", lease_ms=LEASE_MS).fence
        left_ms, then_ms = int(holder.ask("remaining")), now_ms()
        waiter.do(f"start {LEASE_MS} -1 n")
        wait_until(lambda: here.store.sql(BLOCKED) == [("1",)], "it waits")
        here.store.kill()
        here.store.start()
        holder.event("lost")
        check(waiter.do("wait -1").fence > first, "fences rise")
        check(now_ms() - then_ms >= left_ms, "not before the lost one must know")
        holder.release("ELOST")
        waiter.release()
        check_nothing_is_left(here, holder, waiter)


@each_recipe
def who_only_tries_gets_in_too_when_a_dead_ones_lease_has_ended(world, recipe):
    with setting(world, 2) as (here, holder, other):
        here.open(holder, other, recipe=recipe)
        first = holder.acquire("n", lease_ms=LEASE_MS).fence
        holder.process.kill()
        answers = []
        wait_until(lambda: answers.append(Answer(other.ask("acquire 30000 0 n")))
                   or answers[-1].status == "OK", "it is in")
        check_equal({answer.status for answer in answers[:-1]} - {"EBUSY"}, set(), "the others")
        check(answers[-1].fence > first, "fences rise")
        other.release()
        check_nothing_is_left(here, other)


@each_recipe
def weakness_neither_order_nor_durability_is_promised(world, recipe):
    with setting(world, 2) as (here, client, demanding):
        here.open(client, recipe=recipe)
        check_equal(client.promises(), {"fence", "wakeup", "crash"}, "promises")
        for promise in ("durable", "fair"):
            demanding.open(here.store.url(recipe=recipe), "EPROMISE", require=(promise,))


# --- sessions that wait ---


@each_recipe
def who_waits_no_longer_leaves_no_session_in_line(world, recipe):
    with setting(world, 2) as (here, holder, waiter):
        here.open(holder, waiter, recipe=recipe)
        holder.acquire("n")
        for _ in range(3):
            waiter.do(f"start {LONG_MS} -1 n")
            wait_until(lambda: here.store.sql(BLOCKED) == [("1",)], "it waits")
            waiter.do("cancel")
            wait_until(lambda: here.store.sql(BLOCKED) == [("0",)], "it waits no longer")
        holder.release()
        waiter.acquire("n", wait_ms=0)
        waiter.release()
        check_nothing_is_left(here, holder, waiter)


@each_recipe
def a_longer_lease_is_obeyed_by_the_server_and_by_whoever_comes_next(world, recipe):
    with setting(world, 2) as (here, holder, waiter):
        here.open(holder, waiter, recipe=recipe)
        holder.acquire("n", lease_ms=1000)
        holder.do("extend 4000")
        check_equal(here.store.sql("SELECT lease_us FROM hf_session"), [("4000000",)], "the lease")
        os.kill(holder.process.pid, signal.SIGSTOP)
        time.sleep(2)
        check_equal(here.store.sql("SELECT count(*) FROM information_schema.processlist AS p"
                                   " JOIN hf_session AS s ON s.session = p.id"), [("1",)],
                    "the session lives")
        os.kill(holder.process.pid, signal.SIGCONT)
        holder.release()
        check_nothing_is_left(here, holder, waiter)


def transactions(here):
    """InnoDB looks anew only if nobody has looked for 100 ms."""
    time.sleep(0.2)
    (count,), = here.store.sql("SELECT count(*) FROM information_schema.innodb_trx")
    return int(count)


@case
def weakness_a_lock_of_for_update_keeps_a_transaction_open(world):
    with setting(world) as (here, holder):
        here.open(holder, recipe="for-update")
        holder.acquire("n")
        check_equal(transactions(here), 1, "transactions")
        holder.release()
        wait_until(lambda: transactions(here) == 0, "it has ended")


@case
def a_fence_is_not_given_twice_when_the_transaction_is_undone(world):
    with setting(world, 2) as (here, holder, other):
        here.open(holder, other, recipe="for-update")
        fences = []
        for _ in range(3):
            fences.append(holder.acquire("n", lease_ms=LEASE_MS).fence)
            kill_holder(here, "for-update")
            holder.event("lost")
            holder.release("ELOST")
        fences.append(other.acquire("n").fence)
        check_equal(fences, sorted(set(fences)), "fences rise")
        other.release()
