"""Threads that share a client: what they give back at about the same time goes together."""

from client import Answer
from etcd import text_of
from harness import case, check, check_equal
from setting import LONG_MS, ROOT, check_empty, claims, setting

THREADS = 16
TURNS = 50
COUNT = 16
AUTH = ("app", "of-the-threads", ROOT)


def calls(here, method):
    """So many of them were answered since the server began."""
    return here.store.metric(f'grpc_server_handled_total{{grpc_code="OK",grpc_method="{method}"')


def scatter(here, client):
    """What each of those that were gathered is answered, while the network takes its time: so some
    wait for the answers to others."""
    here.proxy.tell("delay 5")
    told = [Answer(number).status for number in client.ask("scatter").split()]
    here.proxy.tell("pass")
    return told


@case
def keys_are_deleted_together(world):
    with setting(world, 1, through=True) as (here, client):
        here.open(client)
        here.proxy.tell("delay 1")
        check_equal(client.ask(f"turns {THREADS} {TURNS} n"), f"{THREADS * TURNS} 0", "turns")
        alone = calls(here, "DeleteRange")
        check(alone < THREADS * TURNS / 2, f"{alone} were deleted alone")
        check_empty(here)


@case
def a_server_that_takes_only_short_transactions_gets_short_ones(world):
    with setting(world, 1, through=True, config={"max-txn-ops": 3}) as (here, client):
        here.open(client)
        client.do(f"gather {COUNT} {LONG_MS} n")
        check_equal(scatter(here, client), ["OK"] * COUNT, "what they were answered")
        check(calls(here, "DeleteRange") > 0, "some were deleted alone")
        check_empty(here)


@case
def one_whose_right_was_taken_away_does_not_keep_the_others(world):
    with setting(world, 1, through=True, auth=AUTH) as (here, client):
        here.open(client)
        client.do(f"gather {COUNT} {LONG_MS} n")
        kept, end = ROOT + "n-7/", ROOT + "n-70"
        for start, stop in ((ROOT, kept), (end, "holdfast0")):
            here.store.call("auth/role/grant", name="lockers", perm={
                "permType": "READWRITE", "key": text_of(start), "range_end": text_of(stop)})
        here.store.call("auth/role/revoke", role="lockers", key=text_of(ROOT),
                        range_end=text_of("holdfast0"))
        told = scatter(here, client)
        check(told[7] in ("EUNKNOWN", "EDENIED"), f"the one: {told[7]}")
        check_equal(told[:7] + told[8:], ["OK"] * (COUNT - 1), "the others")
        check_equal([key.startswith(kept) for key in claims(here)], [True], "keys that are left")


def tokens(here):
    """{lock: token}"""
    return dict(key.rsplit("/", 1) for key in claims(here))


@case
def a_lock_mostly_gets_its_own_key_again(world):
    """Else each line would come to have the keys of all, which the server has to go through."""
    with setting(world, 1, through=True) as (here, client):
        here.open(client)
        client.do(f"gather {COUNT} {LONG_MS} n")
        before = tokens(here)
        check_equal(len(set(before.values())), COUNT, "tokens")
        check_equal(scatter(here, client), ["OK"] * COUNT, "what they were answered")
        client.do(f"gather {COUNT} {LONG_MS} n")
        after = tokens(here)
        check_equal(set(after.values()), set(before.values()), "tokens, again")
        same = sum(after[lock] == token for lock, token in before.items())
        check(same > COUNT / 2, f"only {same} of {COUNT} have the key that they had")
        check_equal(scatter(here, client), ["OK"] * COUNT, "what they were answered, again")
        check_empty(here)
