"""Many who change one thing, while leases end and members change: no update is lost."""

import contextlib
import os
import threading
import time

from client import Answer
from etcd import Etcd
from harness import Failure, case, check, check_equal, wait_until
from servers import ServerError, free_port
from setting import LEASE_MS, check_empty, line, setting, three

CLIENTS = 8
RUN_S = 6


class Set:
    """What the lock guards: it takes nothing from whoever was overtaken."""

    def __init__(self):
        self.lock = threading.Lock()
        self.fence, self.fences, self.members, self.refused = 0, [], (), 0

    def read(self, fence):
        """Their fence, and those before it are over."""
        with self.lock:
            if fence < self.fence:
                self.refused += 1
                return None
            if fence > self.fence:
                self.fences.append(fence)
            self.fence = fence
            return self.members

    def write(self, fence, members):
        with self.lock:
            if fence != self.fence:
                self.refused += 1
                return False
            self.members = members
            return True


class Appender(threading.Thread):
    """Takes the lock, reads the set, and writes it with one more; again and again."""

    def __init__(self, client, guarded, number, until):
        super().__init__(daemon=True)
        self.client, self.guarded, self.number, self.until = client, guarded, number, until
        self.written, self.turns, self.trouble = [], 0, None

    def run(self):
        try:
            while time.monotonic() < self.until:
                self.take_turn()
        except Exception as trouble:  # pylint: disable=broad-except
            self.trouble = trouble

    def take_turn(self):
        answer = Answer(self.client.ask(f"acquire {LEASE_MS} 5000 n"))
        if answer.status != "OK":
            return
        self.turns += 1
        members, mine = self.guarded.read(answer.fence), (self.number, self.turns)
        if members is not None:
            time.sleep(0.002)  # somebody else may come meanwhile, if anybody may
            if self.client.ask("valid") == "1" and (
                    self.guarded.write(answer.fence, members + (mine,))):
                self.written.append(mine)
        self.client.ask("release")


@contextlib.contextmanager
def appending(here, clients, seconds=RUN_S):
    """[the set, those who append]; at the end none of their updates is missing."""
    guarded, until = Set(), time.monotonic() + seconds
    those = [Appender(client, guarded, number, until) for number, client in enumerate(clients)]
    for one in those:
        one.start()
    yield guarded, those
    for one in those:
        one.join()
        check(one.trouble is None, f"{one.trouble!r}")
        check(one.written, f"the updates of client {one.number}")
    written = [mine for one in those for mine in one.written]
    check_equal(sorted(guarded.members), sorted(written), "the set")
    check_equal(guarded.fences, sorted(set(guarded.fences)), "fences in their order")
    print(f"{len(written)} updates, {guarded.refused} refused by the fence", flush=True)
    check_empty(here)


@case
def a_set_loses_no_update_though_leases_are_revoked_while_others_wait(world):
    """The workload by which Jepsen found the mistake in etcd's own lock."""
    with setting(world, CLIENTS) as (here, *clients):
        here.open(*clients)
        revoked = 0
        with appending(here, clients) as (_, those):
            while any(one.is_alive() for one in those):
                keys = line(here)
                if len(keys) > 1:
                    with contextlib.suppress(ServerError):  # it has ended by itself
                        here.store.revoke(keys[len(keys) // 2].lease)  # of one who waits
                        revoked += 1
                time.sleep(0.05)
        check(revoked > 10, f"leases were revoked: {revoked}")


def member_call(server, path, **body):
    """Changes of members are refused while the last one is still under way. One whose answer came
    too late may have been made: then it is refused from then on. Returns the members."""
    troubles = []

    def tried():
        try:
            return server.call("cluster/member/" + path, **body)
        except ServerError as trouble:
            troubles.append(str(trouble))
            is_made = "already exists" in str(trouble) or "member not found" in str(trouble)
            return server.call("cluster/member/list") if is_made else None

    try:
        return wait_until(tried, path)
    except Failure as failure:
        raise Failure(f"{failure}; {troubles[-1:]}") from None


def add_member(here, server):
    """One more, at these ports; it has nothing yet."""
    beside = next(one for one in here.servers if one.process)
    found = member_call(beside, "add", peerURLs=[f"http://127.0.0.1:{server.peer_port}"])
    names = {member["peerURLs"][0]: member.get("name", "m3") for member in found["members"]}
    cluster = ",".join(f"{name}={url}" for url, name in names.items())
    server.peers = (*here.store.FAST, "--name", "m3", "--initial-cluster", cluster,
                    "--initial-cluster-state", "existing")
    server.launch()
    wait_until(lambda: server.mode() == "follower", "the new one serves")


@case
def members_are_removed_and_added_while_many_want_the_lock(world):
    with three(world, CLIENTS) as (here, *clients):
        folder = os.path.join(os.path.dirname(here.servers[0].folder), "new")
        os.mkdir(folder, 0o777)
        os.chmod(folder, 0o777)
        new = Etcd(here.servers[0].place, folder)
        new.peer_port = free_port()
        here.stack.callback(new.kill)
        ports = [*here.store.ports, new.port]
        for client in clients:
            client.open(here.store.url(at=[f"127.0.0.1:{port}" for port in ports]))
        with appending(here, clients, 3 * RUN_S):
            old = here.store.leader()
            others = [server for server in here.servers if server is not old]
            member_call(others[0], "remove", ID=str(int(old.member(), 16)))
            wait_until(lambda: old.process.poll() is not None, "the removed one ends")
            old.kill()
            here.servers[:] = others
            here.store.leader()
            add_member(here, new)
            here.servers.append(new)
            here.store.followers()[0].kill()
            check_equal(len([one for one in here.servers if one.process]), 2, "those who are left")
            here.store.leader()
