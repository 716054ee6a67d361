"""Waiting: in order, together, and with news."""

import json
import os
import subprocess

from harness import case, check, check_equal, wait_until


@case
def twenty_are_served_in_the_order_in_which_they_came(world):
    holder = world.hold("a").ready()
    processes = []
    for i in range(20):
        process = world.start("run", "a", "--", "sh", "-c", f"echo {i} $HOLDFAST_FENCE >>log")
        world.wait_waiting("a", process.pid)
        processes.append(process)
    check_equal(world.waiters("a"), [p.pid for p in processes], "the queue")
    holder.end()
    for process in processes:
        check_equal(world.end(process).status, 0, "status")
    lines = [tuple(map(int, line.split())) for line in world.read("log").splitlines()]
    check_equal([line[0] for line in lines], list(range(20)), "the order")
    fences = [line[1] for line in lines]
    check_equal(fences, sorted(set(fences)), "fences rise")


@case
def readers_share_and_a_writer_waits_for_them(world):
    readers = [world.hold("a", "-s").ready() for _ in range(3)]
    check_equal(sorted(world.holders("a")), sorted(r.pid for r in readers), "who holds")
    world.expect(75, "run", "-n", "a", "--", "true")
    world.expect(75, "run", "-n", "-x", "a", "--", "true")
    world.expect(0, "run", "-n", "-s", "a", "--", "true")
    writer = world.start("run", "a", "--", "true")
    world.wait_waiting("a", writer.pid)
    for reader in readers:
        reader.end()
    check_equal(world.end(writer).status, 0, "status of the writer")


@case
def the_status_lines_tell_what_happens(world):
    holder = world.hold("a").ready()
    reader, writer = os.pipe()
    process = world.start("run", "--status-fd", str(writer), "--lease", "20s", "a", "--",
                          "sh", "-c", "exit 4", pass_fds=(writer,))
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as lines:
        waiting = json.loads(lines.readline())
        check_equal(waiting["event"], "waiting", "the first event")
        check_equal((waiting["name"], waiting["name_hex"]), ("a", "61"), "the name")
        check_equal(waiting["position"], 1, "how many are ahead")
        check_equal(waiting["fence"], None, "the fence of one that waits")
        fence = world.fence_of("a")
        holder.end()
        events = [json.loads(line) for line in lines]
    check_equal([e["event"] for e in events], ["acquired", "released"], "the other events")
    check(int(events[0]["fence"]) > int(fence), "the fence")
    check(0 < events[0]["remaining_ms"] <= 20000, "what is left of the lease")
    check(events[0]["waited_ms"] >= 0, "how long it waited")
    check_equal(events[1]["fence"], events[0]["fence"], "the fence at the end")
    check_equal(events[1]["exit_status"], 4, "the status at the end")
    check_equal(world.end(process).status, 4, "status")


@case
def the_status_lines_tell_of_loss(world):
    reader, writer = os.pipe()
    process = world.start("run", "--status-fd", str(writer), "a", "--", "sleep", "1000",
                          pass_fds=(writer,))
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as lines:
        acquired = json.loads(lines.readline())
        world.expect(0, "break", "a", "--fence", acquired["fence"])
        events = [json.loads(line) for line in lines]
    check_equal([e["event"] for e in events], ["lost"], "the other events")
    check_equal(events[0]["cause"], "broken", "the cause")
    check_equal(events[0]["fence"], acquired["fence"], "the fence")
    check_equal(world.end(process).status, 79, "status")


@case
def the_status_descriptor_is_not_for_the_command(world):
    reader, writer = os.pipe()
    result = world.expect(0, "run", "--status-fd", str(writer), "a", "--", "sh", "-c",
                          f"[ -e /proc/self/fd/{writer} ] && echo open || echo closed",
                          pass_fds=(writer,))
    check_equal(result.out, "closed\n", "the descriptor in the command")
    os.close(reader)
    os.close(writer)
    result = world.expect(0, "run", "--status-fd", "1", "a", "--", "echo", "from the command")
    lines = result.out.splitlines()
    check("from the command" in lines, "the standard output stays the command's")
    check_equal([json.loads(line)["event"] for line in lines if line.startswith("{")],
                ["acquired", "released"], "events on the standard output")


@case
def a_reader_of_the_status_that_is_gone_or_slow_does_no_harm(world):
    reader, writer = os.pipe()
    os.close(reader)
    world.expect(3, "run", "--status-fd", str(writer), "a", "--", "sh", "-c", "exit 3",
                 pass_fds=(writer,))
    os.close(writer)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    world.expect(3, "run", "--status-fd", str(writer), "a", "--", "sh", "-c", "exit 3",
                 pass_fds=(writer,))
    os.close(reader)
    os.close(writer)


@case
def a_long_name_in_a_status_line_is_given_in_hex(world):
    name = b"\xff" * 1024
    reader, writer = os.pipe()
    world.expect(0, "run", "--status-fd", str(writer), name, "--", "true", pass_fds=(writer,))
    os.close(writer)
    with os.fdopen(reader, "rb") as lines:
        events = [(len(line), json.loads(line)) for line in lines]
    for length, event in events:
        check(length <= 4096, f"a line of {length} bytes")
        check_equal(bytes.fromhex(event["name_hex"]), name, "the name")


@case
def a_killed_waiter_leaves_the_queue(world):
    holder = world.hold("a").ready()
    first = world.start("run", "a", "--", "true")
    world.wait_waiting("a", first.pid)
    second = world.start("run", "a", "--", "sh", "-c", "exit 5")
    world.wait_waiting("a", second.pid)
    first.kill()
    first.wait()
    wait_until(lambda: world.waiters("a") == [second.pid], "the killed one is not listed")
    holder.end()
    check_equal(world.end(second).status, 5, "status of the second")


@case
def verbose_and_quiet_say_more_and_less(world):
    holder = world.hold("a", "--purpose", "housework").ready()
    process = world.start("run", "-v", "a", "--", "true")
    world.wait_waiting("a", process.pid)
    wait_until(lambda: b"housework" in peek(process), "-v names the holder")
    holder.end()
    result = world.end(process)
    check("acquired 'a'" in result.err and "released 'a'" in result.err, f"-v: {result}")
    check_equal(world.expect(0, "run", "a", "--", "true").err, "", "what is said without -v")
    result = world.expect(0, "run", "-vv", "a", "--", "true")
    check("trace: " in result.err, f"-vv: {result}")


def peek(process):
    """What has arrived on its standard error; it stays there for end()."""
    import fcntl
    import termios
    pending = fcntl.ioctl(process.stderr.fileno(), termios.FIONREAD, b"\0\0\0\0")
    if int.from_bytes(pending, "little") == 0:
        return b""
    return process.stderr.peek()


@case
def the_purpose_is_the_commands_name_unless_given(world):
    holder = world.hold("a").ready()
    check_equal(world.show("a")["holders"][0]["purpose"], "cat", "the purpose")
    holder.end()
    holder = world.hold("a", "--purpose", "a reason").ready()
    check_equal(world.show("a")["holders"][0]["purpose"], "a reason", "the purpose")
    holder.end()
    process = world.start("run", "a", "--", "/bin/cat", stdin=subprocess.PIPE)
    wait_until(lambda: world.holders("a"), "it holds")
    check_equal(world.show("a")["holders"][0]["purpose"], "cat", "the purpose")
    world.end(process)
