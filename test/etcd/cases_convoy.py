"""Threads that share a client: what they want at about the same time goes together."""

from client import Answer
from etcd import text_of
from harness import case, check, check_equal, wait_until
from setting import LONG_MS, ROOT, check_empty, claims, line, setting

THREADS = 16
TURNS = 50
COUNT = 16
AUTH = ("app", "of-the-threads", ROOT)


def calls(here, method):
    """So many of them were answered since the server began."""
    return here.store.metric(f'grpc_server_handled_total{{grpc_code="OK",grpc_method="{method}"')


def statuses(here, client, order):
    """What each of several threads is answered, while the network takes its time: so some wait for
    the answers to others."""
    here.proxy.tell("delay 5")
    told = [Answer(number).status for number in client.ask(order).split()]
    here.proxy.tell("pass")
    return told


def muster(here, client):
    return statuses(here, client, f"muster {COUNT} {LONG_MS} n")


def scatter(here, client):
    return statuses(here, client, "scatter")


def take_turns(here, client):
    check_equal(muster(here, client), ["OK"] * COUNT, "what they were answered")
    check_equal(scatter(here, client), ["OK"] * COUNT, "what they were answered, again")


@case
def many_turns_go_by_few_transactions(world):
    with setting(world, 1, through=True) as (here, client):
        here.open(client)
        here.proxy.tell("delay 1")
        check_equal(client.ask(f"turns {THREADS} {TURNS} n"), f"{THREADS * TURNS} 0", "turns")
        asked = calls(here, "Txn") + calls(here, "DeleteRange")
        check(asked < THREADS * TURNS, f"{asked} questions for {THREADS * TURNS} turns")
        check_empty(here)


@case
def what_one_thread_starts_goes_by_few_transactions(world):
    with setting(world, 1, through=True) as (here, client):
        here.open(client)
        here.proxy.tell("delay 20")
        for _ in range(5):
            check_equal(client.ask(f"volley {COUNT} {LONG_MS} n"), f"{COUNT} {COUNT}", "turns")
        asked = calls(here, "Txn") + calls(here, "DeleteRange")
        check(asked < 5 * COUNT, f"{asked} questions for {5 * COUNT} turns")
        check_empty(here)


@case
def a_server_that_takes_only_short_transactions_gets_short_ones(world):
    with setting(world, 1, through=True, config={"max-txn-ops": 3}) as (here, client):
        here.open(client)
        for _ in range(2):
            take_turns(here, client)
        check(calls(here, "DeleteRange") > 0, "some were deleted alone")
        check_empty(here)


def take_right(here):
    """To n-7 alone; returns the key that its claims begin with."""
    kept, end = ROOT + "n-7/", ROOT + "n-70"
    for start, stop in ((ROOT, kept), (end, "holdfast0")):
        here.store.call("auth/role/grant", name="lockers", perm={
            "permType": "READWRITE", "key": text_of(start), "range_end": text_of(stop)})
    here.store.call("auth/role/revoke", role="lockers", key=text_of(ROOT),
                    range_end=text_of("holdfast0"))
    return kept


@case
def one_whose_right_was_taken_away_does_not_keep_the_others(world):
    with setting(world, 1, through=True, auth=AUTH) as (here, client):
        here.open(client)
        check_equal(muster(here, client), ["OK"] * COUNT, "what they were answered")
        kept = take_right(here)
        told = scatter(here, client)
        check(told[7] in ("EUNKNOWN", "EDENIED"), f"the one: {told[7]}")
        check_equal(told[:7] + told[8:], ["OK"] * (COUNT - 1), "the others")
        check_equal([key.startswith(kept) for key in claims(here)], [True], "keys that are left")


@case
def one_that_has_no_right_does_not_keep_the_others_from_coming(world):
    with setting(world, 1, through=True, auth=AUTH) as (here, client):
        here.open(client)
        take_turns(here, client)
        take_right(here)
        told = muster(here, client)
        check(told[7] in ("EUNKNOWN", "EDENIED"), f"the one: {told[7]}")
        check_equal(told[:7] + told[8:], ["OK"] * (COUNT - 1), "the others")


@case
def one_that_another_holds_does_not_keep_the_others(world):
    with setting(world, 2, through=True) as (here, client, other):
        here.open(client)
        here.open(other, through=False)
        take_turns(here, client)
        other.do(f"acquire {LONG_MS} 0 n-7")
        told = muster(here, client)
        check_equal(told[7], "EBUSY", "the one")
        check_equal(told[:7] + told[8:], ["OK"] * (COUNT - 1), "the others")
        check_equal(len(claims(here)), COUNT, "keys")


@case
def claims_whose_answer_is_lost_are_asked_again_or_undone(world):
    """With one answer the fate of all is unknown that travelled together."""
    with setting(world, 1, through=True) as (here, client):
        here.open(client)
        for _ in range(3):
            take_turns(here, client)
            lost = here.proxy.stat()["lost"]
            here.proxy.tell(f"on lose {ROOT}n-7/")
            told = [Answer(number).status
                    for number in client.ask(f"muster {COUNT} {LONG_MS} n").split()]
            check(here.proxy.stat()["lost"] > lost, "an answer was lost")
            check(set(told) <= {"OK", "EUNKNOWN", "EUNREACHABLE"}, f"what they were told: {told}")
            here.proxy.tell("pass")
            wait_until(lambda: len(claims(here)) == told.count("OK"), "the others are undone")
            scatter(here, client)  # NULL is given back, too
            check_empty(here)


@case
def keys_of_one_revision_are_told_apart_by_their_locks(world):
    """They have the same fence: what was taken together is still broken one by one."""
    with setting(world, 2, through=True) as (here, client, other):
        here.open(client)
        here.open(other, through=False)
        check_equal(muster(here, client), ["OK"] * COUNT, "what they were answered")
        fences = {f"n-{i}": line(here, f"n-{i}")[0].revision * 256 for i in range(COUNT)}
        check(len(set(fences.values())) < COUNT, f"some were made together: {fences}")
        other.do(f"break {fences['n-3']} n-3")
        told = scatter(here, client)
        check_equal(told[3], "ELOST", "the one")
        check_equal(told[:3] + told[4:], ["OK"] * (COUNT - 1), "the others")
        check_empty(here)


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
