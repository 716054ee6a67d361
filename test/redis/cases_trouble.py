"""Every refusal of a real server, provoked, and what a program is told."""

import os
import threading

import servers
from client import Answer, check_run
from harness import case, check, check_equal, wait_until
from setting import RECIPES, setting

BUSY, UNREACHABLE, PROTOCOL = 75, 69, 76
LOADED_KEYS = 50000


def slow_to_load(redis):
    """Started again, it loads until `key-load-delay` is taken away."""
    redis.call("EVAL", "for i = 1, ARGV[1] do redis.call('SET', 'k' .. i, i) end", "0", LOADED_KEYS)
    redis.kill()
    redis.options["config"] = {"key-load-delay": "500",
                               "loading-process-events-interval-bytes": "1024"}
    redis.launch()
    wait_until(lambda: is_loading(redis), "the server loads")


def is_loading(redis):
    try:
        return "loading:1" in redis.call("INFO", "persistence")
    except (OSError, servers.ServerError):
        return False


@case
def a_server_that_loads_is_waited_for(world):
    with setting(world, 3) as (redis, early, patient, holder):
        holder.open(redis.url())
        fence = holder.acquire("n", lease_ms=60000).fence
        slow_to_load(redis)
        early.open(redis.url(), "EUNREACHABLE", "the server is still loading its data (LOADING",
                   connect_ms=3000)
        patient.send(f"open 60000 0 {redis.url()}")
        check_equal(holder.ask("valid"), "1", "valid while it loads")
        redis.call("CONFIG", "SET", "key-load-delay", "0")
        check_equal(Answer(patient.hear()).status, "OK", "the open that waited")
        patient.acquire("n", "EBUSY", wait_ms=0)
        holder.release()
        check(patient.acquire("n", wait_ms=20000).fence > fence, "fences rise")


@case
def a_server_that_became_a_replica_takes_and_keeps_nothing(world):
    with setting(world, 2) as (redis, holder, asker):
        holder.open(redis.url())
        asker.open(redis.url())
        holder.acquire("n", lease_ms=2000)
        redis.call("REPLICAOF", "127.0.0.1", redis.port)
        asker.acquire("other", "EDENIED", "the server is a replica, which takes no locks (READONLY",
                      wait_ms=10000)
        holder.event("at-risk")
        holder.event("lost")
        check_equal(holder.ask("valid"), "0", "valid after the loss")
        holder.release("ELOST")


