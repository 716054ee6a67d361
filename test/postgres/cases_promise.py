"""Which servers are refused, what is promised on the others, and who makes the tables."""

import threading

from client import Answer, check_run
from database import CLERK, GUEST, OWNER
from harness import case, check, check_equal, wait_until
from postgres import PgBouncer, PostgresReplica
from setting import check_nothing, setting

CONFIG = 78
ALL = {"fence", "fair", "wakeup", "shared", "durable", "crash"}
TABLES = ["hf_lock", "hf_place"]


@case
def a_server_that_waits_for_its_disk_keeps_every_promise(world):
    with setting(world) as (here, client):
        here.open(client, who=OWNER)
        check_equal(client.promises(), ALL, "promises")


@case
def a_server_that_does_not_wait_for_its_disk_promises_less(world):
    for config in ({"fsync": "off"}, {"full_page_writes": "off"}):
        with setting(world, 2, config=config) as (here, client, demanding):
            here.open(client)
            check_equal(client.promises(), ALL - {"durable", "fence"}, "promises")
            demanding.open(here.store.url(), "EPROMISE", "does not wait for its disk",
                           require=("durable",))


@case
def tables_that_a_crash_empties_promise_less(world):
    with setting(world, 2) as (here, first, client):
        here.open(first)
        for table in TABLES:
            here.store.sql(f"ALTER TABLE {table} SET UNLOGGED")
        here.open(client)
        check_equal(client.promises(), ALL - {"durable", "fence"}, "promises")
        check_run(world, CONFIG, ["UNLOGGED"], here.store.url(), "--require", "durable")


def choose_for_owner(here, name, value):
    here.store.sql(f"ALTER ROLE {OWNER.name} SET {name} = '{value}'")


@case
def a_session_that_would_not_wait_for_the_disk_is_made_to(world):
    """What has not reached the disk when the server is killed is forgotten."""
    with setting(world, 2, config={"wal_writer_delay": "10s"}) as (here, client, other):
        choose_for_owner(here, "synchronous_commit", "off")
        here.open(client, other)
        check_equal(client.promises(), ALL, "promises")
        for _ in range(3):
            client.acquire("n", wait_ms=30000)
            here.store.kill()
            here.store.start()
            wait_until(lambda: Answer(other.ask("acquire 30000 0 n")).status == "EBUSY",
                       "it is back, and remembers")
            client.release()


@case
def a_session_that_would_see_the_past_is_made_to_see_the_present(world):
    with setting(world, 1) as (here, client):
        choose_for_owner(here, "default_transaction_isolation", "serializable")
        here.open(client)
        first = client.acquire("n").fence
        client.release()
        with here.store.session() as other:
            other.sql("BEGIN")
            other.sql("SELECT hf_enter_1('n')")
            client.send("acquire 30000 -1 n")
            wait_until(lambda: other.sql("SELECT count(*) FROM pg_locks WHERE NOT granted")
                       == [("1",)], "the claim waits")
            other.sql("UPDATE hf_lock SET fence = fence + 256 WHERE name = 'n'")
            other.sql("COMMIT")
        check_equal(Answer(client.hear()).fence, first + 512, "the fence")
        check("could not serialize" not in here.store.log(), "it sees what was done meanwhile")


@case
def a_replica_is_refused_until_it_is_promoted(world):
    with setting(world, 2) as (here, early, late):
        replica = here.place.add(PostgresReplica, of=here.store)
        early.open(replica.url(), "EDENIED", "is a replica")
        replica.promote()
        late.open(replica.url())
        late.acquire("n")
        late.release()


@case
def a_server_that_is_read_only_is_refused(world):
    with setting(world, read_only=True) as (here, client):
        client.open(here.store.url(), "EDENIED", "is read-only")


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
def a_pooler_is_refused(world):
    with setting(world, 2) as (here, first, second):
        for client, mode in ((first, "transaction"), (second, "session")):
            pooler = here.place.add(PgBouncer, of=here.store, mode=mode)
            client.open(pooler.url(), "EUNSUPPORTED", "is a pooler")


# --- tables ---


@case
def who_may_make_no_tables_is_told_where_the_sql_is(world):
    with setting(world, 3) as (here, clerk, owner, again):
        clerk.open(here.store.url(who=CLERK), "EDENIED", "holdfast engines --schema postgres",
                   "permission denied")
        check_equal(here.store.tables(), [], "tables")
        here.open(owner)
        check_equal(here.store.tables(), TABLES, "tables")
        here.open(again, who=CLERK)
        again.acquire("n")
        again.release()
        check_nothing(here, owner, again)


@case
def the_sql_that_is_printed_is_the_sql_that_it_takes(world):
    with setting(world, 1) as (here, clerk):
        printed = world.holdfast("engines", "--schema", "postgres").out
        here.store.sql(f"SET ROLE {OWNER.name}; {printed}")
        here.open(clerk, who=CLERK)
        clerk.acquire("n")
        clerk.release()


@case
def who_may_not_use_the_tables_is_denied(world):
    with setting(world, 3) as (here, owner, guest, clerk):
        here.open(owner)
        guest.open(here.store.url(who=GUEST), "EDENIED")
        here.store.sql(f"REVOKE DELETE ON hf_place FROM {CLERK.name}")
        clerk.open(here.store.url(who=CLERK), "EDENIED", "DELETE on hf_lock")


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
