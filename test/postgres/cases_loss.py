"""What becomes of a lock when the server, a connection or a message is lost."""

from client import Answer
from database import OWNER
from harness import case, check, check_equal, wait_until
from setting import LONG_MS, check_nothing, setting


def kill_connections(store):
    for connection in store.connections():
        if connection.user == OWNER.name:
            store.kill_connection(connection.id)


@case
def a_restart_costs_nobody_the_lock_or_the_place_in_line(world):
    with setting(world, 3) as (here, holder, second, third):
        here.open(holder, second, third)
        fences = [holder.acquire("n").fence]
        here.stand(second, 1)
        here.stand(third, 2)
        here.store.kill()
        here.store.start()
        wait_until(lambda: Answer(holder.ask(f"extend {LONG_MS}")).status == "OK", "it is back")
        holder.release()
        for client in (second, third):
            fences.append(client.do("wait -1").fence)
            client.release()
        check_equal(fences, sorted(set(fences)), "fences in order")
        check_nothing(here, holder, second, third)


@case
def connections_that_are_killed_cost_nobody_the_lock(world):
    with setting(world, 2) as (here, holder, waiter):
        here.open(holder, waiter)
        first = holder.acquire("n").fence
        here.stand(waiter, 1)
        for _ in range(5):
            kill_connections(here.store)
            wait_until(lambda: Answer(holder.ask(f"extend {LONG_MS}")).status == "OK", "it is back")
        check_equal(holder.ask("valid"), "1", "valid")
        holder.release()
        check(waiter.do("wait -1").fence > first, "fences rise")
        waiter.release()
        check_nothing(here, holder, waiter)


@case
def who_waits_is_served_though_no_message_comes(world):
    with setting(world, 2) as (here, holder, waiter):
        here.open(holder, waiter)
        silent, = here.store.sql("SELECT replace(pg_get_functiondef('hf_settle_1'::regproc),"
                                 " 'pg_notify(', 'concat(')")[0]
        here.store.sql(silent)
        first = holder.acquire("n", lease_ms=1000).fence
        waiter.do("start 1000 -1 n")
        wait_until(lambda: waiter.ask("position") == "1", "it stands in line")
        holder.release()
        check(waiter.do("wait -1").fence > first, "fences rise")
        waiter.release()


@case
def a_holder_that_dies_is_followed_when_its_lease_ends(world):
    with setting(world, 2) as (here, holder, waiter):
        here.open(holder, waiter)
        first = holder.acquire("n", lease_ms=1000).fence
        here.stand(waiter, 1)
        holder.process.kill()
        check(waiter.do("wait -1").fence > first, "fences rise")
        waiter.release()


@case
def a_server_that_is_away_for_longer_than_the_lease_costs_the_lock(world):
    with setting(world, 2) as (here, holder, next_one):
        here.open(holder, next_one)
        first = holder.acquire("n", lease_ms=1000).fence
        here.store.kill()
        holder.event("at-risk")
        holder.event("lost")
        check_equal(holder.ask("valid"), "0", "valid")
        here.store.start()
        check(next_one.acquire("n", wait_ms=LONG_MS).fence > first, "fences rise")
        next_one.release()
        holder.release("ELOST")
        check_nothing(here, holder, next_one)


@case
def a_server_that_stands_still_is_not_waited_for_beyond_the_limit(world):
    with setting(world, 2) as (here, holder, asker):
        here.open(holder, asker)
        holder.acquire("n")
        here.store.freeze()
        answer = Answer(asker.ask("acquire 30000 500 n"))
        check(answer.status in ("EUNKNOWN", "EUNREACHABLE"), f"{answer}")
        here.store.thaw()
        asker.acquire("other", wait_ms=LONG_MS)
        asker.release()
        holder.release()
        check_nothing(here, holder, asker)


@case
def tables_that_are_dropped_are_made_again_and_the_loss_is_told(world):
    with setting(world, 1) as (here, client):
        here.open(client)
        client.acquire("n", lease_ms=2000)
        here.store.sql("DROP TABLE hf_lock, hf_place")
        wait_until(lambda: client.ask("valid") == "0", "the end of what is not there")
        client.release("ELOST")
        wait_until(lambda: Answer(client.ask("acquire 30000 3000 other")).status == "OK",
                   "the tables are there again")
        client.release()
