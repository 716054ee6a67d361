"""Who stands in a lock's line: names that look alike, other programs, readers; and what is left."""

import select
import signal

from client import EXCLUSIVE, SHARED, Answer, check_run
from harness import LIMIT_S, case, check, check_equal, wait_until
from setting import (ROOT, check_empty, check_nothing, check_pending, claims, line, setting,
                     wait_line, wait_lost)

USAGE = 64


class Locker:
    """`etcdctl lock NAME`: in line from its start; ends with stop()."""

    def __init__(self, here, name, ttl_s=60):
        self.process = here.etcdctl("lock", "--ttl", str(ttl_s), name)
        here.stack.callback(self.kill)

    def key(self):
        """Waits until it holds; returns its key."""
        readable, _, _ = select.select([self.process.stdout], [], [], LIMIT_S)
        check(readable, "etcdctl lock is granted")
        return self.process.stdout.readline().strip()

    def holds(self):
        return bool(select.select([self.process.stdout], [], [], 0.2)[0])

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(LIMIT_S)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@case
def names_that_begin_alike_are_other_locks(world):
    with setting(world, 4) as (here, *clients):
        here.open(*clients)
        here.store.put(ROOT + "a", "another program's")
        for client, name in zip(clients, ("a", "a/1", "ab", "A")):
            client.acquire(name, wait_ms=0)
        clients[0].do("list a", "OK", "1")
        check_equal(clients[0].do("list *").text, "4", "those who are listed")
        for client, name in zip(clients, ("a/1", "ab", "a", "a")):
            check_equal(Answer(client.ask(f"start 30000 -1 {name}")).status, "OK", "start")
        for client in clients:
            client.do("cancel")
            client.release()
        check_equal([key for key in claims(here) if key != ROOT + "a"], [], "what was left")


@case
def a_name_of_any_length_and_any_bytes_is_a_lock(world):
    with setting(world, 2) as (here, client, other):
        here.open(client, other)
        for name in ("x" * 128, "x" * 129, "y" * 1024, "ä/ö\\%", "@", "~x61", "..", "a b"):
            client.acquire(name, wait_ms=0)
            other.acquire(name, "EBUSY", wait_ms=0)
            client.release()
        check_nothing(here, client, other)


@case
def etcdctl_lock_excludes_ours_and_is_excluded(world):
    with setting(world, 2) as (here, client, other):
        here.open(client, other)
        theirs = Locker(here, ROOT + "n")
        key = theirs.key()
        check_equal([key], [each.name for each in line(here)], "its key")
        client.acquire("n", "EBUSY", wait_ms=0)
        here.stand(client)
        check_pending(client, "behind etcdctl")
        behind = Locker(here, ROOT + "n")
        wait_line(here, 3)
        theirs.stop()
        client.do("wait -1")
        check(not behind.holds(), "etcdctl is behind ours")
        client.release()
        behind.key()
        other.acquire("n", "EBUSY", wait_ms=0)
        check_equal(other.do("list *").text, "1", "those who are listed")
        behind.stop()
        check_nothing(here, client, other, strangers=True)


@case
def layout_etcd_stands_in_the_line_of_etcdctl(world):
    with setting(world, 2) as (here, client, other):
        here.open(client, other, layout="etcd")
        client.acquire("job", wait_ms=0)
        key, = wait_line(here, 1, "job", root="")
        check(key.name.startswith("job/"), f"{key.name}")
        theirs = Locker(here, "job")
        wait_line(here, 2, "job", root="")
        check(not theirs.holds(), "etcdctl is behind ours")
        client.release()
        theirs.key()
        other.acquire("job", "EBUSY", wait_ms=0)
        other.do("start 30000 -1 job")
        wait_line(here, 2, "job", root="")
        theirs.stop()
        other.do("wait -1")
        other.release()
        check_nothing(here, client, other, strangers=True)


@case
def with_layout_etcd_a_name_has_no_slash_and_no_shared_mode(world):
    with setting(world, 2) as (here, client, prefixed):
        here.open(client, layout="etcd")
        client.acquire("a/b", "ENAME", "a name has no '/'", wait_ms=0)
        client.do(f"mode {SHARED}")
        client.acquire("a", "EUNSUPPORTED", "no shared mode", wait_ms=0)
        here.open(prefixed, layout="etcd", prefix="app/")
        prefixed.acquire("a")
        check_equal(len(line(here, "a", root="app/")), 1, "keys behind the prefix")
        theirs = Locker(here, "app/a")
        wait_line(here, 2, "a", root="app/")
        prefixed.release()
        theirs.key()
        theirs.stop()
        check_empty(here)


