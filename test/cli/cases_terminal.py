"""On a real terminal: ^C, ^Z, ^\\ and the keyboard act as without holdfast."""

import errno
import os
import pty
import re
import select
import signal
import termios
import time

from harness import LIMIT_S, Failure, case, check, check_equal, is_alive, stat_of, wait_until

PROMPT = "ready> "

# Commands that are to be stopped wait for a fifo and do not start others: a shell that is stopped
# in the middle of vfork(2) does not show it, with or without holdfast.


class Terminal:
    """A pseudo-terminal with an interactive shell on it, and somebody who types and reads."""

    def __init__(self, world, shell=("bash", "--noprofile", "--norc", "--noediting", "-i")):
        environment = {**world.environment, "PS1": PROMPT, "HF": world.command, "HISTFILE": "",
                       "ENV": ""}
        self.text = self.before = ""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(world.folder)
                signal.pthread_sigmask(signal.SIG_SETMASK, set())
                os.execvpe(shell[0], shell, environment)
            finally:
                os._exit(127)
        self.expect(re.escape(PROMPT))
        self.line("stty -echo; set +o history 2>/dev/null")  # what is read is then what was printed
        self.expect(re.escape(PROMPT))

    def send(self, text):
        os.write(self.master, text.encode())

    def line(self, text):
        self.send(text + "\n")

    def expect(self, pattern):
        """Reads until the pattern comes, and forgets all up to its end."""
        end = time.monotonic() + LIMIT_S
        while True:
            match = re.search(pattern, self.text)
            if match:
                self.before = self.text[:match.start()]
                self.text = self.text[match.end():]
                return match
            readable, _, _ = select.select([self.master], [], [], max(0, end - time.monotonic()))
            if not readable:
                raise Failure(f"waited {LIMIT_S} s for {pattern!r}; there is {self.text!r}")
            try:
                data = os.read(self.master, 65536)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                data = b""
            if not data:
                raise Failure(f"the terminal closed before {pattern!r}; there is {self.text!r}")
            self.text += data.decode(errors="replace").replace("\r\n", "\n")

    def prompt(self):
        return self.expect(re.escape(PROMPT))

    def status(self):
        """$? of the last command."""
        self.line('echo "status=$?"')
        return int(self.expect(r"status=(\d+)\n").group(1))

    def answer(self, command):
        """What a command of the shell prints."""
        self.line(f"{command}; echo end-of-answer")
        self.expect("end-of-answer\n")
        text = self.before
        self.prompt()
        return text

    def foreground(self):
        return os.tcgetpgrp(self.master)

    def end(self):
        self.line("exit")
        os.close(self.master)
        _, status = os.waitpid(self.pid, 0)
        return status


def state(pid):
    stat = stat_of(pid)
    return stat[0] if stat else "gone"


@case
def control_c_ends_the_command(world):
    terminal = Terminal(world)
    terminal.line('"$HF" run a -- sh -c "echo started; exec sleep 1000"')
    terminal.expect("started\n")
    terminal.send("\x03")
    terminal.prompt()
    check_equal(terminal.status(), 130, "status")
    world.check_free("a")
    terminal.end()


@case
def control_c_reaches_all_of_the_group_and_may_be_handled(world):
    terminal = Terminal(world)
    terminal.line("""\"$HF\" run a -- sh -c 'trap "echo caught; exit 7" INT; echo started; """
                  """while :; do sleep 0.01; done'""")
    terminal.expect("started\n")
    terminal.send("\x03")
    terminal.expect("caught\n")
    terminal.prompt()
    check_equal(terminal.status(), 7, "status")
    terminal.end()


@case
def control_backslash_ends_the_command(world):
    terminal = Terminal(world)
    terminal.line('ulimit -c 0; "$HF" run a -- sh -c "echo started; exec sleep 1000"')
    terminal.expect("started\n")
    terminal.send("\x1c")
    terminal.prompt()
    check_equal(terminal.status(), 131, "status")
    terminal.end()