@case
def a_server_that_cannot_save_is_waited_for(world):
    with setting(world, 5, persist="none", config={"save": "3600 1"}) as (redis, *clients):
        os.chmod(redis.folder, 0o555)
        redis.call("SET", "something", "1")
        redis.call("BGSAVE")
        wait_until(lambda: "rdb_last_bgsave_status:err" in redis.call("INFO", "persistence"),
                   "a save that fails")
        for client, recipe in zip(clients, RECIPES):
            client.open(redis.url(recipe=recipe))
            client.acquire("n", "EUNREACHABLE", "the server cannot write its data to disk, and"
                           " refuses changes (MISCONF", wait_ms=300)
        check_run(world, UNREACHABLE, ["cannot write its data to disk"], redis.url(), "-w", "300ms")
        clients[4].open(redis.url())
        clients[4].send("acquire 30000 -1 n")
        redis.call("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
        check_equal(Answer(clients[4].hear()).status, "OK", "the claim that waited")
        os.chmod(redis.folder, 0o755)


@case
def a_server_that_misses_its_replicas_is_waited_for(world):
    with setting(world, 1) as (redis, client):
        client.open(redis.url())
        redis.call("CONFIG", "SET", "min-replicas-to-write", "1")
        client.acquire("n", "EUNREACHABLE", "the server has too few replicas, and refuses changes"
                       " (NOREPLICAS", wait_ms=300)
        client.send("acquire 30000 -1 n")
        redis.call("CONFIG", "SET", "min-replicas-to-write", "0")
        check_equal(Answer(client.hear()).status, "OK", "the claim that waited")


@case
def a_server_whose_memory_is_full_has_reached_a_limit(world):
    with setting(world, 4) as (redis, *clients):
        for client, recipe in zip(clients, RECIPES):
            client.open(redis.url(recipe=recipe))
        redis.call("CONFIG", "SET", "maxmemory", "1mb")
        for client in clients:
            client.acquire("n", "ELIMIT", "the server's memory is full (maxmemory) (OOM")
        check_run(world, BUSY, ["the server's memory is full"], redis.url())
        check_equal(redis.keys(), [], "what was left")
        redis.call("CONFIG", "SET", "maxmemory", "0")
        for client in clients:
            client.acquire("n")
            client.release()


@case
def whoever_holds_when_memory_is_full_goes_on_and_leaves(world):
    for recipe in ("fair", "set"):
        with setting(world, 1) as (redis, client):
            client.open(redis.url(recipe=recipe))
            client.acquire("n", lease_ms=60000)
            redis.call("CONFIG", "SET", "maxmemory", "1mb")
            client.do("extend 60000")
            client.release()
            check_equal([key for key in redis.keys() if key in ("n", "hf:{n}")], [], "what is left")


@case
def whoever_holds_when_changes_are_refused_is_at_risk_until_they_are_taken_again(world):
    with setting(world, 1) as (redis, client):
        client.open(redis.url())
        fence = client.acquire("n", lease_ms=30000).fence
        redis.call("CONFIG", "SET", "min-replicas-to-write", "1")
        client.do("extend 30000", "EUNREACHABLE", "the server has too few replicas")
        client.event("at-risk")
        check_equal(client.ask("valid"), "1", "valid in the meantime")
        check_equal(client.do("list *").text, "1", "those who are listed")
        client.do(f"break {fence} n", "EUNREACHABLE", "the server has too few replicas")
        redis.call("CONFIG", "SET", "min-replicas-to-write", "0")
        client.event("safe")
        client.release()


@case
def what_a_user_may_no_longer_do_is_named_to_who_holds(world):
    with setting(world, 1, acl=("app", "x", "~* &* +@all")) as (redis, client):
        client.open(redis.url())
        fence = client.acquire("n", lease_ms=2000).fence
        redis.call("ACL", "SETUSER", "app", "-eval", "-scan")
        client.do("extend 2000", "EDENIED", "the user lacks a right", "'eval' command")
        client.do(f"break {fence} n", "EDENIED", "'eval' command")
        client.do("list *", "EDENIED", "'scan' command")
        client.event("at-risk")
        client.event("lost")
        client.release("ELOST")


@case
def a_server_of_a_cluster_is_not_supported(world):
    with setting(world, 1, config={"cluster-enabled": "yes"}) as (redis, client):
        client.open(redis.url(), "EUNSUPPORTED", "belongs to a Redis Cluster")


def long_script(redis):
    """Keeps the server busy until SCRIPT KILL."""
    def play():
        try:
            redis.call("EVAL", "while true do end", "0")
        except servers.ServerError:
            pass

    thread = threading.Thread(target=play)
    redis.call("CONFIG", "SET", "busy-reply-threshold", "20")
    thread.start()
    wait_until(lambda: is_busy(redis), "the server is busy")
    return thread


def is_busy(redis):
    try:
        redis.call("GET", "x")
    except servers.ServerError as error:
        return str(error).startswith("BUSY")
    return False


@case
def a_server_that_is_busy_with_a_script_is_waited_for(world):
    with setting(world, 3) as (redis, holder, asker, stranger):
        holder.open(redis.url())
        asker.open(redis.url())
        holder.acquire("n", lease_ms=60000)
        thread = long_script(redis)
        stranger.open(redis.url(), "EUNREACHABLE", "the server is busy with another program's"
                      " script (BUSY", connect_ms=300)
        asker.acquire("free", "EUNREACHABLE", "the server is busy with another program's script"
                      " (BUSY", wait_ms=300)
        asker.send("acquire 30000 -1 free")
        check_equal(holder.ask("valid"), "1", "valid while it is busy")
        redis.call("SCRIPT", "KILL")
        thread.join()
        check_equal(Answer(asker.hear()).status, "OK", "the claim that waited")
        holder.release()


def foreign_keys(recipe):
    """Where something else may lie than what the recipe expects."""
    if recipe == "fair":
        return ["hf:{n}", "hf:{n}:q", "hf:{n}:s", "hf:{n}:f"]
    return ["n", "hf:key:{n}"]


@case
def another_type_in_the_place_of_a_lock_is_told_and_left_alone(world):
    for recipe in RECIPES:
        with setting(world, 1) as (redis, client):
            client.open(redis.url(recipe=recipe))
            for key in foreign_keys(recipe):
                redis.call("SADD" if key != "hf:{n}:s" else "LPUSH", key, "foreign")
                client.acquire("n", "EPROTOCOL", "a key of this lock belongs to another program"
                               " (WRONGTYPE", wait_ms=2000)
                # getset cannot undo what it has no record of: its time ends it.
                left = [key] if recipe != "getset" else sorted({key, "n"})
                wait_until(lambda: redis.keys() == left, f"{recipe} {key}: only {left} is left")
                redis.call("DEL", key, "n")
            client.acquire("n")


@case
def a_lock_that_another_program_overwrote_is_lost(world):
    for recipe in RECIPES:
        with setting(world, 2) as (redis, client, releaser):
            key = "hf:{n}" if recipe == "fair" else "n"
            client.open(redis.url(recipe=recipe))
            client.acquire("n", lease_ms=1000)
            redis.call("DEL", key)
            redis.call("SADD", key, "foreign")
            check_equal(client.event("lost") != "", True, "a cause")
            client.release("ELOST")
            redis.call("DEL", key)
            releaser.open(redis.url(recipe=recipe))
            releaser.acquire("n", lease_ms=60000)
            redis.call("DEL", key)
            redis.call("SADD", key, "foreign")
            releaser.release("ELOST")
            check_equal(redis.call("TYPE", key), "set", "what the other program wrote")


@case
def a_lock_that_was_deleted_was_not_ours_until_now(world):
    for recipe in RECIPES:
        with setting(world, 1) as (redis, client):
            client.open(redis.url(recipe=recipe))
            client.acquire("n", lease_ms=60000)
            redis.call("DEL", "hf:{n}" if recipe == "fair" else "n")
            client.release("ELOST")


@case
def one_lock_that_was_overwritten_costs_no_other_its_lease(world):
    for recipe in RECIPES:
        with setting(world, 1) as (redis, client):
            client.open(redis.url(recipe=recipe))
            client.do("start 1000 -1 victim")
            client.do("wait -1")
            client.acquire("kept", lease_ms=1000)
            key = "hf:{victim}" if recipe == "fair" else "victim"
            redis.call("DEL", key)
            redis.call("SADD", key, "foreign")
            wait_until(lambda: client.ask("event").startswith("lost"), "the loss of the victim")
            check_equal(client.ask("valid"), "1", f"{recipe}: the other lock")
            client.release()


@case
def one_lock_that_was_overwritten_costs_nobody_its_place_in_another_line(world):
    with setting(world, 2) as (redis, holder, waiter):
        keys = [key.replace("n", f"n{i}") for i, key in enumerate(foreign_keys("fair"))]
        victims = [f"n{i}" for i in range(len(keys))]
        for client in (holder, waiter):
            client.open(redis.url())
        for name in victims + ["kept"]:
            holder.acquire(name)
        for name in victims + ["kept"]:  # refreshed together, as long as they wait
            waiter.do(f"start 5000 -1 {name}")
        for key in keys:
            redis.call("DEL", key)
            redis.call("HSET", key, "foreign", "1")
        for _ in victims:  # each has its answer
            waiter.event("granted")
        check_equal(Answer(waiter.ask("wait 0")).status, "PENDING", "who waits for another lock")
        holder.release()
        waiter.do("wait -1")


@case
def scripts_that_the_server_forgot_are_loaded_again(world):
    for recipe in RECIPES:
        with setting(world, 2) as (redis, holder, waiter):
            holder.open(redis.url(recipe=recipe))
            waiter.open(redis.url(recipe=recipe))
            redis.call("SCRIPT", "FLUSH")
            first = holder.acquire("n", lease_ms=1000).fence
            redis.call("SCRIPT", "FLUSH")
            waiter.do("start 1000 -1 n")
            redis.call("SCRIPT", "FLUSH")
            holder.do("extend 5000")
            redis.call("SCRIPT", "FLUSH")
            check_equal(holder.do("list *").text.split()[0] != "0", True, "those who are listed")
            redis.call("SCRIPT", "FLUSH")
            holder.release()
            redis.call("SCRIPT", "FLUSH")
            check(waiter.do("wait -1").fence > first or recipe == "getset", "fences rise")
            redis.call("SCRIPT", "FLUSH")
            waiter.release()


@case
def connections_that_are_killed_are_made_again(world):
    for recipe in RECIPES:
        with setting(world, 2) as (redis, holder, waiter):
            holder.open(redis.url(recipe=recipe))
            waiter.open(redis.url(recipe=recipe))
            first = holder.acquire("n", lease_ms=3000).fence
            waiter.do("start 3000 -1 n")
            for _ in range(3):
                for kind in ("normal", "pubsub"):
                    redis.call("CLIENT", "KILL", "TYPE", kind)
                check_equal(holder.ask("valid"), "1", "valid while it connects again")
            wait_until(lambda: Answer(holder.ask("extend 3000")).status == "OK", "it is back")
            check_equal(Answer(waiter.ask("wait 0")).status, "PENDING", "who waits")
            holder.release()
            check(waiter.do("wait -1").fence > first or recipe == "getset", "fences rise")
            waiter.release()
