"""The recipe version, beside other programs that keep such rows, and what it does not promise."""

import os
import signal

from client import Answer
from harness import case, check, check_equal, wait_until
from setting import LONG_MS, setting

LEASE_MS = 1000
ROW = "SELECT status, version FROM hf_version WHERE name = 'n'"


def take(here, table="hf_version"):
    """As another program does."""
    (version,), = here.store.sql(f"SELECT version FROM {table} WHERE name = 'n' AND status = 0")
    here.store.sql(f"UPDATE {table} SET status = 7, version = version + 1"
                   f" WHERE name = 'n' AND status = 0 AND version = {version}")


def give_back(here, table="hf_version"):
    here.store.sql(f"UPDATE {table} SET status = 0, version = version + 1 WHERE name = 'n'")


@case
def a_row_that_another_program_took_keeps_us_out_until_it_is_given_back(world):
    with setting(world) as (here, client):
        here.open(client, recipe="version")
        first = client.acquire("n").fence
        check_equal(here.store.sql(ROW), [("1", "1")], "the row")
        client.release()
        check_equal(here.store.sql(ROW), [("0", "2")], "the row")
        take(here)
        client.acquire("n", "EBUSY", wait_ms=0)
        client.send("acquire 30000 -1 n")
        give_back(here)
        answer = Answer(client.hear())
        check_equal(answer.status, "OK", "the claim")
        check(answer.fence > first, "fences rise")
        client.release()


@case
def weakness_the_lock_of_a_dead_holder_stays_until_it_is_broken(world):
    with setting(world, 3) as (here, holder, other, demanding):
        here.open(holder, other, recipe="version")
        check_equal(other.promises(), {"fence", "durable"}, "promises")
        demanding.open(here.store.url(recipe="version"), "EPROMISE", require=("crash",))
        first = holder.acquire("n", lease_ms=100).fence
        holder.process.kill()
        holder.process.wait()
        other.acquire("n", "ETIMEDOUT", wait_ms=2000)
        check_equal(here.store.sql(ROW), [("1", "1")], "it was left behind")
        other.do(f"break {first} n")
        check(other.acquire("n", wait_ms=0).fence > first, "fences rise")
        other.release()


@case
def weakness_who_takes_our_row_all_the_same_is_noticed_by_the_next_renewal(world):
    with setting(world) as (here, client):
        here.open(client, recipe="version")
        client.acquire("n", lease_ms=2000)
        give_back(here)
        take(here)
        check_equal(client.ask("valid"), "1", "valid: nobody told")
        client.event("lost")
        client.release("ELOST")
        check_equal(here.store.sql(ROW), [("7", "3")], "theirs is theirs")


@case
def a_table_of_another_program_with_versions_is_used_as_it_is(world):
    with setting(world, 2) as (here, client, apart):
        here.store.sql("CREATE TABLE jobs (name varchar(200) PRIMARY KEY, status int, version"
                       " bigint, note varchar(20) DEFAULT 'x') CHARACTER SET utf8mb4")
        here.open(client, recipe="version", table="jobs")
        here.open(apart, recipe="version")
        client.acquire("n", wait_ms=0)
        check_equal(here.store.sql("SELECT * FROM jobs"), [("n", "1", "1", "x")], "the row")
        apart.acquire("n", wait_ms=0)
        client.release()
        take(here, "jobs")
        client.acquire("n", "EBUSY", wait_ms=0)
        client.acquire("N", "EINTEGRITY", "collation", wait_ms=0)


@case
def a_restart_and_killed_connections_cost_nobody_the_lock_of_a_version(world):
    with setting(world, 2) as (here, holder, waiter):
        here.open(holder, waiter, recipe="version")
        first = holder.acquire("n").fence
        waiter.do(f"start {LONG_MS} -1 n")
        for _ in range(2):
            here.store.kill()
            here.store.start()
            wait_until(lambda: Answer(holder.ask(f"extend {LONG_MS}")).status == "OK", "it is back")
            for connection in here.store.connections():
                here.store.kill_connection(connection.id)
        check_equal(holder.ask("valid"), "1", "valid")
        check_equal(Answer(waiter.ask("wait 0")).status, "PENDING", "the other")
        holder.release()
        check(waiter.do("wait -1").fence > first, "fences rise")
        waiter.release()


@case
def weakness_who_stands_still_keeps_others_out_and_gives_back_when_it_goes_on(world):
    """A lease is how long it believes without having looked: it never comes back to it."""
    with setting(world, 2) as (here, holder, other):
        here.open(holder, other, recipe="version")
        first = holder.acquire("n", lease_ms=LEASE_MS).fence
        os.kill(holder.process.pid, signal.SIGSTOP)
        other.acquire("n", "ETIMEDOUT", wait_ms=3 * LEASE_MS)
        os.kill(holder.process.pid, signal.SIGCONT)
        check_equal(holder.ask("valid"), "0", "valid")
        check(other.acquire("n").fence > first, "it was given back, and fences rise")
        holder.release("ELOST")
        other.release()


@case
def who_cannot_look_for_a_lease_believes_no_longer_and_gives_back_later(world):
    with setting(world, 2) as (here, holder, other):
        here.open(holder, other, recipe="version")
        first = holder.acquire("n", lease_ms=LEASE_MS).fence
        here.store.freeze()
        holder.event("at-risk")
        holder.event("lost")
        check_equal(holder.ask("valid"), "0", "valid")
        here.store.thaw()
        check(other.acquire("n", wait_ms=LONG_MS).fence > first, "fences rise")
        holder.release("ELOST")
        other.release()
