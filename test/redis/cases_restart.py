"""What a restart of the server does to those who hold and to those who wait."""

from client import Answer, check_run
from harness import case, check, check_equal, wait_until
from setting import RECIPES, setting

USAGE = 64
WAIT_S = 3


def restart(redis):
    redis.kill()
    redis.start()


def uptime_s(redis):
    return int(redis.call("INFO", "server").split("uptime_in_seconds:")[1].split()[0])


@case
def with_a_log_the_holder_goes_on(world):
    for recipe in RECIPES:
        with setting(world, 2) as (redis, holder, next_one):
            holder.open(redis.url(recipe=recipe))
            first = holder.acquire("n", lease_ms=10000).fence
            restart(redis)
            check_equal(holder.ask("valid"), "1", "valid after the restart")
            wait_until(lambda: Answer(holder.ask("extend 10000")).status == "OK", "it is back")
            next_one.open(redis.url(recipe=recipe))
            next_one.acquire("n", "EBUSY", wait_ms=0)
            holder.release()
            check(next_one.acquire("n").fence > first or recipe == "getset", "fences rise")


@case
def with_a_log_who_waits_is_served_in_order(world):
    with setting(world, 3) as (redis, holder, second, third):
        for client in (holder, second, third):
            client.open(redis.url())
        fences = [holder.acquire("n", lease_ms=10000).fence]
        for place, client in enumerate((second, third), 1):
            client.do("start 10000 -1 n")
            wait_until(lambda: client.ask("position") == str(place), "it stands in line")
        restart(redis)
        wait_until(lambda: Answer(holder.ask("extend 10000")).status == "OK", "it is back")
        holder.release()
        for client in (second, third):
            fences.append(client.do("wait -1").fence)
            client.release()
        check_equal(fences, sorted(set(fences)), "fences in order")


@case
def a_server_that_is_away_for_longer_than_the_lease_costs_the_lock(world):
    with setting(world, 2) as (redis, holder, next_one):
        holder.open(redis.url())
        first = holder.acquire("n", lease_ms=1000).fence
        redis.kill()
        holder.event("at-risk")
        holder.event("lost")
        check_equal(holder.ask("valid"), "0", "valid after the loss")
        redis.start()
        holder.release("ELOST")
        next_one.open(redis.url())
        check(next_one.acquire("n", wait_ms=20000).fence > first, "fences rise")


@case
def a_server_that_forgets_grants_nothing_before_restart_wait(world):
    for recipe in ("fair", "set"):
        with setting(world, 3, persist="none") as (redis, holder, asker, patient):
            url = redis.url(recipe=recipe, restart_wait=f"{WAIT_S}s")
            holder.open(url, require=["durable"])
            first = holder.acquire("n", lease_ms=2000, wait_ms=30000).fence
            check(uptime_s(redis) >= WAIT_S, "the first grant came too early")
            restart(redis)
            asker.open(url)
            asker.acquire("n", "EUNREACHABLE", "the server was restarted: nothing is granted for"
                          " another", lease_ms=2000, wait_ms=300)
            check_equal(redis.keys(), [], "what was taken")
            check_equal(holder.event("lost") != "", True, "a cause")
            holder.release("ELOST")
            patient.open(url)
            second = patient.acquire("n", lease_ms=2000, wait_ms=30000).fence
            check(uptime_s(redis) >= WAIT_S, "a grant came too early")
            check(second > first, "fences rise")


@case
def a_lease_longer_than_restart_wait_is_refused(world):
    with setting(world, 1, persist="none") as (redis, client):
        url = redis.url(restart_wait="1s")
        client.open(url)
        client.acquire("n", "EINVAL", "a lease of 1001 ms is longer than restart_wait (1000 ms)",
                       lease_ms=1001)
        check_run(world, USAGE, ["is longer than restart_wait"], url)
        client.acquire("n", lease_ms=1000, wait_ms=30000)
        client.do("extend 5000", "EINVAL", "extend: redis: a lease of 5000 ms is longer than")
        client.do("extend 1000")


@case
def restart_wait_promises_durable_and_not_fences(world):
    with setting(world, 4, persist="none") as (redis, durable, fence, none, nonsense):
        url = redis.url(restart_wait="1s")
        durable.open(url, require=["durable"])
        check_equal(durable.promises() & {"durable", "fence"}, {"durable"}, "promises")
        fence.open(url, "EPROMISE", "does not promise fence here: the server keeps no log",
                   require=["fence", "durable"])
        none.open(redis.url(), "EPROMISE", "does not promise durable here: the server keeps no log",
                  require=["durable"])
        nonsense.open(redis.url(restart_wait="soon"), "EURL", "restart_wait='soon' is no duration")


@case
def without_restart_wait_a_holder_that_was_forgotten_is_told(world):
    for recipe in RECIPES:
        with setting(world, 2, persist="none") as (redis, holder, next_one):
            holder.open(redis.url(recipe=recipe))
            first = holder.acquire("n", lease_ms=2000).fence
            restart(redis)
            next_one.open(redis.url(recipe=recipe))
            second = next_one.acquire("n", wait_ms=20000).fence
            check(second > first or recipe == "getset", "fences rise by the clock")
            check_equal(holder.event("lost") != "", True, "a cause")
            holder.release("ELOST")
            next_one.release()