@case
def what_is_no_option_or_no_layout_is_named(world):
    with setting(world, 3) as (here, unknown, layout, prefix):
        unknown.open(here.url(table="x"), "EURL", "there is no option 'table' here")
        layout.open(here.url(layout="other"), "EURL", "layout='other' is not etcd")
        prefix.open(here.url(prefix=b"x\xff"), "EURL", "must not end with the byte FF")


@case
def a_prefix_and_a_path_are_where_locks_lie(world):
    with setting(world, 3) as (here, prefixed, path, usual):
        prefixed.open(here.url(prefix="some/where:"))
        prefixed.acquire("n")
        path.open(f"etcd://127.0.0.1:{here.store.port}/app")
        path.acquire("n", wait_ms=0)
        here.open(usual)
        usual.acquire("n", wait_ms=0)
        for root in ("some/where:", "app/holdfast/", ROOT):
            check_equal(len(line(here, root=root)), 1, f"keys behind {root}")
        check_equal(usual.do("list *").text, "1", "those who are listed")
        check_nothing(here, prefixed, path, usual)


# --- what lies there ---


@case
def a_key_that_another_program_deleted_is_lost(world):
    with setting(world, 2) as (here, client, next_one):
        here.open(client, next_one)
        fence = client.acquire("n").fence
        here.store.delete(line(here)[0].name)
        wait_lost(client)
        check_equal(client.ask("valid"), "0", "valid")
        check(next_one.acquire("n").fence > fence, "fences rise")
        client.release("ELOST")
        check_equal(next_one.ask("valid"), "1", "the next one's grant after the late release")
        next_one.release()
        check_nothing(here, client, next_one)


@case
def a_waiter_whose_key_was_deleted_stands_in_line_again(world):
    with setting(world, 2) as (here, holder, waiter):
        here.open(holder, waiter)
        holder.acquire("n")
        here.stand(waiter)
        old = line(here)[1]
        here.store.delete(old.name)
        _, new = wait_line(here, 2)
        check(new.revision > old.revision, "it came again")
        holder.release()
        waiter.do("wait -1")
        waiter.release()
        check_nothing(here, holder, waiter)


@case
def keys_of_other_programs_behind_the_prefix_are_left_alone(world):
    with setting(world, 2) as (here, client, other):
        foreign = [ROOT + "n", ROOT + "@", ROOT + "@0", ROOT, ROOT + "n0", ROOT + "other/x"]
        for key in foreign:
            here.store.put(key, "foreign")
        here.open(client, other)
        client.acquire("n", wait_ms=0)
        other.acquire("n", "EBUSY", wait_ms=0)
        client.do("list *")
        client.release()
        client.do("close")
        other.do("close")
        wait_until(lambda: here.store.keys() == sorted(foreign), f"{here.store.keys()}")


@case
def a_key_without_a_lease_stands_in_line(world):
    with setting(world, 1) as (here, client):
        here.store.put(ROOT + "n/by-hand", "who")
        here.open(client)
        client.acquire("n", "EBUSY", wait_ms=0)
        here.stand(client)
        check_equal(client.do("list n").text, "2", "those who are listed")
        here.store.delete(ROOT + "n/by-hand")
        client.do("wait -1")
        client.release()
        check_nothing(here, client)


@case
def much_that_others_write_behind_the_prefix_harms_nobody(world):
    with setting(world, 2) as (here, holder, waiter):
        here.open(holder, waiter)
        holder.acquire("n")
        here.stand(waiter)
        for number in range(200):
            here.store.put(f"{ROOT}app/{number}", "x" * 5000)
        holder.release()
        waiter.do("wait -1")
        check_equal(waiter.ask("valid"), "1", "valid")
        waiter.release()


@case
def the_largest_values_that_others_write_behind_the_prefix_harm_nobody(world):
    """An event tells a value and the one before it."""
    with setting(world, 2, through=True) as (here, holder, waiter):
        here.open(holder, waiter)
        holder.acquire("n")
        here.stand(waiter)
        links = here.proxy.stat()["links"]
        for number in range(6):
            here.store.put(f"{ROOT}app/{number % 2}", "x" * 1572000)
        holder.release()
        waiter.do("wait -1")
        check_equal(here.proxy.stat()["links"], links, "connections")
        waiter.release()