@case
def control_z_stops_the_job_and_fg_continues_it(world):
    terminal = Terminal(world)
    terminal.line('"$HF" run a -- sh -c "echo \\$\\$ >pid; echo started; exec cat"')
    terminal.expect("started\n")
    pid = world.read_pid("pid")
    for round in range(3):
        terminal.send("\x1a")
        terminal.expect("Stopped")
        terminal.prompt()
        holder = world.holders("a")
        check_equal((state(pid), state(holder[0])), ("T", "T"), "both are stopped")
        check_equal(terminal.foreground(), terminal.pid, "the shell has the keyboard")
        terminal.line("fg")
        wait_until(lambda: terminal.foreground() == pid, "the command has the keyboard")
        terminal.line(f"hello {round}")
        terminal.expect(f"hello {round}\n")
    terminal.send("\x04")
    terminal.prompt()
    check_equal(terminal.status(), 0, "status")
    world.check_free("a")
    terminal.end()


@case
def a_stopped_job_may_go_on_in_the_background(world):
    terminal = Terminal(world)
    os.mkfifo(world.path("go"))
    terminal.line('"$HF" run a -- sh -c "echo started; read x <go; echo done >log"')
    terminal.expect("started\n")
    terminal.send("\x1a")
    terminal.expect("Stopped")
    terminal.prompt()
    terminal.line("bg")
    terminal.prompt()
    world.write("go", "\n")
    wait_until(lambda: world.read("log"), "the command's end, in the background")
    check_equal(terminal.foreground(), terminal.pid, "the shell keeps the keyboard")
    terminal.line("wait %1")
    terminal.prompt()
    world.check_free("a")
    terminal.end()


@case
def a_command_in_the_background_that_reads_is_stopped_until_fg(world):
    terminal = Terminal(world)
    terminal.line('"$HF" run a -- sh -c "echo \\$\\$ >pid; read x; echo got:\\$x" &')
    pid = world.read_pid("pid")
    wait_until(lambda: state(pid) == "T", "the command is stopped")
    wait_until(lambda: "Stopped" in terminal.answer("jobs"), "the shell knows of the stop")
    terminal.line("fg")
    wait_until(lambda: terminal.foreground() == pid, "the command has the keyboard")
    terminal.line("hello")
    terminal.expect("got:hello\n")
    terminal.prompt()
    terminal.end()


@case
def the_command_reads_from_the_keyboard(world):
    terminal = Terminal(world)
    terminal.line('"$HF" run a -- sh -c "echo started; read x; echo got:\\$x"')
    terminal.expect("started\n")
    terminal.line("hello")
    terminal.expect("got:hello\n")
    terminal.prompt()
    check_equal(terminal.foreground(), terminal.pid, "the shell has the keyboard back")
    terminal.end()


@case
def control_c_ends_a_script_too(world):
    for shell in ("bash", "dash"):
        terminal = Terminal(world)
        world.write("script", '"$HF" run a -- sh -c "echo started; exec sleep 1000"\n'
                              'echo went on\n')
        terminal.line(f"{shell} script")
        terminal.expect("started\n")
        terminal.send("\x03")
        terminal.prompt()
        check_equal(terminal.status(), 130, f"status of the {shell} script")
        check("went on" not in terminal.text, "the script does not go on")
        terminal.end()


@case
def a_script_has_the_keyboard_back_after_the_command(world):
    terminal = Terminal(world)
    world.write("script", '"$HF" run a -- true\nread x\necho got:$x\n')
    terminal.line("bash script")
    wait_until(lambda: terminal.foreground() != terminal.pid, "the script has the keyboard")
    terminal.line("hello")
    terminal.expect("got:hello\n")
    terminal.prompt()
    terminal.end()


@case
def control_c_ends_a_loop_at_the_prompt(world):
    terminal = Terminal(world)
    terminal.line('for i in 1 2 3; do "$HF" run a -- sh -c "echo started $i; exec sleep 1000"; '
                  'done')
    terminal.expect("started 1\n")
    terminal.send("\x03")
    terminal.prompt()
    terminal.line("echo over")
    terminal.expect("^(?s:(?!started).)*over\n")
    terminal.end()


