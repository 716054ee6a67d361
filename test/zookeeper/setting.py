"""Where the cases of this folder play: servers, proxies before them, clients, a look inside."""

import contextlib
import os
import re
import time

import servers
import tree
from client import Client
from harness import wait_until
from proxy import Proxy
from zookeeper import ZooKeeper, ZooKeeperThree

RECIPES = ("sequence", "node")
ROOT = "/holdfast"
LEASE_MS = 3000  # a session that a case can wait for the end of
LONG_MS = 20000  # one that outlasts what is done to it
OWN = re.compile(r"([rw])-([0-9a-f]{16})-([0-9a-f]{32})-(-?\d{10})")


class Setting:
    """One ZooKeeper, or three; `proxies` before each if they were asked for."""

    def __init__(self, world, stack, store, through):
        self.world, self.stack, self.store = world, stack, store
        self.servers = getattr(store, "servers", [store])
        self.sessions = {}  # of clients that were opened here
        program = os.path.join(os.path.dirname(world.command), "test", "proxy", "proxy")
        self.proxies = [stack.enter_context(Proxy(program, port, speech=store.speech))
                        for port in (store.ports if through else [])]

    @property
    def proxy(self):
        return self.proxies[0]

    def url(self, through=True, **options):
        """Through the proxies, if there are any and nothing else is said."""
        at = [f"127.0.0.1:{proxy.port}" for proxy in self.proxies] if through else None
        return self.store.url(at=at or None, **options)

    def client(self):
        return self.stack.enter_context(Client(self.world))

    def connected(self):
        """The sessions that any of the servers has a connection of."""
        return {session_id for server in self.servers if server.process
                for session_id in tree.connections(server)}

    def open(self, client, url, lease_ms=LONG_MS, **options):
        """With a session of this length; returns its number."""
        before = self.connected()
        client.do(f"lease {lease_ms}")
        client.open(url, **options)
        self.sessions[client], = self.connected() - before
        return self.sessions[client]

    def stand(self, client, name="n", lease_ms=30000):
        """In line, for as long as it takes; returns when it watches whom it waits for."""
        client.do(f"start {lease_ms} -1 {name}")
        wait_until(lambda: any(self.watches_somebody(server, self.sessions[client])
                               for server in self.servers if server.process), "it stands in line")

    @staticmethod
    def watches_somebody(server, session_id):
        somebody = {path for paths in tree.ephemerals(server).values() for path in paths}
        return any(session_id in watchers and path in somebody
                   for path, watchers in tree.watches(server).items())

    def look(self, server=None):
        """A session that sees everything. It lasts as long as the setting."""
        return self.stack.enter_context(tree.Session(server or self.servers[0], timeout_ms=60000))


@contextlib.contextmanager
def setting(world, clients=1, kind=ZooKeeper, through=False, **options):
    """[setting, client ...]. Sessions may last as long as they like."""
    options = {"sessions": (1000, 60000), **options}
    with servers.Place() as place, contextlib.ExitStack() as stack:
        made = Setting(world, stack, place.add(kind, **options), through)
        yield [made] + [made.client() for _ in range(clients)]


def three(world, clients=1, **options):
    return setting(world, clients, kind=ZooKeeperThree, **options)


def path_of(name, child=""):
    return f"{ROOT}/{name}" + ("/" + child if child else "")


def sequence_of(child):
    return int(OWN.fullmatch(child).group(4))


def line(look, name="n"):
    """Our nodes of this lock, in the order of their numbers."""
    children = [child for child in look.children(path_of(name)) or [] if OWN.fullmatch(child)]
    return sorted(children, key=sequence_of)


def wait_line(look, count, name="n"):
    """Until so many stand in line; returns them."""
    wait_until(lambda: len(line(look, name)) == count, f"{count} in line")
    return line(look, name)


def owner_of(look, child, name="n"):
    stat = look.stat(path_of(name, child))
    return stat.owner if stat else None


def check_empty(setting, what="nodes that were left"):
    """Nobody holds, nobody waits: no node is anybody's."""
    def found():
        return {path for server in setting.servers if server.process and server.mode()
                for paths in tree.ephemerals(server).values() for path in paths}

    wait_until(lambda: not found(), what)


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
