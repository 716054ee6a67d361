"""The command's process group: nobody of it outlives the turn."""

import os
import signal
import subprocess

from harness import Failure, case, check, check_equal, is_alive, stat_of, wait_until

# Writes the time into a file without end: who is alive, and until when, is read there.
STAMPS = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while True:
    os.write(fd, b"%d\\n" % time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    time.sleep(0.001)
"""
ONE_STAMP = "import time; print(time.clock_gettime_ns(time.CLOCK_BOOTTIME))"

# A shell with two children in the background, one of which does not care for SIGTERM.
FAMILY = ("trap : TERM; sh -c \"trap '' TERM; exec python3 stamps.py log.deaf\" & echo $! >deaf; "
          "python3 stamps.py log.child & echo $! >child; echo $$ >pid; "
          "python3 stamps.py log.main")


LOGS = ("log.main", "log.deaf", "log.child")
PIDS = ("pid", "deaf", "child")


class Family:
    """A holder whose command has children; and one that waits for the lock."""

    def __init__(self, world, *options):
        self.world = world
        world.write("stamps.py", STAMPS)
        self.process = world.start("run", *options, "a", "--", "sh", "-c", FAMILY)
        wait_until(lambda: self.is_there() or self.process.poll() is not None, "the family")
        self.next = world.start("run", "a", "--", "python3", "-c", ONE_STAMP)
        wait_until(lambda: self.next.pid in world.waiters("a") or self.next.poll() is not None,
                   "the next one waits, or was served already")
        self.was_in_time = self.is_there() and self.process.poll() is None
        self.pids = [world.read_pid(name) for name in PIDS] if self.was_in_time else []

    def is_there(self):
        return all("\n" in self.world.read(name) for name in LOGS + PIDS)

    def forget(self):
        """Removes the files, for another family."""
        for name in LOGS + PIDS:
            if os.path.exists(self.world.path(name)):
                os.unlink(self.world.path(name))

    def check_gone_before_next(self):
        result = self.world.end(self.next)
        check_equal(result.status, 0, f"the next one: {result}")
        began = int(result.out)
        for pid in self.pids:
            check(not is_alive(pid), f"{pid} is dead")
        for name in LOGS:
            last = int(self.world.read(name).rstrip("\n").rpartition("\n")[2])
            check(last < began, f"{name}: alive at {last}, the next began at {began}")


@case
def a_broken_lock_leaves_nobody_behind(world):
    family = Family(world, "--grace", "200ms")
    world.expect(0, "break", "a", "--fence", world.fence_of("a"))
    check_equal(world.end(family.process).status, 79, "status of the one that lost it")
    family.check_gone_before_next()


@case
def a_broken_lock_leaves_the_command_its_grace(world):
    script = "trap 'echo cleaning; sleep 0.2; echo clean; exit 3' TERM; echo started; read x <go"
    os.mkfifo(world.path("go"))
    process = world.start("run", "--grace", "10s", "a", "--", "sh", "-c", script)
    check_equal(process.stdout.readline(), b"started\n", "the first line")
    world.expect(0, "break", "a", "--fence", world.fence_of("a"))
    result = world.end(process)
    check_equal((result.status, result.out), (79, "cleaning\nclean\n"), "how it ended")


@case
def a_killed_holdfast_leaves_nobody_behind(world):
    family = Family(world)
    family.process.kill()
    check_equal(family.process.wait(), -9, "how it ended")
    family.check_gone_before_next()


@case
def a_killed_process_group_of_holdfast_leaves_nobody_behind(world):
    world.write("stamps.py", STAMPS)
    process = world.start("run", "a", "--", "sh", "-c", FAMILY, start_new_session=True)
    pids = [world.read_pid(name) for name in ("pid", "deaf", "child")]
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    world.expect(0, "run", "a", "--", "true")
    for pid in pids:
        check(not is_alive(pid), f"{pid} is dead")


def limited_family(world):
    """A family whose hold ends by itself. On a busy machine that may be before all of it is there;
    then a longer one is tried."""
    for seconds in (1, 4, 16, 32):
        family = Family(world, "--max-hold", f"{seconds}s")
        if family.was_in_time:
            return family
        world.end(family.process)
        world.end(family.next)
        family.forget()
    raise Failure("the machine is too busy")


@case
def a_maximal_hold_leaves_nobody_behind(world):
    family = limited_family(world)
    check_equal(world.end(family.process).status, 79, "status of the one that lost it")
    family.check_gone_before_next()


@case
def a_stopped_holdfast_cannot_outstay_a_maximal_hold(world):
    family = limited_family(world)
    family.process.send_signal(signal.SIGSTOP)
    family.check_gone_before_next()
    family.process.send_signal(signal.SIGCONT)
    check_equal(world.end(family.process).status, 79, "status of the one that was stopped")


@case
def a_holdfast_that_was_continued_keeps_to_the_maximal_hold(world):
    process = world.start("run", "--max-hold", "1s", "a", "--", "sh", "-c",
                          "echo $$ >pid; exec sleep 1000")
    world.read_pid("pid")
    for _ in range(3):
        process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGCONT)
    check_equal(world.end(process).status, 79, "status")


@case
def the_commands_end_ends_those_it_left_behind(world):
    script = "sleep 1000 & echo $! >child; exit 6"
    world.expect(6, "run", "a", "--", "sh", "-c", script)
    check(not is_alive(world.read_pid("child")), "the child is dead")
    world.check_free("a")


@case
def those_who_ignore_sigterm_are_killed_after_the_grace(world):
    script = ("sh -c \"trap '' TERM; echo >deaf; while :; do sleep 1000; done\" & "
              "echo $! >child; while ! [ -e deaf ]; do sleep 0.01; done; exit 6")
    world.expect(6, "run", "--grace", "100ms", "a", "--", "sh", "-c", script)
    check(not is_alive(world.read_pid("child")), "the child is dead")
    world.expect(6, "run", "--grace", "0", "b", "--", "sh", "-c", script)
    check(not is_alive(world.read_pid("child")), "the child is dead")


@case
def those_who_were_left_behind_get_sigterm_first(world):
    script = ("sh -c \"trap 'sleep 0.2; echo term >log; exit' TERM; echo >there; "
              "while :; do sleep 0.01; done\" & while ! [ -e there ]; do sleep 0.01; done")
    world.expect(0, "run", "a", "--", "sh", "-c", script)
    check_equal(world.read("log"), "term\n", "what the child heard")


@case
def a_stopped_child_that_was_left_behind_ends_too(world):
    script = ("sh -c \"trap 'echo term >log; exit' TERM; echo >there; read x <go\" & "
              "echo $! >child; while ! [ -e there ]; do sleep 0.01; done; kill -STOP $!")
    os.mkfifo(world.path("go"))
    world.expect(0, "run", "a", "--", "sh", "-c", script)
    check(not is_alive(world.read_pid("child")), "the child is dead")
    check_equal(world.read("log"), "term\n", "what the child heard when it was continued")


@case
def zombies_that_nobody_waits_for_do_not_keep_the_lock(world):
    """The parent leaves the group and lives on; its dead child stays in the group as a zombie."""
    script = """
import os, signal, sys, time
if os.fork() == 0:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.setpgid(0, 0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    with open("parent.new", "w") as file:
        file.write("%d\\n" % os.getpid())
    os.rename("parent.new", "parent")
    time.sleep(1000)
while not os.path.exists("parent"):
    time.sleep(0.01)
"""
    world.expect(0, "run", "a", "--", "python3", "-c", script, stdout=subprocess.DEVNULL,
                 stderr=subprocess.DEVNULL)
    parent = world.read_pid("parent")
    check(is_alive(parent), "who left the group is left alone")
    world.check_free("a")
    os.kill(parent, signal.SIGKILL)


@case
def the_command_has_its_own_group_from_its_first_instant(world):
    result = world.expect(0, "run", "a", "--", "python3", "-c",
                          "import os; print(os.getpid(), os.getpgid(0), os.getppid())")
    pid, group, parent = map(int, result.out.split())
    check_equal(group, pid, "the group")
    check(parent != group, "holdfast is not of it")


@case
def a_guard_that_was_killed_is_replaced(world):
    family = Family(world)
    for _ in range(3):
        guard = world.guard_of(family.process.pid)
        os.kill(guard, signal.SIGKILL)
        wait_until(lambda: world.guard_of(family.process.pid) != guard, "another guard")
    check(is_alive(family.pids[0]), "the command runs on")
    family.process.kill()
    family.process.wait()
    family.check_gone_before_next()


@case
def a_killed_holdfast_takes_its_command_along_even_without_a_guard(world):
    process = world.start("run", "a", "--", "sh", "-c", "echo $$ >pid; exec sleep 1000")
    pid = world.read_pid("pid")
    guard = world.guard_of(process.pid)
    os.kill(process.pid, signal.SIGSTOP)  # so that it does not replace the guard
    os.kill(guard, signal.SIGKILL)
    process.kill()
    process.wait()
    wait_until(lambda: not is_alive(pid), "the command's end")


@case
def the_guard_is_out_of_the_way(world):
    reader, writer = os.pipe()
    process = world.start("run", "a", "--", "sh", "-c", "echo started; exec sleep 1000",
                          pass_fds=(writer,))
    process.stdout.readline()
    guard = world.guard_of(process.pid)
    stat = stat_of(guard)
    check_equal(stat[2:], (guard, guard), "group and session of the guard")
    pipes = {os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in (1, 2, writer)}
    held = {os.readlink(f"/proc/{guard}/fd/{fd}") for fd in os.listdir(f"/proc/{guard}/fd")}
    check(not pipes & held, f"the guard holds none of {pipes}: {held}")
    for name in ("TERM", "INT", "HUP"):
        os.kill(guard, getattr(signal, "SIG" + name))
    world.expect(0, "show", "a")
    check_equal(world.guard_of(process.pid), guard, "the guard, after some signals")
    process.terminate()
    check_equal(world.end(process).status, 143, "status")
    check(not is_alive(guard), "the guard ends with holdfast")
    os.close(reader)
    os.close(writer)


@case
def killed_again_and_again_nobody_meets_another(world):
    """Each command starts a child and writes when it began; both write on until they are killed."""
    world.write("stamps.py", STAMPS)
    script = "python3 stamps.py log.$HOLDFAST_FENCE & exec python3 stamps.py log.$HOLDFAST_FENCE"
    previous = None
    for _ in range(8):
        process = world.start("run", "a", "--", "sh", "-c", script)
        wait_until(lambda: world.holders("a") == [process.pid], "it holds the lock")
        log = "log." + world.fence_of("a")
        began = int(world.read_line(log))
        if previous:
            last = max(int(line) for line in world.read(previous).split())
            check(last < began, f"{previous} was written at {last}, {log} began at {began}")
        process.kill()
        process.wait()
        previous = log


@case
def standard_input_is_passed(world):
    process = world.start("run", "a", "--", "wc", "-c", stdin=subprocess.PIPE)
    result = world.end(process, b"x" * 100000)
    check_equal(result.out.strip(), "100000", "what the command counted")


@case
def a_pipeline_ends_when_the_command_ends(world):
    done = subprocess.run(
        ["sh", "-c", '"$0" run a -- sh -c "echo one; sleep 1000 & echo two" | cat; echo three',
         world.command], cwd=world.folder, env=world.environment, capture_output=True, text=True,
        timeout=60, check=False)
    check_equal(done.stdout, "one\ntwo\nthree\n", "what came through the pipeline")
    done = subprocess.run(["sh", "-c", 'yes | "$0" run a -- head -n 1 | cat', world.command],
                          cwd=world.folder, env=world.environment, capture_output=True, text=True,
                          timeout=60, check=False)
    check_equal(done.stdout, "y\n", "what came through the pipeline")


@case
def the_environment_tells_of_the_lock_and_not_of_the_password(world):
    environment = {**world.environment, "HOLDFAST_PASSWORD": "secret", "HOLDFAST_NAME": "old",
                   "HOLDFAST_FENCE": "old", "OTHER": "kept"}
    result = world.expect(0, "run", "the name", "--", "env", env=environment)
    lines = dict(line.split("=", 1) for line in result.out.splitlines() if "=" in line)
    check_equal(lines["HOLDFAST_NAME"], "the name", "HOLDFAST_NAME")
    check(lines["HOLDFAST_FENCE"].isdigit() and int(lines["HOLDFAST_FENCE"]) > 0, "HOLDFAST_FENCE")
    check_equal(lines["HOLDFAST_URL"], world.environment["HOLDFAST_URL"], "HOLDFAST_URL")
    check_equal(lines["OTHER"], "kept", "other variables")
    check("HOLDFAST_PASSWORD" not in lines, "no password")
    check("secret" not in result.out, "no password anywhere")
    check_equal(result.out.count("HOLDFAST_NAME="), 1, "how often the name is there")


@case
def descriptors_closed_at_the_start_are_closed_for_the_command(world):
    script = "ls -l /proc/self/fd | grep -c ' [0-2] ->' >count"
    subprocess.run(["sh", "-c", '"$0" run a -- sh -c "$1" <&- >&- 2>&-', world.command, script],
                   cwd=world.folder, env=world.environment, check=False, timeout=60)
    subprocess.run(["sh", "-c", 'sh -c "$1" <&- >&- 2>&-', "sh", script.replace("count", "plain")],
                   cwd=world.folder, env=world.environment, check=False, timeout=60)
    check_equal(world.read("count"), world.read("plain"), "the open ones of the first three")