@case
def control_z_stops_a_script_too(world):
    terminal = Terminal(world)
    world.write("script", '"$HF" run a -- sh -c "echo started; read x; echo got:\\$x"\n'
                          'echo went on\n')
    terminal.line("bash script")
    terminal.expect("started\n")
    terminal.send("\x1a")
    terminal.expect("Stopped")
    terminal.prompt()
    terminal.line("fg")
    wait_until(lambda: terminal.foreground() != terminal.pid, "the job has the keyboard")
    terminal.line("hello")
    terminal.expect("got:hello\n")
    terminal.expect("went on\n")
    terminal.prompt()
    terminal.end()


@case
def control_c_ends_a_pipeline(world):
    terminal = Terminal(world)
    terminal.line('"$HF" run a -- sh -c "echo started; exec sleep 1000" | cat')
    terminal.expect("started\n")
    terminal.send("\x03")
    terminal.prompt()
    wait_until(lambda: world.holdfast("show", "-q", "a").status == 1, "the lock is free")
    terminal.end()


@case
def control_z_stops_a_pipeline(world):
    terminal = Terminal(world)
    os.mkfifo(world.path("go"))
    terminal.line('"$HF" run a -- sh -c "echo \\$\\$ >pid; echo started; read x <go; '
                  'echo end" | cat')
    terminal.expect("started\n")
    terminal.send("\x1a")
    terminal.expect("Stopped")
    terminal.prompt()
    wait_until(lambda: state(world.read_pid("pid")) == "T", "the command is stopped")
    terminal.line("fg")
    world.write("go", "\n")
    terminal.expect("end\n")
    terminal.prompt()
    terminal.end()


@case
def in_a_pipeline_another_may_have_the_keyboard(world):
    terminal = Terminal(world)
    terminal.line('"$HF" run a -- sh -c "echo started; while ! [ -e go ]; do sleep 0.01; done" | '
                  'sh -c "cat >/dev/null & read typed </dev/tty; echo got:\\$typed; wait"')
    wait_until(lambda: world.holdfast("show", "-q", "a").status == 0, "the lock is held")
    terminal.line("hello")
    terminal.expect("got:hello\n")
    world.write("go", "")
    terminal.prompt()
    terminal.end()


@case
def in_a_pipeline_the_command_gets_the_keyboard_when_it_asks(world):
    terminal = Terminal(world)
    terminal.line('"$HF" run a -- sh -c "echo started; read typed </dev/tty; '
                  'echo got:\\$typed" | cat')
    terminal.expect("started\n")
    terminal.line("hello")
    terminal.expect("got:hello\n")
    terminal.prompt()
    terminal.end()


@case
def a_shell_with_jobs_of_its_own_runs_under_the_lock(world):
    terminal = Terminal(world)
    terminal.line('"$HF" run a -- bash --noprofile --norc --noediting -i')
    wait_until(lambda: world.holdfast("show", "-q", "a").status == 0, "the lock is held")
    terminal.prompt()
    terminal.line("sh -c 'echo started; exec sleep 1000'")
    terminal.expect("started\n")
    terminal.send("\x03")
    terminal.prompt()
    check_equal(terminal.status(), 130, "status of the job inside")
    terminal.line("sh -c 'echo started; exec cat'")
    terminal.expect("started\n")
    terminal.send("\x1a")
    terminal.expect("Stopped")
    terminal.prompt()
    terminal.line("fg")
    terminal.line("hello")
    terminal.expect("hello\n")
    terminal.send("\x04")
    terminal.prompt()
    terminal.line("exit 3")
    terminal.prompt()
    check_equal(terminal.status(), 3, "status of the shell inside")
    check_equal(terminal.foreground(), terminal.pid, "the outer shell has the keyboard back")
    world.check_free("a")
    terminal.end()


@case
def waiting_shows_who_holds_and_is_wiped_off(world):
    holder = world.hold("a", "--purpose", "some\x1b[31mwork").ready()
    terminal = Terminal(world)
    terminal.line('stty cols 200; "$HF" run a -- echo mine')
    line = terminal.expect("\rholdfast: ([^\r]*)\x1b\\[K").group(1)
    check(f":{holder.pid}" in line and r"some\x1b[31mwork" in line and "'a'" in line, repr(line))
    check("you are next" in line, f"the place: {line!r}")
    holder.end()
    terminal.expect("\r\x1b\\[Kmine\n")
    terminal.prompt()
    terminal.end()


