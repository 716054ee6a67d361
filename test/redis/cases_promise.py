"""What a server promises, as it is configured, and whoever requires more is refused."""

import contextlib

import servers
from client import Client, check_run
from harness import case, check_equal
from setting import setting

CONFIG, USAGE = 78, 64
KEPT = {"fence", "fair", "wakeup", "shared", "durable", "crash"}
FORGETFUL = {"fence", "durable"}


def check_withheld(world, redis, reason, **options):
    """All but the two are kept; who requires one of the two is told why not."""
    with contextlib.ExitStack() as stack:
        client, fence, durable, other = (stack.enter_context(Client(world)) for _ in range(4))
        client.open(redis.url(**options))
        check_equal(client.promises(), KEPT - FORGETFUL, "promises")
        client.acquire("n")
        fence.open(redis.url(**options), "EPROMISE", "does not promise fence here: " + reason,
                   require=["fence"])
        durable.open(redis.url(**options), "EPROMISE", "does not promise durable here: " + reason,
                     require=["durable", "fair"])
        other.open(redis.url(**options), require=KEPT - FORGETFUL)
    check_run(world, CONFIG, ["does not promise fence durable here: " + reason],
              redis.url(**options), "--require", "fence,durable")
    check_run(world, 0, [], redis.url(**options), "--require", "fair,shared,wakeup,crash",
              name="free")


@case
def a_server_that_logs_always_promises_all(world):
    with setting(world, 1, persist="always") as (redis, client):
        client.open(redis.url(), require=KEPT)
        check_equal(client.promises(), KEPT, "promises")
        check_run(world, 0, [], redis.url(), "--require", "fence,durable")


@case
def a_log_that_may_lack_the_last_second_withholds(world):
    with setting(world, 0, persist="everysec") as (redis,):
        check_withheld(world, redis, "the server's log may lack the last second (appendfsync)")


@case
def a_server_without_a_log_withholds(world):
    with setting(world, 0, persist="none") as (redis,):
        check_withheld(world, redis, "the server keeps no log (appendonly no)")


@case
def snapshots_alone_are_no_log(world):
    with setting(world, 0, persist="none", config={"save": "1 1"}) as (redis,):
        check_withheld(world, redis, "the server keeps no log (appendonly no)")


@case
def a_server_that_evicts_withholds(world):
    for policy in ("allkeys-lru", "volatile-ttl"):
        limits = {"maxmemory": "50mb", "maxmemory-policy": policy}
        with setting(world, 0, config=limits) as (redis,):
            check_withheld(world, redis, "the server may evict locks (maxmemory-policy)")


@case
def a_limit_without_eviction_and_eviction_without_a_limit_withhold_nothing(world):
    for limits in ({"maxmemory": "50mb", "maxmemory-policy": "noeviction"},
                   {"maxmemory": "0", "maxmemory-policy": "allkeys-lru"}):
        with setting(world, 1, config=limits) as (redis, client):
            client.open(redis.url(), require=KEPT)


@case
def a_server_that_does_not_tell_its_configuration_withholds(world):
    with setting(world, 0, acl=("app", "x", "~* &* +@all -config")) as (redis,):
        check_withheld(world, redis, "the server does not tell how it keeps its log (CONFIG GET)")


@case
def a_replica_is_refused(world):
    with setting(world, 2) as (redis, fair, quick):
        replica = redis.place.add(servers.Redis, config={"replicaof": f"127.0.0.1 {redis.port}"})
        fair.open(replica.url(), "EDENIED", "is a replica: locks are taken on its master")
        quick.open(replica.url(recipe="set"), "EDENIED", "is a replica")
        check_run(world, 77, ["is a replica"], replica.url())


@case
def what_a_recipe_never_promises_is_not_blamed_on_the_server(world):
    with setting(world, 2, persist="none") as (redis, failover, queue):
        answer = failover.open(redis.url(), "EPROMISE", require=["failover"])
        check_equal(answer.text, "open: redis fair does not promise failover here", "the text")
        answer = queue.open(redis.url(recipe="set"), "EPROMISE", require=["fair", "shared"])
        check_equal(answer.text, "open: redis set does not promise fair shared here", "the text")
        check_run(world, USAGE, ["no promise is called 'bogus'"], redis.url(), "--require", "bogus")


@case
def the_promise_is_asked_for_again_after_a_restart(world):
    """What was promised when the client was opened need not be true for the server of today."""
    with setting(world, 1, persist="always") as (redis, client):
        client.open(redis.url(), require=["fence"])
        client.acquire("n")
        client.release()
        redis.stop()
        redis.options["persist"] = "everysec"
        redis.start()
        client.acquire("n", "EPROMISE", wait_ms=20000)
