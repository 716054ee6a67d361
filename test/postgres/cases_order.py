"""Who is next, when many wait in several processes and some of them die?"""

from crowd import check_order
from harness import case
from setting import setting


def serve_in_order(world, recipe):
    with setting(world) as (here, holder):
        here.open(holder, recipe=recipe)
        check_order(world, holder, here.store.url(recipe=recipe))


@case
def fifty_waiters_of_ten_processes_are_served_in_order_though_one_is_killed(world):
    serve_in_order(world, "queue")


@case
def fifty_sessions_of_ten_processes_are_served_in_order_though_one_is_killed(world):
    serve_in_order(world, "advisory")