# --- who goes when ---


@case
def one_in_the_middle_that_goes_lets_nobody_in(world):
    with setting(world, 4) as (here, *clients):
        here.open(*clients)
        clients[0].acquire("n")
        for client in clients[1:]:
            here.stand(client)
        clients[1].do("cancel")
        wait_line(here, 3)
        check_pending(clients[2], "the one behind it")
        clients[0].release()
        clients[2].do("wait -1")
        check_pending(clients[3], "the last")
        clients[2].release()
        clients[3].do("wait -1")
        clients[3].release()
        check_nothing(here, *clients)


@case
def who_was_told_that_it_is_busy_stands_in_no_line(world):
    with setting(world, 2, through=True) as (here, holder, other):
        here.open(holder, through=False)
        here.open(other)
        holder.acquire("n")
        here.proxy.tell("delay 100")
        other.acquire("n", "EBUSY", wait_ms=0)
        check_equal(len(line(here)), 1, "those in line")
        holder.release()
        holder.acquire("n", wait_ms=0)


@case
def a_reader_waits_for_the_writer_ahead_and_not_for_the_one_behind(world):
    with setting(world, 4) as (here, writer, reader, late, last):
        here.open(writer, reader, late, last)
        writer.acquire("n")
        reader.do(f"mode {SHARED}")
        here.stand(reader)
        here.stand(late)
        last.do(f"mode {SHARED}")
        here.stand(last)
        writer.release()
        reader.do("wait -1")
        check_pending(late, "the writer behind")
        check_pending(last, "the reader behind it")
        reader.release()
        late.do("wait -1")
        check_pending(last, "the reader behind it")
        late.release()
        last.do("wait -1")
        last.release()
        check_nothing(here, writer, reader, late, last)


@case
def a_writer_that_becomes_a_reader_lets_no_writer_in(world):
    with setting(world, 4) as (here, first, second, reader, behind):
        here.open(first, second, reader, behind)
        fence = first.acquire("n").fence
        reader.do(f"mode {SHARED}")
        here.stand(reader)
        here.stand(second)
        first.do("downgrade")
        key = line(here)[0]
        check_equal((key.revision * 256, key.value[:1]), (fence, b"r"), "the key")
        reader.do("wait -1")
        check_pending(second, "the writer behind")
        behind.do(f"mode {SHARED}")
        behind.acquire("n", "EBUSY", wait_ms=0)
        first.release()
        check_pending(second, "the other reader is in")
        reader.release()
        second.do("wait -1")
        second.release()
        check_nothing(here, first, second, reader, behind)


@case
def a_break_deletes_the_key_and_tells_its_holder(world):
    with setting(world, 3) as (here, holder, waiter, breaker):
        here.open(holder, waiter, breaker)
        fence = holder.acquire("n").fence
        here.stand(waiter)
        breaker.do(f"break {fence + 256000} n", "ELOST")
        check_equal(holder.ask("valid"), "1", "valid")
        breaker.do(f"break {fence} n")
        wait_lost(holder, "broken")
        check(waiter.do("wait -1").fence > fence, "fences rise")
        holder.release("ELOST")
        check_equal(waiter.ask("valid"), "1", "valid after the late release")
        waiter.release()
        check_nothing(here, holder, waiter, breaker)


@case
def a_break_takes_away_what_is_held_and_from_nobody_who_waits(world):
    with setting(world, 5) as (here, holder, waiter, reader, second, breaker):
        here.open(holder, waiter, reader, second, breaker)
        holder.acquire("n")
        here.stand(waiter)
        reader.do(f"mode {SHARED}")
        here.stand(reader)
        for key in line(here)[1:]:
            breaker.do(f"break {key.revision * 256} n", "ELOST")
        check_equal(len(line(here)), 3, "those in line")
        check_pending(waiter, "who waits")
        check_pending(reader, "the reader that waits")
        holder.release()
        fence = waiter.do("wait -1").fence
        waiter.do("downgrade")
        shared = reader.do("wait -1").fence
        second.do(f"mode {SHARED}")
        second.acquire("n", wait_ms=0)
        breaker.do(f"break {shared} n")
        wait_lost(reader, "broken")
        check_equal(second.ask("valid"), "1", "the reader behind it")
        breaker.do(f"break {fence} n")
        wait_lost(waiter, "broken")
        breaker.do(f"break {line(here)[0].revision * 256} n")
        wait_lost(second, "broken")
        check_empty(here)


