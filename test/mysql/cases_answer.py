"""What the server has committed, and its answer was lost: for every recipe."""

from client import Answer
from harness import case, check, check_equal
from setting import setting

RECIPES = ("queue", "row", "named", "for-update", "version")
LEASE_MS = 2000
NAME = "of-which-the-answer-is-lost"


def each_recipe(function):
    for recipe in RECIPES:
        def play(world, wanted=recipe):
            function(world, wanted)
        play.__name__ = f"{function.__name__}_{recipe.replace('-', '_')}"
        case(play)
    return function


def lose_answer(here, client, order):
    """To the first statement with that name. Returns what the client was answered after all."""
    before = here.proxy.stat()["fates"]
    here.proxy.tell(f"on lose {NAME}")
    answer = Answer(client.ask(order))
    check_equal(here.proxy.stat()["fates"], before + 1, "answers that were lost")
    here.proxy.tell("pass")
    return answer


@each_recipe
def a_claim_whose_answer_was_lost_holds_once_and_is_followed(world, recipe):
    with setting(world, 2, through=True) as (here, client, other):
        here.open_through(client, recipe=recipe)
        here.open(other, recipe=recipe)
        fences = []
        for _ in range(3):
            answer = lose_answer(here, client, f"acquire {LEASE_MS} -1 {NAME}")
            check_equal(answer.status, "OK", "the claim")
            fences.append(answer.fence)
            other.acquire(NAME, "EBUSY", wait_ms=0)
            client.release()
            fences.append(other.acquire(NAME, lease_ms=LEASE_MS).fence)
            other.release()
        check_equal(fences, sorted(set(fences)), "fences in order")


@each_recipe
def a_release_whose_answer_was_lost_lets_the_next_in(world, recipe):
    with setting(world, 2, through=True) as (here, client, other):
        here.open_through(client, recipe=recipe)
        here.open(other, recipe=recipe)
        fences = []
        for _ in range(3):
            fences.append(client.acquire(NAME).fence)
            answer = lose_answer(here, client, "release")
            check(answer.status in ("OK", "EUNKNOWN"), f"the release: {answer}")
            fences.append(other.acquire(NAME).fence)
            other.release()
        check_equal(fences, sorted(set(fences)), "fences in order")
