"""The recipe row, beside other programs that keep such rows."""

from client import Answer
from harness import case, check, check_equal, wait_until
from setting import NOW, setting


def insert(here, table, left_s):
    here.store.sql(f"INSERT INTO {table} (name, owner, expires_us)"
                   f" VALUES ('n', 'them', {NOW} + {left_s * 1000000})")


@case
def a_row_of_another_program_keeps_us_out_until_it_is_deleted(world):
    with setting(world) as (here, client):
        here.open(client, recipe="row")
        insert(here, "hf_row", 3600)
        client.acquire("n", "EBUSY", wait_ms=0)
        client.send("acquire 30000 -1 n")
        check_equal(here.store.sql("SELECT owner FROM hf_row"), [("them",)], "the owner")
        here.store.sql("DELETE FROM hf_row WHERE name = 'n' AND owner = 'them'")
        check_equal(Answer(client.hear()).status, "OK", "the claim")
        client.release()
        check_equal(here.store.sql("SELECT count(*) FROM hf_row"), [("0",)], "rows that are left")


@case
def a_row_whose_end_has_come_is_taken_over(world):
    with setting(world) as (here, client):
        here.open(client, recipe="row")
        insert(here, "hf_row", -1)
        client.acquire("n", wait_ms=0)
        check(here.store.sql("SELECT owner FROM hf_row") != [("them",)], "it is ours now")
        client.release()


@case
def another_program_that_takes_over_our_row_is_noticed(world):
    """It must not, before the end; but nobody keeps it from doing so."""
    with setting(world) as (here, client):
        here.open(client, recipe="row")
        client.acquire("n", lease_ms=2000)
        here.store.sql("UPDATE hf_row SET owner = 'them' WHERE name = 'n'")
        client.event("lost")
        client.release("ELOST")
        check_equal(here.store.sql("SELECT owner FROM hf_row"), [("them",)], "theirs is theirs")


@case
def a_table_of_another_program_is_used_as_it_is(world):
    with setting(world, 3) as (here, client, other, apart):
        here.store.sql("CREATE TABLE jobs (name varchar(200) PRIMARY KEY, owner varchar(64),"
                       " expires_us bigint, note varchar(20) DEFAULT 'x')")
        here.open(client, other, recipe="row", table="jobs")
        here.open(apart, recipe="row")
        first = client.acquire("n").fence
        check_equal(here.store.sql("SELECT name, note FROM jobs"), [("n", "x")], "the row")
        other.acquire("n", "EBUSY", wait_ms=0)
        apart.acquire("n", wait_ms=0)
        client.release()
        check(other.acquire("n").fence > first, "fences rise")
        other.release()
        insert(here, "jobs", 3600)
        client.acquire("n", "EBUSY", wait_ms=0)
        check_equal(client.do("list *").text, "1", "holders that are listed")


@case
def a_holder_that_dies_is_followed_when_its_row_ends(world):
    with setting(world, 2) as (here, holder, next_one):
        here.open(holder, next_one, recipe="row")
        first = holder.acquire("n", lease_ms=1000).fence
        holder.process.kill()
        check(next_one.acquire("n", wait_ms=30000).fence > first, "fences rise")
        next_one.release()
        wait_until(lambda: here.store.sql("SELECT count(*) FROM hf_row") == [("0",)], "it is gone")
