"""Where the cases of this folder play."""

import contextlib

import servers
from client import Client

RECIPES = ("fair", "set", "setnx", "getset")


@contextlib.contextmanager
def setting(world, clients=1, **options):
    """A Redis with these options, and so many clients: [redis, client ...]."""
    with servers.Place() as place, contextlib.ExitStack() as stack:
        redis = place.add(servers.Redis, **options)
        yield [redis] + [stack.enter_context(Client(world)) for _ in range(clients)]
