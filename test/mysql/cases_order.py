"""Who is next, when many wait in several processes, and some of them die or change their mind?"""

from crowd import check_order
from harness import case, check, check_equal
from setting import LONG_MS, check_nothing, setting

# As a hand-over leaves it: the holder's place, in which it had waited, is still there.
LAG = ("INSERT INTO hf_place SELECT name, token, front, 0, false, false, ends_us, lease_us,"
       " grace_us, since_us, bell, tag, NULL, account, who FROM hf_lock;"
       "UPDATE hf_lock SET lagging = true")
WAITING = "SELECT count(*) FROM hf_place WHERE fence = 0"


@case
def fifty_waiters_of_ten_processes_are_served_in_order_though_one_is_killed(world):
    with setting(world) as (here, holder):
        here.open(holder, recipe="queue")
        check_order(world, holder, here.store.url(recipe="queue"))


@case
def the_first_who_leaves_is_followed_by_the_second(world):
    with setting(world, 4) as (here, holder, second, third, fourth):
        here.open(holder, second, third, fourth)
        fences = [holder.acquire("n").fence]
        here.stand(second, 1)
        here.stand(third, 2)
        here.stand(fourth, 3)
        second.do("cancel")
        holder.release()
        for client in (third, fourth):
            fences.append(client.do("wait -1").fence)
            client.release()
        check_equal(fences, sorted(set(fences)), "fences in order")
        check_nothing(here, holder, second, third, fourth)


@case
def a_place_that_lags_is_nobodys(world):
    """It is not listed, and is removed by whatever is done next to the lock."""
    with setting(world, 2) as (here, holder, other):
        here.open(holder, other)
        for step in (lambda: holder.do(f"extend {LONG_MS}"),
                     lambda: other.acquire("n", "EBUSY", wait_ms=0),
                     lambda: holder.do("downgrade"), holder.release):
            if holder.ask("valid") != "1":
                holder.acquire("n")
            here.store.sql(LAG)
            check_equal(holder.do("list *").text, "1", "entries of the list")
            step()
            check_equal(here.store.sql(WAITING), [("0",)], "places of waiters")
            check_equal(here.store.sql("SELECT lagging FROM hf_lock"), [("0",)], "it lags")
        check_nothing(here, holder, other)


@case
def a_holder_whose_place_lags_is_broken_or_passed_by_like_any(world):
    with setting(world, 2) as (here, holder, other):
        here.open(holder, other)
        fence = holder.acquire("n").fence
        here.store.sql(LAG)
        other.do(f"break {fence} n")
        check(other.acquire("n").fence > fence, "fences rise")
        other.release()
        holder.release("ELOST")
        check_equal(here.store.sql(WAITING), [("0",)], "places of waiters")
