"""Where the cases of this folder play: servers, proxies before them, clients, a look inside."""

import contextlib
import os
import subprocess
import time

import servers
from client import Answer, Client
from etcd import Etcd, EtcdThree
from harness import check_equal, wait_until
from proxy import Proxy

ROOT = "holdfast/"
LEASE_MS = 3000  # one that a case can wait for the end of
LONG_MS = 30000  # one that outlasts what is done to it


class Setting:
    """One etcd, or three; `proxies` before each if they were asked for."""

    def __init__(self, world, stack, store, through):
        self.world, self.stack, self.store = world, stack, store
        self.servers = getattr(store, "servers", [store])
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

    def look(self):
        """A server that can be looked into: one that leads."""
        if len(self.servers) == 1:
            return self.store
        return self.store.leader()

    def open(self, *clients, through=True, **options):
        for client in clients:
            client.open(self.url(through, **options))

    def open_at(self, client, number):
        """Whom a client goes to is chance: it is opened until it has gone to this one."""
        for _ in range(100):
            before = self.proxies[number].stat()["links"]
            client.open(self.url())
            if self.proxies[number].stat()["links"] > before:
                return
            client.do("close")
        check_equal("another", number, "the server that the client has gone to")

    def stand(self, client, name="n", lease_ms=LONG_MS):
        """In line, for as long as it takes; returns when it is known to be."""
        count = len(line(self, name))
        client.do(f"start {lease_ms} -1 {name}")
        wait_until(lambda: len(line(self, name)) > count and client.ask("position") != "-1",
                   "it stands in line")

    def etcdctl(self, *words, **options):
        """The command, started; the caller ends it."""
        command = ["etcdctl", "--endpoints", f"127.0.0.1:{self.store.ports[0]}", *words]
        return subprocess.Popen(command, env={**self.world.environment, "ETCDCTL_API": "3"},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                **options)


@contextlib.contextmanager
def setting(world, clients=1, kind=Etcd, through=False, **options):
    """[setting, client ...]"""
    with servers.Place() as place, contextlib.ExitStack() as stack:
        made = Setting(world, stack, place.add(kind, **options), through)
        yield [made] + [made.client() for _ in range(clients)]


def three(world, clients=1, **options):
    return setting(world, clients, kind=EtcdThree, **options)


def line(here, name="n", root=ROOT):
    """The keys of this lock, in the order of their making."""
    return here.look().found(f"{root}{name}/")


def wait_line(here, count, name="n", root=ROOT):
    """Until so many stand in line; returns them."""
    wait_until(lambda: len(line(here, name, root)) == count, f"{count} in line")
    return line(here, name, root)


def claims(here):
    """The keys of all claims: the guard of a lease stands in no line."""
    return [key for key in here.look().keys() if not key.rpartition("/")[2].startswith("@")]


def check_empty(here, what="keys that were left"):
    """Nobody holds, nobody waits."""
    wait_until(lambda: not claims(here), f"{what}: {claims(here)}")


def check_nothing(here, *clients, strangers=False):
    """These have closed, and nobody was here; `strangers`: etcdctl was, and lets its leases end by
    themselves."""
    for client in clients:
        client.do("close")
    wait_until(lambda: not here.look().keys(), f"no key: {here.look().keys()}")
    wait_until(lambda: strangers or not here.look().leases(), "no lease")


def check_pending(client, what):
    check_equal(Answer(client.ask("wait 0")).status, "PENDING", what)


def wait_lost(client, cause=None):
    """Until the loss is told."""
    told = wait_until(lambda: (event := client.ask("event")).startswith("lost") and event,
                      "the loss")
    if cause:
        check_equal(told, f"lost {cause}", "the event")


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
