"""Who may be counted among the servers of redlock, when they are new, and when they were made a
quorum only halfway."""

import contextlib
import itertools

import servers
from client import Answer, Client
from harness import case, check, wait_until

BLANK, FOUNDING, COUNTED = "blank", "founding", "counted"
OTHER_RUN = "0123456789abcdef" * 2 + "01234567"


@contextlib.contextmanager
def quorum(world, states, run=None, **options):
    """Three servers in these states, and a client."""
    with servers.Place() as place, Client(world) as client:
        redlock = place.add(servers.RedLock, count=len(states), **options)
        for server, state in zip(redlock.servers, states):
            own = server.call("INFO", "server").split("run_id:")[1].split()[0]
            note = {FOUNDING: "founding", COUNTED: "0 0 0"}.get(state)
            if note:
                server.call("SET", "hf:@node", f"{note} {run or own}")
        client.open(redlock.url())
        yield redlock, client


def is_served(states):
    """At once, or when what the blank one may have forgotten is over."""
    told = len(states) - states.count(BLANK)
    return COUNTED not in states or told > len(states) // 2


@case
def a_quorum_that_was_made_halfway_is_made(world):
    for states in itertools.combinations_with_replacement((BLANK, FOUNDING, COUNTED), 3):
        if not is_served(states):
            continue
        with quorum(world, states) as (redlock, client):
            answers = []
            wait_until(lambda: answers.append(Answer(client.ask("acquire 30000 -1 n"))) or
                       answers[-1].status == "OK", f"{states}: it is granted")
            fence = answers[-1].fence
            client.release()
            check(client.acquire("n").fence > fence, f"{states}: fences rise")
            client.release()
            wait_until(lambda: all((server.call("GET", "hf:@node") or "none")[0].isdigit()
                                   for server in redlock.servers), f"{states}: all are counted")


@case
def servers_that_may_have_forgotten_are_not_taken_for_new_ones(world):
    for states in ((COUNTED, BLANK, BLANK), (BLANK, BLANK, COUNTED)):
        with quorum(world, states) as (_, client):
            client.acquire("n", "EUNREACHABLE", "is new or has forgotten its locks", wait_ms=7000)


@case
def a_note_of_another_run_is_worth_nothing_without_a_whole_log(world):
    states = (FOUNDING, FOUNDING, COUNTED)
    with quorum(world, states, OTHER_RUN) as (_, client):  # appendfsync always
        client.acquire("n")
    with quorum(world, states, OTHER_RUN, persist="none") as (_, client):
        client.acquire("n", "EUNREACHABLE", "is new or has forgotten its locks", wait_ms=1000)
