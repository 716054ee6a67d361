"""Where the cases of this folder play: a server, a proxy before it, clients, a look inside."""

import contextlib
import os

import servers
from client import Client
from harness import check_equal, wait_until
from mariadb import MariaDB
from proxy import Proxy

LONG_MS = 30000  # a lease that outlasts what is done to its holder
NOW = "timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))"
LIVING = (f"SELECT name, 0 FROM hf_lock WHERE ends_us > {NOW}"
          f" UNION ALL SELECT name, ticket FROM hf_place WHERE ends_us > {NOW}")


class Setting:
    """One MariaDB, and the clients of a case; `through`: with a proxy before it."""

    def __init__(self, world, stack, place, kind=MariaDB, through=False, **options):
        self.world, self.stack, self.place = world, stack, place
        self.store = place.add(kind, **options)
        program = os.path.join(os.path.dirname(world.command), "test", "proxy", "proxy")
        self.proxy = (stack.enter_context(Proxy(program, self.store.port, speech=None))
                      if through else None)

    def client(self):
        return self.stack.enter_context(Client(self.world))

    def open(self, *clients, **options):
        for client in clients:
            client.open(self.store.url(**options))

    def open_through(self, client, **options):
        client.open(self.store.url(at=[f"127.0.0.1:{self.proxy.port}"], **options))

    def stand(self, client, place, name="n", lease_ms=LONG_MS):
        """In line, for as long as it takes; returns when it is known to be."""
        client.do(f"start {lease_ms} -1 {name}")
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
    check_equal(here.store.sql("SELECT count(*) FROM hf_lock WHERE places > 0"), [("0",)],
                "places that are counted")
