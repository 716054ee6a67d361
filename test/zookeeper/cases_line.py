"""What may stand in a lock's line: names that sort otherwise, numbers that go round, strangers."""

import contextlib
import os
import struct
import zlib

import tree
from client import SHARED, Answer
from harness import case, check, check_equal, wait_until
from setting import ROOT, check_empty, line, path_of, sequence_of, setting, wait_line

TOKEN = "0123456789abcdef" * 2
LAST = 2147483647  # of the numbers that a server gives to children
BOTH = tree.EPHEMERAL | tree.SEQUENTIAL


def by_hand(look, kind, session_id, name="n"):
    """A node as we would name it, if that session were ours; returns the child's name."""
    stem = f"{kind}-{session_id & (1 << 64) - 1:016x}-{TOKEN}-"
    return look.create(path_of(name, stem), b"", BOTH).rpartition("/")[2]


def prepare(look, name="n"):
    if not look.stat(ROOT):
        look.create(ROOT)
    look.create(path_of(name))


def watched(here, session_id):
    return {path for path, who in tree.watches(here.store).items() if session_id in who}


@case
def the_one_ahead_is_found_by_its_number_not_by_its_name(world):
    with setting(world) as (here, client):
        look = here.look()
        prepare(look)
        # The names sort the other way round; so did whole names in recipes that gave two holders.
        ahead = [by_hand(look, "w", session_id) for session_id in (-1, 1 << 60, 1)]
        check_equal(sorted(ahead), ahead[::-1], "by name")
        session_id = here.open(client, here.url())
        here.stand(client)
        wait_until(lambda: path_of("n", ahead[2]) in watched(here, session_id), "a watch")
        for gone in ahead[:2]:
            look.delete(path_of("n", gone))
            check_equal(Answer(client.ask("wait 0")).status, "PENDING", f"{gone} is gone")
        check_equal(watched(here, session_id), {path_of("n", ahead[2])}, "what it watches")
        look.delete(path_of("n", ahead[2]))
        client.do("wait -1")
        client.release()


@case
def one_in_the_middle_that_goes_lets_nobody_in(world):
    with setting(world, 4) as (here, *clients):
        look = here.look()
        for number, client in enumerate(clients):
            here.open(client, here.url())
            if number == 0:
                client.acquire("n")
            else:
                here.stand(client)
        clients[1].do("cancel")
        wait_line(look, 3)
        check_equal(Answer(clients[2].ask("wait 0")).status, "PENDING", "the one behind it")
        clients[0].release()
        clients[2].do("wait -1")
        check_equal(Answer(clients[3].ask("wait 0")).status, "PENDING", "the last")
        clients[2].release()
        clients[3].do("wait -1")
        clients[3].release()
        check_empty(here)


@case
def who_was_told_that_it_is_busy_stands_in_no_line(world):
    """Or the next one who tries once finds it there, though nobody holds the lock any more."""
    with setting(world, 2, through=True) as (here, holder, other):
        look = here.look()
        here.open(holder, here.url(through=False))
        here.open(other, here.url())
        holder.acquire("n")
        here.proxy.tell("delay 300")
        other.acquire("n", "EBUSY", wait_ms=0)
        check_equal(len(line(look)), 1, "those in line")
        holder.release()
        holder.acquire("n", wait_ms=0)


@case
def whoever_has_a_number_stands_in_line_whatever_its_name(world):
    with setting(world, 2) as (here, client, second):
        look = here.look()
        prepare(look)
        foreign = look.create(path_of("n", "another-program-"), b"who", BOTH)
        here.open(client, here.url())
        client.acquire("n", "EBUSY", wait_ms=0)
        here.stand(client)
        here.open(second, here.url())
        wait_line(look, 1)
        check_equal(Answer(client.ask("wait 0")).status, "PENDING", "behind another program")
        second.do("list *")
        look.delete(foreign)
        client.do("wait -1")
        client.release()


