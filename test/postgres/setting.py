"""Where the cases of this folder play: a server, clients, a look inside."""

import contextlib

import servers
from client import Client
from harness import check_equal, wait_until
from postgres import Postgres

LONG_MS = 30000  # a lease that outlasts what is done to its holder
LIVING = r"SELECT lock_name, rank FROM hf_list_1('', '\xff') ORDER BY 1, 2"


class Setting:
    """One PostgreSQL, and the clients of a case."""

    def __init__(self, world, stack, place, **options):
        self.world, self.stack, self.place = world, stack, place
        self.store = place.add(Postgres, **options)

    def client(self):
        return self.stack.enter_context(Client(self.world))

    def open(self, *clients, **options):
        for client in clients:
            client.open(self.store.url(**options))

    def stand(self, client, place, name="n"):
        """In line, for as long as it takes; returns when it is known to be."""
        client.do(f"start {LONG_MS} -1 {name}")
        wait_until(lambda: client.ask("position") == str(place), "it stands in line")

    def living(self):
        return self.store.sql(LIVING)


@contextlib.contextmanager
def setting(world, clients=1, **options):
    """[setting, client ...]"""
    with servers.Place() as place, contextlib.ExitStack() as stack:
        made = Setting(world, stack, place, **options)
        yield [made] + [made.client() for _ in range(clients)]


def check_nothing(here, *clients):
    """These have closed, and nobody holds or waits; the rows of the fences stay."""
    for client in clients:
        client.do("close")
    wait_until(lambda: not here.living(), f"nobody is left: {here.living()}")
    check_equal(here.store.sql("SELECT count(*) FROM hf_place"), [("0",)], "places that are left")
