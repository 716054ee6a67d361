"""What a hostile MariaDB may say at one step, and at no other: when it greets, when somebody signs
in, of itself, of a statement, of a lock that was taken briefly, of the news, and of a list.
"""

import struct

from mysql_middle import DEFINITION, end, ok, packet, packets
from mysql_tricks import (GARBAGE, MIB, before, behind, endless, error, every_row, instead, made,
                          rows, send, swapped)

NATIVE, SHA2 = b"mysql_native_password", b"caching_sha2_password"
CHALLENGE = b"abcdefghijklmnopqrst"
ABLE_41, ABLE_TLS, ABLE_SECURE, ABLE_PLUGINS = 1 << 9, 1 << 11, 1 << 15, 1 << 19


# --- the greeting ---

class Greeting:
    """https://mariadb.com/kb/en/connection/ : the parts of the initial handshake packet"""

    def __init__(self, body):
        self.protocol = body[:1]
        self.version, rest = body[1:].split(b"\0", 1)
        self.id, self.first = rest[:4], rest[4:12]
        low, self.charset, self.state, high, self.length = struct.unpack_from("<HBHHB", rest, 13)
        self.able = low | high << 16
        self.filler, self.second, self.plugin = rest[21:31], rest[31:44], rest[44:]

    def pack(self):
        return (self.protocol + self.version + b"\0" + self.id + self.first + b"\0"
                + struct.pack("<HBHHB", self.able & 0xffff, self.charset, self.state,
                              self.able >> 16, self.length)
                + self.filler + self.second + self.plugin)


def greeting(**parts):
    """The server's, with other parts; those that can be called are given the good one."""
    def make(good):
        found = Greeting(good.bodies[0])
        for name, value in parts.items():
            setattr(found, name, value(getattr(found, name)) if callable(value) else value)
        return [found.pack()]

    return made(make)


def cut(count):
    return made(lambda good: [good.bodies[0][:count]])


def unable(bit):
    return greeting(able=lambda able: able & ~bit)


GREETINGS = {
    "protocol 9": greeting(protocol=b"\x09"),
    "protocol 11": greeting(protocol=b"\x0b"),
    "protocol 0": greeting(protocol=b"\0"),
    **{f"a greeting of {count} bytes": cut(count) for count in (1, 2, 9, 30, 47, 50, 60)},
    "a version without an end": instead(b"\x0a" + b"9" * 70),
    "a version of 100 KiB": greeting(version=b"10.11." + b"9" * 100000),
    "a version that paints": greeting(version=b"10.11\x1b[31m\r\n-MariaDB"),
    "no version": greeting(version=b""),
    "another connection": greeting(id=b"\xff\xff\xff\x7f"),
    "no connection": greeting(id=bytes(4)),
    "able to nothing": greeting(able=0),
    "not of 4.1": unable(ABLE_41),
    "no challenge is told": unable(ABLE_SECURE),
    "no plugins": unable(ABLE_PLUGINS),
    "a challenge of zeros": greeting(first=bytes(8), second=bytes(13)),
    "another challenge": greeting(first=b"12345678"),
    "a second half of five bytes": greeting(second=b"abcd\0", plugin=b""),
    "a plugin that there is not": greeting(plugin=b"sign_by_magic\0"),
    "a plugin without an end": greeting(plugin=b"x" * 5000),
    "a plugin that shows passwords": greeting(plugin=b"mysql_clear_password\0"),
    "no plugin": greeting(plugin=b""),
    "a length of nothing": greeting(length=0),
    "a length of 255": greeting(length=255),
    "a character set that there is not": greeting(charset=255),
    "a state that there is not": greeting(state=0xffff),
    "greeted twice": behind(b"\x0a10.11.6-MariaDB\0" + b"x" * 60),
    "OK for a greeting": instead(ok()),
    "an OK behind the greeting": lambda link, good: link.client.sendall(
        good.raw + packet(ok(), 2)),
    **{f"greeted by error {code}": instead(error(code, state=b""))
       for code in (1040, 1129, 1130, 1203, 1045, 9999)},
}
HARMLESS_GREETINGS = {"a length of nothing", "a length of 255", "a state that there is not",
                      "a character set that there is not", "no version", "a version that paints",
                      "no plugin", "a plugin that there is not", "a plugin that shows passwords",
                      "a version of 100 KiB", "a plugin without an end"}