@case
def what_has_no_number_is_left_alone_and_keeps_nobody_out(world):
    with setting(world) as (here, client):
        look = here.look()
        prepare(look)
        strangers = ["config", "w-", "w-0000000000000001-x-12", "9999999999", "x-99999999999",
                     "w-" + "f" * 16 + "-" + TOKEN + "-12345", "\u00e4\u00f6\u00fc"]
        for name in strangers:
            look.create(path_of("n", name), b"foreign")
        here.open(client, here.url())
        for _ in range(2):
            client.acquire("n", wait_ms=20000)
            check_equal(client.do("list *").text, "1", "those who are listed")
            client.release()
        check_equal(look.children(path_of("n")), sorted(strangers), "what was there")


@case
def a_lock_where_the_other_recipe_has_one_is_told(world):
    with setting(world, 4) as (here, node, line_on_it, in_line, node_on_it):
        here.open(node, here.url(recipe="node"))
        node.acquire("one")
        here.open(line_on_it, here.url())
        line_on_it.acquire("one", "EPROTOCOL", "it belongs to another recipe or program",
                           wait_ms=2000)
        here.open(in_line, here.url())
        in_line.acquire("two")
        here.open(node_on_it, here.url(recipe="node"))
        answer = Answer(node_on_it.ask("acquire 30000 500 two"))
        check(answer.status in ("EBUSY", "ETIMEDOUT", "EPROTOCOL"), f"{answer}")
        check_equal(node.ask("valid") + in_line.ask("valid"), "11", "those who hold")
        node.release()
        in_line.release()
        check_empty(here)


@case
def a_node_that_another_program_deleted_is_lost(world):
    for recipe in ("sequence", "node"):
        with setting(world, 2) as (here, client, next_one):
            look = here.look()
            here.open(client, here.url(recipe=recipe))
            fence = client.acquire("n").fence
            child = path_of("n", line(look)[0]) if recipe == "sequence" else path_of("n")
            look.delete(child)
            wait_until(lambda: client.ask("event").startswith("lost"), "the loss")
            check_equal(client.ask("valid"), "0", "valid")
            here.open(next_one, here.url(recipe=recipe))
            check(next_one.acquire("n").fence > fence, "fences rise")
            client.release("ELOST")
            check_equal(next_one.ask("valid"), "1", "the next one's grant after the late release")
            next_one.release()


@case
def a_waiter_whose_node_was_deleted_stands_in_line_again(world):
    with setting(world, 2) as (here, holder, waiter):
        look = here.look()
        here.open(holder, here.url())
        holder.acquire("n")
        here.open(waiter, here.url())
        here.stand(waiter, lease_ms=3000)
        _, second = wait_line(look, 2)
        look.delete(path_of("n", second))
        holder.release()
        waiter.do("wait -1")
        waiter.release()
        check_empty(here)


@case
def a_late_release_touches_nobody_in_a_line_that_began_anew(world):
    """A's session died, the lock's node was deleted and made again, and C has A's number."""
    with setting(world, 2) as (here, a, c):
        look = here.look()
        session_id = here.open(a, here.url())
        first = a.acquire("n").fence
        old, = line(look)
        tree.expire(here.store, session_id)
        look.remove(path_of("n"))
        here.open(c, here.url())
        second = c.acquire("n", wait_ms=20000).fence
        new, = line(look)
        check_equal(sequence_of(new), sequence_of(old), "the number")
        check(second > first, "fences rise")
        a.release("ELOST")
        check_equal(line(look), [new], "the line after the late release")
        check_equal(c.ask("valid"), "1", "the grant of C")
        c.release()


def take_often(client):
    """From the third time on it needs no look at the line; returns the last answer."""
    for _ in range(3):
        answer = client.acquire("n")
        client.release()
    return answer


def begin_anew(look, count):
    """Another line, in which so many have a number; returns them."""
    look.remove(path_of("n"))
    prepare(look)
    return [by_hand(look, "w", 1 + number) for number in range(count)]


@case
def the_next_number_in_a_line_that_began_anew_is_no_turn(world):
    """We left with number 2, and come back to a number 3, which is that of another line."""
    with setting(world) as (here, client):
        look = here.look()
        here.open(client, here.url())
        fence = take_often(client).fence
        first, *others = begin_anew(look, 3)
        client.acquire("n", "EBUSY", wait_ms=0)
        check_equal(line(look), [first, *others], "those in line")
        for child in (first, *others):
            look.delete(path_of("n", child))
        check(client.acquire("n").fence > fence, "fences rise")
        client.release()


