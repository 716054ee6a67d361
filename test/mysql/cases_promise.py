"""Which servers are refused, what is promised on the others, and who makes the tables."""

import subprocess
import threading

from client import Answer
from database import CLERK, GUEST, OWNER
from harness import case, check, check_equal, wait_until
from mariadb import Galera, MariaDBReplica
from setting import check_nothing, setting

ALL = {"fence", "fair", "wakeup", "shared", "durable", "crash"}
TABLES = ["hf_lock", "hf_place"]


@case
def a_server_that_waits_for_its_disk_keeps_every_promise(world):
    with setting(world) as (here, client):
        here.open(client, who=OWNER)
        check_equal(client.promises(), ALL, "promises")


@case
def a_server_that_does_not_wait_for_its_disk_promises_less(world):
    for options, text in (({"config": {"innodb-flush-log-at-trx-commit": 2}}, "wait for its disk"),
                          ({"binlog": True, "config": {"sync-binlog": 0}}, "sync_binlog")):
        with setting(world, 2, **options) as (here, client, demanding):
            here.open(client)
            check_equal(client.promises(), ALL - {"durable", "fence"}, "promises")
            demanding.open(here.store.url(), "EPROMISE", text, require=("durable",))


@case
def a_claim_sees_what_was_done_while_it_waited_for_the_row(world):
    with setting(world, 1) as (here, client):
        here.open(client)
        first = client.acquire("n").fence
        client.release()
        with here.store.session() as other:
            other.sql("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            other.sql("BEGIN")
            other.sql("SELECT * FROM hf_lock WHERE name = 'n' FOR UPDATE")
            client.send("acquire 30000 -1 n")
            wait_until(lambda: any(c.statement and "hf_lock" in c.statement
                                   for c in here.store.connections()), "the claim waits")
            other.sql("UPDATE hf_lock SET fence = fence + 256 WHERE name = 'n'")
            other.sql("COMMIT")
        check_equal(Answer(client.hear()).fence, first + 512, "the fence")


@case
def a_replica_is_refused_until_it_is_promoted(world):
    with setting(world, 2, binlog=True) as (here, early, late):
        replica = here.place.add(MariaDBReplica, of=here.store)
        early.open(replica.url(), "EDENIED", "is a replica")
        replica.promote()
        late.open(replica.url())
        late.acquire("n")
        late.release()


@case
def a_server_that_becomes_read_only_takes_nothing(world):
    with setting(world, 2) as (here, holder, asker):
        here.open(holder, asker)
        holder.acquire("n", lease_ms=2000)
        here.store.be_read_only(True)
        asker.acquire("other", "EDENIED", "read-only", wait_ms=10000)
        wait_until(lambda: holder.ask("valid") == "0", "the end of what cannot be renewed")
        holder.release("ELOST")
        here.store.be_read_only(False)
        wait_until(lambda: Answer(asker.ask("acquire 30000 3000 n")).status == "OK", "it goes on")


@case
def galera_is_refused(world):
    with setting(world, kind=Galera) as (here, client):
        client.open(here.store.url(), "EUNSUPPORTED", "Galera")


@case
def a_clock_that_stands_still_while_rows_are_waited_for_is_refused(world):
    with setting(world, config={"sysdate-is-now": 1}) as (here, client):
        client.open(here.store.url(), "EUNSUPPORTED", "SYSDATE")


# --- tables ---


@case
def who_may_make_no_tables_is_told_where_the_sql_is(world):
    with setting(world, 3) as (here, clerk, owner, again):
        clerk.open(here.store.url(who=CLERK), "EDENIED", "holdfast engines --schema mysql",
                   "denied")
        check_equal(here.store.tables(), [], "tables")
        here.open(owner)
        check_equal(here.store.tables(), TABLES, "tables")
        here.open(again, who=CLERK)
        again.acquire("n")
        again.release()
        check_nothing(here, owner, again)


@case
def the_sql_that_is_printed_is_the_sql_that_it_takes(world):
    """As the command-line client of MariaDB understands it."""
    with setting(world, 1) as (here, clerk):
        printed = world.holdfast("engines", "--schema", "mysql").out
        ran = subprocess.run(["mariadb", "--no-defaults", "-uroot",
                              f"--socket={here.store.socket_path()}", "locks"], input=printed,
                             text=True, capture_output=True, check=False)
        check_equal((ran.returncode, ran.stderr), (0, ""), "what the client says")
        here.open(clerk, who=CLERK)
        clerk.acquire("n")
        clerk.release()


@case
def who_may_not_use_the_tables_is_denied(world):
    with setting(world, 3) as (here, owner, guest, clerk):
        here.open(owner)
        guest.open(here.store.url(who=GUEST), "EDENIED")
        here.store.sql(f"REVOKE DELETE ON locks.* FROM '{CLERK.name}'@'%'")
        clerk.open(here.store.url(who=CLERK), "EDENIED", "lacks a right")


@case
def many_who_come_first_make_the_tables_once(world):
    with setting(world, 8) as (here, *clients):
        threads = [threading.Thread(target=client.send, args=(f"open 20000 0 {here.store.url()}",))
                   for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check_equal([Answer(client.hear()).status for client in clients], ["OK"] * len(clients),
                    "those who came")
        fences = []
        for client in clients:
            fences.append(client.acquire("n").fence)
            client.release()
        check_equal(fences, sorted(set(fences)), "fences rise")


@case
def a_prefix_is_a_place_of_its_own(world):
    with setting(world, 2) as (here, one, other):
        here.open(one)
        here.open(other, prefix="app_")
        check_equal(here.store.tables(), ["app_lock", "app_place"] + TABLES, "tables")
        one.acquire("n")
        other.acquire("n", wait_ms=0)
        check("1" == one.do("list *").text == other.do("list *").text, "each sees its own")
