"""Signals that are sent to holdfast: they end a wait, and are passed on to a command."""

import os
import signal
import subprocess

from harness import case, check, check_equal, is_alive, wait_until

FATAL = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "ALRM", "PIPE", "VTALRM", "XCPU", "RTMIN")


def number(name):
    return int(getattr(signal, "SIG" + name))


@case
def a_signal_ends_the_wait_and_holdfast_dies_of_it(world):
    holder = world.hold("a").ready()
    for name in FATAL:
        waiter = world.start("run", "a", "--", "touch", "ran")
        world.wait_waiting("a", waiter.pid)
        waiter.send_signal(number(name))
        check_equal(world.end(waiter).status, -number(name), f"how {name} ends it")
        check_equal(world.waiters("a"), [], "waiters left")
    holder.end()
    check(not os.path.exists(world.path("ran")), "nothing ran")


@case
def a_signal_to_a_waiter_does_not_hold_up_the_next(world):
    holder = world.hold("a").ready()
    first = world.start("run", "a", "--", "true")
    world.wait_waiting("a", first.pid)
    second = world.start("run", "a", "--", "sh", "-c", "exit 5")
    world.wait_waiting("a", second.pid)
    first.send_signal(signal.SIGTERM)
    world.end(first)
    check_equal(world.waiters("a"), [second.pid], "who waits")
    holder.end()
    check_equal(world.end(second).status, 5, "status of the second")


@case
def signals_are_passed_on_to_the_whole_group(world):
    script = "(echo >child; exec sleep 1000) & echo $! >child.pid; echo $$ >pid; exec sleep 1000"
    for name in FATAL:
        for file in ("pid", "child.pid", "child"):
            if os.path.exists(world.path(file)):
                os.unlink(world.path(file))
        process = world.start("run", "a", "--", "sh", "-c", script)
        pid, child = world.read_pid("pid"), world.read_pid("child.pid")
        wait_until(lambda: os.path.exists(world.path("child")), "the child's start")
        process.send_signal(number(name))
        check_equal(world.end(process).status, 128 + number(name), f"status after {name}")
        check(not is_alive(pid) and not is_alive(child), "both are dead")
        world.check_free("a")


@case
def a_command_may_handle_what_is_passed_on(world):
    script = ("trap 'echo usr1 >>log' USR1; trap 'echo term >>log; exit 7' TERM; echo $$ >pid; "
              "while :; do sleep 0.01; done")
    process = world.start("run", "a", "--", "sh", "-c", script)
    world.read_pid("pid")
    process.send_signal(signal.SIGUSR1)
    wait_until(lambda: "usr1" in world.read("log"), "the trap")
    process.send_signal(signal.SIGTERM)
    check_equal(world.end(process).status, 7, "status")
    check_equal(world.read("log"), "usr1\nterm\n", "what was handled")


@case
def no_signal_is_lost_between_grant_and_exec(world):
    """Sent at the first sign of the grant, when the command may not even have been forked."""
    for _ in range(30):
        reader, writer = os.pipe()
        process = world.start("run", "--status-fd", str(writer), "a", "--", "sleep", "1000",
                              pass_fds=(writer,))
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8") as lines:
            while "acquired" not in lines.readline():
                pass
            process.send_signal(signal.SIGTERM)
            status = world.end(process).status
            check(status in (143, -15), f"ended by the signal: {status}")
    world.check_free("a")


@case
def what_was_ignored_stays_ignored(world):
    script = "echo $$ >pid; read x <go; exec grep -E '^Sig(Ign|Blk)' /proc/self/status"
    os.mkfifo(world.path("go"))
    process = subprocess.Popen(
        ["nohup", world.command, "run", "a", "--", "sh", "-c", script], cwd=world.folder,
        env=world.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, restore_signals=True)
    world.read_pid("pid")
    process.send_signal(signal.SIGHUP)
    with open(world.path("go"), "w", encoding="utf-8") as file:
        file.write("\n")
    result = world.end(process)
    check_equal(result.status, 0, "status")
    ignored = int(result.out.split("SigIgn:")[1].split()[0], 16)
    blocked = int(result.out.split("SigBlk:")[1].split()[0], 16)
    check(ignored & 1 << (signal.SIGHUP - 1), "the command ignores SIGHUP")
    check_equal(blocked, 0, "what the command blocks")


@case
def what_was_ignored_does_not_end_the_wait(world):
    holder = world.hold("a").ready()
    waiter = world.start("run", "a", "--", "sh", "-c", "exit 5", restore_signals=False,
                         preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    world.wait_waiting("a", waiter.pid)
    waiter.send_signal(signal.SIGHUP)
    holder.end()
    check_equal(world.end(waiter).status, 5, "status")


@case
def the_command_gets_mask_and_dispositions_as_holdfast_did(world):
    def prepare():
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGUSR1})

    command = ("grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status")
    result = world.expect(0, "run", "a", "--", *command, preexec_fn=prepare,
                          restore_signals=False)
    plain = subprocess.run(command, preexec_fn=prepare, restore_signals=False,
                           capture_output=True, text=True, check=True)
    check_equal(result.out, plain.stdout, "the signals of a command, with and without holdfast")


@case
def stop_and_continue_are_passed_on(world):
    os.mkfifo(world.path("go"))  # without children: a shell does not stop in the middle of vfork(2)
    process = world.start("run", "a", "--", "sh", "-c", "echo $$ >pid; read x <go",
                          start_new_session=True)
    pid = world.read_pid("pid")
    process.send_signal(signal.SIGTSTP)
    wait_until(lambda: state(pid) == "T", "the command stops")
    check(state(process.pid) != "T", "without a terminal holdfast goes on")
    process.send_signal(signal.SIGCONT)
    wait_until(lambda: state(pid) != "T", "the command goes on")
    process.send_signal(signal.SIGTERM)
    check_equal(world.end(process).status, 143, "status")


def state(pid):
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0].decode()