@case
def what_etcdctl_holds_is_broken_too(world):
    with setting(world, 1) as (here, breaker):
        here.open(breaker)
        theirs = Locker(here, ROOT + "n")
        theirs.key()
        breaker.do(f"break {line(here)[0].revision * 256} n")
        breaker.acquire("n", wait_ms=0)
        breaker.release()
        check_empty(here)


@case
def nothing_is_left_when_all_have_closed(world):
    with setting(world, 3) as (here, holder, waiter, busy):
        here.open(holder, waiter, busy)
        for lease_ms in (3000, 60000):
            holder.acquire("n", lease_ms=lease_ms)
            busy.acquire("n", "EBUSY", wait_ms=0)
            busy.do("start 30000 -1 n")
            busy.do("cancel")
            waiter.do("start 30000 -1 n")
            holder.release()
            waiter.do("wait -1")
            waiter.release()
        holder.acquire("n")
        here.stand(waiter)
        check_nothing(here, waiter, holder, busy)
        check_run(world, 0, [], here.url())
        check_equal((here.store.keys(), here.store.leases()), ([], set()), "after a run")


@case
def a_key_is_used_again_when_it_was_given_back(world):
    """The server remembers each until it is compacted, and would read a line ever more slowly."""
    with setting(world, 2) as (here, client, other):
        here.open(client, other)
        seen = set()
        for name in ("n", "m", "n", "n"):
            client.acquire(name, wait_ms=0)
            seen |= {key.name.rpartition("/")[2] for key in line(here, name)}
            check_equal(Answer(other.ask(f"acquire 30000 0 {name}")).status, "EBUSY", "the other")
            client.release()
            client.do(f"mode {SHARED}")
            client.acquire(name, wait_ms=0)
            seen |= {"w" + key.name.rpartition("/")[2][1:] for key in line(here, name)}
            client.release()
            client.do(f"mode {EXCLUSIVE}")
        check_equal(len(seen), 1, f"tokens of one client that took turns: {seen}")
        other.acquire("n", wait_ms=0)
        check(not {key.name.rpartition("/")[2] for key in line(here)} & seen, "of another client")
        other.release()
        check_nothing(here, client, other)


def take_turns_unwatched(here, client):
    """Turns that nobody waits for, until the server need not tell of them any more."""
    def is_unwatched():
        for _ in range(20):
            client.acquire("other", wait_ms=0)
            client.release()
        return here.store.watchers() == 0

    wait_until(is_unwatched, "the end of the watch")


@case
def a_watch_that_nobody_wants_is_closed_and_opened_by_who_waits(world):
    with setting(world, 2) as (here, client, other):
        here.open(client)
        check_equal(here.store.watchers(), 1, "watches, beforehand")
        for number in range(3):
            take_turns_unwatched(here, client)
            here.open(other)
            other.acquire("n", wait_ms=0)
            here.stand(client)
            wait_until(lambda: here.store.watchers() == 2, "a watch for who waits")
            if number == 1:  # its key is deleted while it waits
                here.store.delete(line(here)[1].name)
                wait_line(here, 2)
            other.release()
            client.do("wait -1")
            check_equal(client.ask("valid"), "1", "valid")
            client.release()
            other.do("close")
        check_nothing(here, client)


@case
def a_watch_that_was_closed_is_opened_for_who_holds(world):
    with setting(world, 2) as (here, client, other):
        here.open(client)
        take_turns_unwatched(here, client)
        fence = client.acquire("n", wait_ms=0).fence
        wait_until(lambda: here.store.watchers() == 1, "a watch for who holds")
        here.open(other)
        other.do(f"break {fence} n")
        wait_lost(client, "broken")
        client.release("ELOST")
        check_nothing(here, client, other)


@case
def who_waits_is_woken_though_its_watch_comes_late(world):
    """What happens between the claim and the watch, nobody hears."""
    with setting(world, 2) as (here, client, other):
        here.open(client)
        for _ in range(5):
            take_turns_unwatched(here, client)
            here.open(other)
            other.acquire("n", wait_ms=0)
            client.do("start 30000 -1 n")
            other.release()
            client.do("wait -1")
            client.release()
            other.do("close")
        check_nothing(here, client)