@case
def control_c_ends_the_wait(world):
    holder = world.hold("a").ready()
    terminal = Terminal(world)
    terminal.line('"$HF" run a -- echo mine')
    terminal.expect("waiting for 'a'")
    terminal.send("\x03")
    terminal.prompt()
    check_equal(terminal.status(), 130, "status")
    check_equal(world.waiters("a"), [], "waiters left")
    holder.end()
    terminal.end()


@case
def control_z_stops_the_wait_and_fg_continues_it(world):
    holder = world.hold("a").ready()
    terminal = Terminal(world)
    terminal.line('"$HF" run a -- echo mine')
    terminal.expect("waiting for 'a'")
    terminal.send("\x1a")
    terminal.expect("Stopped")
    terminal.prompt()
    terminal.line("fg")
    terminal.expect("waiting for 'a'")
    holder.end()
    terminal.expect("mine\n")
    terminal.prompt()
    terminal.end()


@case
def a_lock_that_was_broken_while_stopped_is_79_at_fg(world):
    terminal = Terminal(world)
    os.mkfifo(world.path("go"))
    terminal.line('"$HF" run --grace 0 a -- sh -c "trap \'echo >went\' CONT; echo \\$\\$ >pid; '
                  'echo started; read x <go"')
    terminal.expect("started\n")
    pid = world.read_pid("pid")
    terminal.send("\x1a")
    terminal.expect("Stopped")
    terminal.prompt()
    world.expect(0, "break", "a", "--fence", world.fence_of("a"))
    terminal.line("fg")
    terminal.expect("lost 'a'")
    terminal.prompt()
    check(not os.path.exists(world.path("went")), "the command did nothing any more")
    check_equal(terminal.status(), 79, "status")
    check(not is_alive(pid), "the command is dead")
    terminal.end()


@case
def the_terminal_is_mended_after_a_command_that_was_killed(world):
    terminal = Terminal(world)
    terminal.line('stty echo; "$HF" run --grace 0 a -- sh -c "stty raw -echo; echo started; '
                  'exec sleep 1000"')
    terminal.expect("started\n")
    check(not termios.tcgetattr(terminal.master)[3] & termios.ICANON, "the terminal is in raw mode")
    world.expect(0, "break", "a", "--fence", world.fence_of("a"))
    terminal.expect("lost 'a'")
    terminal.prompt()
    wait_until(lambda: termios.tcgetattr(terminal.master)[3] & termios.ICANON, "the old modes")
    terminal.end()


@case
def a_terminal_that_is_closed_ends_everything(world):
    terminal = Terminal(world)
    terminal.line('"$HF" run a -- sh -c "echo \\$\\$ >pid; echo started; sleep 1000; sleep 1000"')
    terminal.expect("started\n")
    pid = world.read_pid("pid")
    os.close(terminal.master)
    os.waitpid(terminal.pid, 0)
    wait_until(lambda: not is_alive(pid), "the command's end")
    wait_until(lambda: world.holdfast("show", "-q", "a").status == 1, "the lock is free")


@case
def without_job_control_control_z_does_nothing(world):
    """Holdfast alone on a terminal: nobody could continue it, so nobody is stopped."""
    pid, master = pty.fork()
    if pid == 0:
        try:
            os.chdir(world.folder)
            os.execve(world.command, ["holdfast", "run", "a", "--", "sh", "-c",
                                      "trap 'echo cont >>log' CONT; echo $$ >pid; read x; exit 5"],
                      world.environment)
        finally:
            os._exit(127)
    world.read_pid("pid")
    os.write(master, b"\x1a")
    wait_until(lambda: "cont" in world.read("log"), "the command is continued at once")
    os.write(master, b"x\n")
    wait_until(lambda: not is_alive(pid), "the end")
    _, status = os.waitpid(pid, 0)
    check_equal(os.waitstatus_to_exitcode(status), 5, "status")
    os.close(master)