# Where TLS is wanted, and everybody hears the greeting.
SECURE_GREETINGS = {
    "not able to speak TLS": unable(ABLE_TLS),
    "an OK before TLS": lambda link, good: link.client.sendall(good.raw + packet(ok(), 2)),
    "an error before TLS": lambda link, good: link.client.sendall(
        good.raw + packet(error(1045), 2)),
    "a switch before TLS": lambda link, good: link.client.sendall(
        good.raw + packet(b"\xfe" + NATIVE + b"\0" + CHALLENGE + b"\0", 2)),
    "greeted twice": lambda link, good: link.client.sendall(good.raw * 2),
    "not of 4.1": unable(ABLE_41),
    "http": send(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "garbage": send(GARBAGE),
}


# --- signing in ---

def switch(plugin, challenge=CHALLENGE + b"\0"):
    return b"\xfe" + plugin + b"\0" + challenge


def in_turn(*bodies):
    """Each is the answer to one of the client's."""
    return lambda link, good: link.client.sendall(b"".join(
        packet(body, good.first + 2 * at) for at, body in enumerate(bodies)))


SIGNS = {
    "OK": instead(ok()),  # and so it is
    "OK of one byte": instead(b"\0"),
    "another way, without a name": instead(b"\xfe"),
    "another way, that there is not": instead(switch(b"sign_by_magic")),
    "another way, that paints": instead(switch(b"\x1b[31m\r\nmagic")),
    "another way, without an end": instead(b"\xfe" + b"x" * 5000),
    "the password in the clear": instead(switch(b"mysql_clear_password", b"")),
    "the password in the clear, and OK": in_turn(switch(b"mysql_clear_password", b""), ok()),
    "a dialog": instead(switch(b"dialog", b"\4Password: ")),
    "a key for the password": instead(switch(b"sha256_password")),
    "a challenge of five bytes": instead(switch(NATIVE, b"abcd\0")),
    "no challenge": instead(b"\xfe" + NATIVE),
    "another way, again and again": endless(b"", packet(switch(NATIVE), 2) * 100),
    "caching, and the password itself": in_turn(switch(SHA2), b"\1\4"),
    "caching, and the password itself, and OK": in_turn(switch(SHA2), b"\1\4", ok()),
    "caching, and a key": in_turn(switch(SHA2), b"\1\4", b"\1-----BEGIN PUBLIC KEY-----\n"),
    "caching, known, for ever": endless(packet(switch(SHA2), 2), packet(b"\1\3", 4) * 1000),
    "caching, known, and silence": in_turn(switch(SHA2), b"\1\3"),
    "the password itself": instead(b"\1\4"),
    "more, of no kind": instead(b"\1"),
    "more, of a kind that there is not": instead(b"\1\7"),
    "a file is asked for": instead(b"\xfb/etc/passwd"),
    "a result": rows((b"granted 256 0",)),
    **{f"error {code}": instead(error(code))
       for code in (1045, 1049, 1044, 1698, 1820, 3118, 9999)},
    "an error of one byte": instead(b"\xff"),
    "an error that paints": instead(error(1045, b"\x1b[31m\r\n" * 20)),
}


# --- of itself ---

FACTS = {
    "another connection": swapped(0, b"4294967295"),
    "a connection of words": swapped(0, b"one"),
    "no connection": swapped(0, None),
    "version 5.7": swapped(1, b"5.7.44-log"),
    "version 10.5 of MariaDB": swapped(1, b"10.5.1-MariaDB"),
    "a version of words": swapped(1, b"eleven"),
    "a version of 2^64": swapped(1, b"18446744073709551616.99999999999"),
    "a version of 100 KiB": swapped(1, b"x" * 100000),
    "no version": swapped(1, None),
    "MySQL": swapped(1, b"8.0.36"),
    "no clock": swapped(2, None),
    "a clock of words": swapped(2, b"noon"),
    "a clock of -1": swapped(2, b"-1"),
    "a clock of 2^63": swapped(2, b"9223372036854775808"),
    "a clock of 1970": swapped(2, b"1"),
    "a clock that stands": swapped(3, b"0"),
    "a clock that says nothing": swapped(3, None),
    "five facts": every_row(lambda row: [*row, b"1"]),
    "three facts": every_row(lambda row: row[:3]),
}
TRUE_FACTS = {"MySQL", "a clock of 1970"}


def variables(**values):
    def make(good):
        found = {row[0]: row[1] for row in good.rows()}
        found.update({name.encode(): value for name, value in values.items()})
        return good.result(*found.items())

    return made(make)


VARIABLES = {
    "read-only": variables(read_only=b"ON"),
    "super-read-only": variables(super_read_only=b"1"),
    "a value that there is not": variables(read_only=b"perhaps"),
    "a node of a cluster": variables(wsrep_on=b"ON"),
    "a go-between": variables(version_comment=b"(ProxySQL)"),
    "null for all": every_row(lambda row: [None, None]),
    "values of null": every_row(lambda row: [row[0], None]),
    "names of 100 KiB": every_row(lambda row: [row[0] * 10000, row[1]]),
    "one column": every_row(lambda row: row[:1]),
    "a thousand": rows(*[(b"sync_binlog", b"1")] * 1000),
}
TRUE_VARIABLES = {"null for all", "no row", "names of 100 KiB", "a thousand"}


# --- of a statement ---

def prepared(statement=None, columns=0, parameters=0, more=()):
    """None: the good number."""
    def make(good):
        known = struct.unpack_from("<I", good.bodies[0], 1)[0]
        return [b"\0" + struct.pack("<IHHxH", known if statement is None else statement, columns,
                                    parameters, 0), *more]

    return made(make)


PREPARED = {
    "another statement's number": prepared(1),
    "a number that there is not": prepared(0xfffffffe),
    "65535 parameters": prepared(parameters=65535, more=[DEFINITION] * 70 + [end()]),
    "65535 columns": prepared(columns=65535, more=[DEFINITION] * 70 + [end()]),
    "63 parameters, and none is told of": prepared(parameters=63),
    "no parameters": prepared(),
    "a statement of three bytes": instead(b"\0\1\0"),
    "a statement of nine bytes": instead(b"\0\1\0\0\0\1\0\1\0"),
    "definitions for ever": endless(
        packet(b"\0" + struct.pack("<IHHxH", 1, 60, 0, 0)), packet(DEFINITION) * 300),
    "an error for a definition": prepared(columns=1, more=[error(1317)]),
    "a row for a statement": rows((b"granted 256 0",)),
    "an end for a statement": instead(end()),
    "a file is asked for": instead(b"\xfb/etc/passwd"),
    "a table is missing": instead(error(1146)),
    "a procedure is missing": instead(error(1305)),
}
TRUE_PREPARED = {"another statement's number", "a number that there is not", "no parameters"}

# --- of a lock that was taken, or given back, briefly ---

BRIEFS = {
    "taken with no fence": instead(ok(1, 0)),
    "taken with a fence of 1": instead(ok(1, 1)),
    "taken with a fence of 255": instead(ok(1, 255)),
    "taken with a fence of 257": instead(ok(1, 257)),
    "taken with a fence of 2^62": instead(ok(1, 1 << 62)),
    "taken with a fence of 2^63": instead(ok(1, 1 << 63)),
    "taken with a fence of 2^64 - 256": instead(ok(1, (1 << 64) - 256)),
    "two were taken": instead(ok(2, 25600)),
    "2^64 - 1 were taken": instead(ok((1 << 64) - 1, 25600)),
    "taken in a transaction": instead(ok(1, 25600, state=3)),
    "taken, and more follows": instead(ok(1, 25600, state=10)),
    "a result, and taken": made(lambda good: [
        *good.result((b"granted 25600 0",), state=10), ok(1, 0)]),
}

# --- the news ---

KEY = b"0123456789abcdef"


def news(*told):
    """(token and what became of it, tag, fence, whether others wait), before the good ones."""
    return made(lambda good: good.result(*told, *good.rows(), columns=4))


def for_all(kind):
    """Every claim of a client: its first ones have these tags."""
    return [(b"%016x" % tag + kind, b"%d" % ((1 << 32) + tag), b"25600", b"0")
            for tag in range(64)]


def news_for_ever(*told):
    """Another key each time."""
    def trick(link, good):
        bodies = good.result(told[0], columns=4)
        link.client.sendall(packets(*bodies[:-2], first=good.first))
        unit = b"".join(packet(good.row(b"%016x" % at + told[0][0], *told[0][1:]))
                        for at in range(300))
        endless(b"", unit)(link, good)

    return trick


NEWS = {
    "news of nobody": news((KEY + b"g", b"18446744073709551615", b"256", b"0"),
                           (KEY + b"b", b"0", b"256", b"0"), (KEY + b"c", b"1", b"256", b"1"),
                           (KEY + b"?", b"1", b"256", b"1")),
    "news with a fence of 0": news((KEY + b"g", b"4294967296", b"0", b"0")),
    "news with a fence of 255": news((KEY + b"g", b"4294967296", b"255", b"0")),
    "news with a fence of 2^62": news((KEY + b"g", b"4294967296", b"4611686018427387904", b"0")),
    "news with a key of 16 bytes": news((KEY, b"4294967296", b"256", b"0")),
    "news with a key of 1000 bytes": news((KEY * 60, b"4294967296", b"256", b"0")),
    "news with words for numbers": news((KEY + b"g", b"one", b"two", b"three")),
    "news of null": news((None, None, None, None)),
    "news of one column": made(lambda good: good.result((KEY + b"g",))),
    "news of twenty columns": made(lambda good: good.result((KEY + b"g",) * 20)),
    "granted to everybody": news(*for_all(b"g")),
    "broken, all of them": news(*for_all(b"b")),
    "crowded, all of them": news(*for_all(b"c")),
    "news for ever": news_for_ever((b"c", b"4294967296", b"256", b"0")),
    "grants of nobody for ever": news_for_ever((b"g", b"77", b"256", b"0")),
    "the same news again and again": news(*[(KEY + b"c", b"4294967296", b"256", b"0")] * 1000),
    "news in a transaction": made(lambda good: good.result(*good.rows(), columns=4, state=3)),
    "an OK before the news": before(ok()),
    "an OK behind the news": behind(ok()),
    "two OKs behind the news": behind(ok(), ok()),
    "OKs behind the news, for ever": lambda link, good: endless(
        good.raw, packet(ok()) * 1000)(link, good),
}

# --- a list ---


def list_for_ever(link, good):
    """Rows of locks that match, one after the other."""
    found = good.rows() or [[b"x", b"0", b"0", b"256", b"1", b"1", b""]]
    bodies = good.result(found[0])
    link.client.sendall(packets(*bodies[:-2], first=good.first))
    endless(b"", packet(bodies[-2]) * 500)(link, good)


LISTS = {
    "names of no bytes": every_row(lambda row: [b"", *row[1:]]),
    "names of 2000 bytes": every_row(lambda row: [b"x" * 2000, *row[1:]]),
    "names with a zero": every_row(lambda row: [b"a\0b", *row[1:]]),
    "null for all": every_row(lambda row: [None] * 7),
    "words for numbers": every_row(lambda row: [row[0], *[b"many"] * 5, row[6]]),
    "numbers of -1": every_row(lambda row: [row[0], *[b"-1"] * 5, row[6]]),
    "numbers of 2^64": every_row(lambda row: [row[0], *[b"18446744073709551616"] * 5, row[6]]),
    "numbers of 2^64 - 1": every_row(lambda row: [row[0], *[b"18446744073709551615"] * 5, row[6]]),
    "six columns": every_row(lambda row: row[:6]),
    "eight columns": every_row(lambda row: [*row, b""]),
    "who of 200 KiB": every_row(lambda row: [*row[:6], b"w 0 1 host " + b"x" * 200000]),
    "who of 1 MiB": every_row(lambda row: [*row[:6], b"w 0 1 host " + b"x" * MIB]),
    "who that is nobody": every_row(lambda row: [*row[:6], GARBAGE[:200]]),
    "a row that is cut": made(lambda good: [
        *good.result(columns=7)[:-1], good.row(b"a", b"0", b"0", b"256", b"1", b"1", b"")[:-4],
        end()]),
    "an error behind a row": made(lambda good: [
        *good.result((b"a", b"0", b"0", b"256", b"1", b"1", b""))[:-1], error(1317)]),
    "the list in a transaction": made(lambda good: good.result(
        *good.rows(), columns=7, state=3)),
    "the list for ever": list_for_ever,
}
TRUE_LISTS = {"names of no bytes", "names of 2000 bytes", "names with a zero", "words for numbers",
              "numbers of -1", "numbers of 2^64", "numbers of 2^64 - 1", "who of 200 KiB",
              "who that is nobody", "the list in a transaction"}