@case
def the_next_number_after_a_new_connection_is_no_turn(world):
    """Nobody told what became of the line meanwhile."""
    with setting(world, through=True) as (here, client):
        look = here.look()
        session_id = here.open(client, here.url())
        take_often(client)
        links = here.proxy.stat()["links"]
        here.proxy.tell("lose")
        first, *_ = begin_anew(look, 3)
        here.proxy.tell("pass")
        here.proxy.tell("cut")
        wait_until(lambda: here.proxy.stat()["links"] > links, "another connection")
        wait_until(lambda: session_id in tree.connections(here.store), "the session")
        client.acquire("n", "ETIMEDOUT", wait_ms=3000)
        check(first in line(look), "the one who holds")


@case
def whoever_came_since_we_left_is_seen(world):
    with setting(world, 2) as (here, client, other):
        look = here.look()
        here.open(client, here.url())
        here.open(other, here.url())
        fence = take_often(client).fence
        stranger = by_hand(look, "r", 1)
        client.acquire("n", "EBUSY", wait_ms=0)
        look.delete(path_of("n", stranger))
        for _ in range(3):  # they come in turns, and at once
            first = client.acquire("n")
            other.acquire("n", "EBUSY", wait_ms=0)
            here.stand(other)
            client.release()
            second = Answer(other.ask("wait -1"))
            client.acquire("n", "EBUSY", wait_ms=0)
            check(fence < first.fence < second.fence, "fences rise")
            fence = second.fence
            other.release()
        check_empty(here)


@case
def a_turn_that_nobody_looked_at_is_seen_by_who_comes(world):
    """Its holder took it without a look, and hears of its end all the same."""
    with setting(world, 2) as (here, client, other):
        look = here.look()
        here.open(client, here.url())
        here.open(other, here.url())
        take_often(client)
        client.acquire("n")
        here.stand(other)
        look.delete(path_of("n", line(look)[0]))
        wait_until(lambda: client.ask("event").startswith("lost"), "the loss")
        other.do("wait -1")
        client.release("ELOST")
        other.release()
        check_empty(here)


@case
def a_line_that_is_empty_goes_away_and_comes_back(world):
    java = {"znode.container.checkIntervalMs": 200}
    with setting(world, java=java) as (here, client):
        look = here.look()
        here.open(client, here.url())
        fences = []
        for _ in range(3):
            fences.append(client.acquire("n").fence)
            client.release()
            wait_until(lambda: look.stat(path_of("n")) is None, "the lock's node is gone")
        check_equal(fences, sorted(set(fences)), "fences")
        check_equal(look.children(ROOT), [], "locks")


@case
def lines_that_go_away_at_any_moment_cost_nobody_the_lock(world):
    java = {"znode.container.checkIntervalMs": 1, "znode.container.maxPerMinute": 1000000}
    with setting(world, 2, java=java) as (here, one, other):
        here.open(one, here.url())
        here.open(other, here.url())
        last = 0
        for number in range(150):
            for client in (one, other):
                fence = client.acquire(f"n{number % 3}", wait_ms=20000).fence
                check(fence > last, "fences rise")
                last = fence
                client.release()
        check_empty(here)


# --- readers and writers ---


@case
def a_reader_waits_for_the_writer_ahead_and_not_for_the_one_behind(world):
    with setting(world, 3) as (here, writer, reader, late):
        for client in (writer, reader, late):
            here.open(client, here.url())
        writer.acquire("n")
        reader.do(f"mode {SHARED}")
        here.stand(reader)
        here.stand(late)
        writer.release()
        reader.do("wait -1")
        check_equal(Answer(late.ask("wait 0")).status, "PENDING", "the writer behind")
        reader.release()
        late.do("wait -1")
        late.release()
        check_empty(here)


@case
def a_writer_that_becomes_a_reader_lets_no_writer_in(world):
    with setting(world, 4) as (here, first, second, reader, behind):
        for client in (first, second, reader, behind):
            here.open(client, here.url())
        first.acquire("n")
        reader.do(f"mode {SHARED}")
        here.stand(reader)
        here.stand(second)
        first.do("downgrade")
        reader.do("wait -1")
        check_equal(Answer(second.ask("wait 0")).status, "PENDING", "the writer behind")
        behind.do(f"mode {SHARED}")
        behind.acquire("n", "EBUSY", wait_ms=0)
        first.release()
        check_equal(Answer(second.ask("wait 0")).status, "PENDING", "the other reader is in")
        reader.release()
        second.do("wait -1")
        second.release()
        check_empty(here)


# --- the number goes round ---


def set_counter(here, path, number):
    """Writes the number of the next child into the server's last snapshot: counting so far would
    take days. The checksum behind the nodes is Adler-32 over all that is before it."""
    here.store.kill()
    here.store.start()  # takes a snapshot
    here.store.kill()
    folder = os.path.join(here.store.folder, "data", "version-2")
    name = max((name for name in os.listdir(folder) if name.startswith("snapshot.")),
               key=lambda name: int(name.partition(".")[2], 16))
    with open(os.path.join(folder, name), "rb") as file:
        data = bytearray(file.read())
    head = struct.pack(">i", len(path)) + path.encode()
    at = data.index(head) + len(head)
    at += 4 + max(struct.unpack_from(">i", data, at)[0], 0) + 8  # data, number of its ACL
    stat = list(struct.unpack_from(">qqqqiiiqq", data, at))
    stat[5] = number
    struct.pack_into(">qqqqiiiqq", data, at, *stat)
    end = len(data) - 8 - 5  # a checksum, and "/" with its length
    struct.pack_into(">q", data, end, zlib.adler32(bytes(data[:end])))
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)
    here.store.start()


@contextlib.contextmanager
def at_number(world, number, clients):
    """A setting where the next child of the lock has this number."""
    with setting(world, clients, java={"zookeeper.digest.enabled": "false"}) as all_here:
        with tree.Session(all_here[0].store) as look:
            prepare(look)
        set_counter(all_here[0], path_of("n"), number)
        yield all_here


@case
def numbers_near_the_end_are_in_order(world):
    with at_number(world, LAST - 40, 3) as (here, *clients):
        look = here.look()
        for number, client in enumerate(clients):
            here.open(client, here.url())
            client.do("start 30000 -1 n")
            wait_line(look, number + 1)
        check(sequence_of(line(look)[0]) >= LAST - 40, "the numbers are those that were set")
        for client in clients:
            client.do("wait -1")
            client.release()
        check_empty(here)


@case
def the_last_number_which_the_server_repeats_lets_one_in_at_a_time(world):
    """It is a signed number of 32 bits; ZooKeeper 3.8 gives the greatest one to all who follow.
    Whatever becomes of them, two never hold at once; and who is turned away leaves nothing."""
    with at_number(world, LAST - 2, 6) as (here, *clients):
        look, answers = here.look(), {}

        def ask(client):
            """Once it has its answer, it is not asked again."""
            answer = Answer(client.ask("wait 50")).status
            if answer != "PENDING":
                answers[client] = answer
            return answer != "PENDING"

        for client in clients:
            here.open(client, here.url())
            client.do("start 30000 -1 n")
            wait_until(lambda: client.ask("position") != "-1" or ask(client), "it has its place")
        print("   ", [sequence_of(child) for child in line(look)])
        while "OK" in answers.values() or len(answers) < len(clients):
            for client in clients:
                if client not in answers:
                    ask(client)
            holders = [client for client in clients if answers.get(client) == "OK"]
            check(len(holders) <= 1, f"{len(holders)} hold at once")
            for client in holders:
                check_equal(client.ask("valid"), "1", "valid")
                client.release()
                answers[client] = "served"
        told = list(answers.values())
        check(set(told) <= {"served", "ELIMIT"} and told.count("served") >= 2, f"{told}")
        check_empty(here)
        clients[-1].acquire("other")
        clients[-1].release()
