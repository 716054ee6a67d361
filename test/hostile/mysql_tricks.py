"""What a hostile MariaDB may send for an answer. A trick gets the link and the good answer.

FRAMES attack the reader of packets; SHAPES the reader of results, which are whole packets here;
ERRORS are errors that make no sense; WORDS are what our procedures might answer, but should not.
What is for one step alone is in mysql_lies.py.
"""

import socket
import struct
import time

from mysql_middle import DEFINITION, end, number, ok, packet, packets
from tricks import GARBAGE, HTTP, TLS, close, drip_for_ever, endless, say_nothing, send

LATE_S = 4
SHORT_S = 0.2
MIB = 1 << 20
PACKET_MAX = 256 << 10
REDIS = b"-ERR unknown command\r\n"
POSTGRES = b"E\0\0\0\x50SFATAL\0VFATAL\0C0A000\0Munsupported frontend protocol\0\0"


def instead(*bodies):
    """These, as the packets of the answer."""
    return lambda link, good: link.client.sendall(packets(*bodies, first=good.first))


def rows(*values, **how):
    """The answer has these rows, each a tuple."""
    return lambda link, good: link.client.sendall(
        packets(*good.result(*values, **how), first=good.first))


def made(make):
    """make(good): bodies"""
    return lambda link, good: link.client.sendall(packets(*make(good), first=good.first))


def before(*bodies):
    return lambda link, good: link.client.sendall(
        packets(*bodies, *good.bodies, first=good.first))


def behind(*bodies):
    return lambda link, good: link.client.sendall(
        good.raw + packets(*bodies, first=good.first))


def behind_for_ever(*bodies):
    def trick(link, good):
        endless(good.raw, packets(*bodies, first=good.first) * 500)(link, good)

    return trick


def error(code, said=b"no", state=b"#HY000"):
    return b"\xff" + struct.pack("<H", code) + state + said


def one_byte_at_a_time(link, good):
    for byte in good.raw:
        link.client.sendall(bytes([byte]))


def late(link, good):
    time.sleep(LATE_S)
    link.client.sendall(good.raw)


def close_in_the_middle(link, good):
    link.client.sendall(good.raw[:len(good.raw) // 2])
    link.close()


def half(link, good):
    link.client.sendall(good.raw[:len(good.raw) // 2])


def say_no_more(link, good):
    """It still listens."""
    link.client.shutdown(socket.SHUT_WR)


def answer_and_say_no_more(link, good):
    link.client.sendall(good.raw)
    link.client.shutdown(socket.SHUT_WR)


def numbered(change):
    """The packets have other numbers."""
    return lambda link, good: link.client.sendall(b"".join(
        packet(body, change(good.first + at)) for at, body in enumerate(good.bodies)))


def in_two_parts(size):
    """A packet of so many bytes, the last two of which are late."""
    def trick(link, good):
        whole = packet(b"x" * size, good.first)
        link.client.sendall(whole[:-2])
        time.sleep(SHORT_S)
        link.client.sendall(whole[-2:])

    return trick


def rows_for_ever(*values):
    def trick(link, good):
        bodies = good.result(values)
        link.client.sendall(packets(*bodies[:-2], first=good.first))
        endless(b"", packet(bodies[-2]) * 200)(link, good)

    return trick


def results_for_ever(link, good):
    """Another one follows each."""
    unit = packets(*good.result((b"granted 256 0",), state=10), first=good.first)
    endless(b"", unit * 100)(link, good)


FRAMES = {
    "a packet of no bytes": instead(b""),
    "packets of no bytes, for ever": endless(b"", packet(b"") * 1000),
    "a packet of 16 MiB": send(b"\xff\xff\xff\x01" + GARBAGE[:100]),
    "a packet of 16 MiB, and its bytes": endless(b"\xff\xff\xff\x01", b"x" * 65536),
    "packets of 16 MiB, one part of the other": endless(
        b"", b"\xff\xff\xff\x01" + b"x" * 0xffffff),
    "a packet of 256 KiB, the end late": in_two_parts(PACKET_MAX),
    "a packet of 256 KiB and one": in_two_parts(PACKET_MAX + 1),
    "a packet of 200 KiB": in_two_parts(200 << 10),
    "a packet of 200 KiB, not sent": send(packet(b"x", length=200 << 10)),
    "a packet of 1 MiB": instead(b"x" * MIB),
    "an unknown kind": instead(b"\xfd\xfd"),
    "garbage": send(GARBAGE),
    "http": send(HTTP),
    "tls": send(TLS),
    "redis": send(REDIS),
    "postgres": send(POSTGRES),
    "close": close,
    "close in the middle": close_in_the_middle,
    "half, and silence": half,
    "silence": say_nothing,
    "the end of a stream": say_no_more,
    "a byte now and then": drip_for_ever(packet(b"", length=100000), b"\0"),
    "numbers that are one too great": numbered(lambda place: place + 1),
    "numbers that stay": numbered(lambda place: 7),
    "numbers that fall": numbered(lambda place: 255 - place),
}

SHAPES = {
    "OK": instead(ok()),
    "OK of one byte": instead(b"\0"),
    "OK of three bytes": instead(b"\0\0\0"),
    "OK with a number that is cut": instead(b"\0\xfe\1\2"),
    "OK with no number": instead(b"\0\xfb\xff\2\0\0\0"),
    "OK, and more that never comes": instead(ok(state=10)),
    "OK, and more for ever": endless(b"", packet(ok(state=10)) * 1000),
    "OK in a transaction": instead(ok(1, 25600, state=3)),
    "an end alone": instead(end()),
    "an end of one byte": instead(b"\xfe"),
    "an end of nine bytes": instead(b"\xfe" + bytes(8)),
    "a file is asked for": instead(b"\xfb/etc/passwd"),
    "a file is asked for behind it": behind(b"\xfb/etc/passwd"),
    "no columns": instead(b"\xfc\0\0", end(), end()),
    "33 columns": rows((b"granted 25600 0",) * 33),
    "2^32 columns": instead(number(1 << 32), *[DEFINITION] * 3),
    "2^64 - 1 columns": instead(b"\xfe" + b"\xff" * 8, *[DEFINITION] * 3),
    "a number of columns that is cut": instead(b"\xfc\1"),
    "columns, and nothing else": instead(b"\1"),
    "no definitions": made(lambda good: good.result((b"granted 25600 0",))[:1]
                           + good.result((b"granted 25600 0",))[2:]),
    "a definition too many": made(lambda good: [b"\1", DEFINITION, *good.result(
        (b"granted 25600 0",))[1:]]),
    "a definition is missing": made(lambda good: [b"\2", *good.result((b"granted 25600 0",))[1:]]),
    "no mark behind the definitions": made(lambda good: [b"\1", DEFINITION, *good.result(
        (b"granted 25600 0",))[3:]]),
    "an error for a definition": instead(b"\1", error(1317)),
    "an error for a row": made(lambda good: good.result(columns=1)[:-1] + [error(1205)]),
    "definitions of no bytes": made(lambda good: [b"\1", b"", *good.result((b"granted 25600 0",))]),
    "no row": made(lambda good: good.result(columns=max(1, good.bodies[0][0]))),
    "two rows": rows((b"granted 25600 0",), (b"granted 51200 0",)),
    "a thousand rows": rows(*[(b"granted 25600 0",)] * 1000),
    "rows for ever": rows_for_ever(b"granted 25600 0"),
    "rows of 8 KiB for ever": rows_for_ever(b"x" * 8192),
    "no end": made(lambda good: good.result((b"granted 25600 0",))[:-1]),
    "two columns": rows((b"granted 25600 0", b"granted 25600 0")),
    "32 columns": rows((b"granted 25600 0",) * 32),
    "more values than columns": made(lambda good: [
        *good.result(columns=1)[:-1], good.row(b"granted 25600 0", b"x"), end()]),
    "fewer values than columns": made(lambda good: [
        *good.result(columns=2)[:-1], good.row(b"granted 25600 0"), end()]),
    "null": rows((None,)),
    "a row of one byte": made(lambda good: [*good.result(columns=1)[:-1], b"\0", end()]),
    "a value longer than its packet": made(lambda good: [
        *good.result(columns=1)[:-1], good.row(b"")[:-1] + b"\xfc\xff\xffx", end()]),
    "a value of 2^64 - 1 bytes": made(lambda good: [
        *good.result(columns=1)[:-1], good.row(b"")[:-1] + b"\xfe" + b"\xff" * 8 + b"x", end()]),
    "a value whose length is cut": made(lambda good: [
        *good.result(columns=1)[:-1], good.row(b"")[:-1] + b"\xfe\1", end()]),
    "nothing": rows((b"",)),
    "a zero byte within": rows((b"granted 25600\0 0",)),
    "no letters": rows((bytes(range(128, 256)),)),
    "a text of 200 KiB": rows((b"queued " + b"9" * (200 << 10),)),
    "a text of 1 MiB": rows((b"granted " + b"9" * MIB,)),
    "results for ever": results_for_ever,
    "two results": made(lambda good: good.result((b"granted 25600 0",), state=10)
                        + good.result((b"granted 51200 0",))),
    "a result, and more that never comes": rows((b"granted 25600 0",), state=10),
    "a result in a transaction": rows((b"granted 25600 0",), state=3),
}

CODES = (1020, 1021, 1040, 1044, 1045, 1049, 1053, 1129, 1142, 1146, 1180, 1205, 1213, 1226, 1243,
         1290, 1305, 1317, 1366, 1406, 1665, 1820, 1927, 1969, 3159, 4031)
ERRORS = {
    "an error of one byte": instead(b"\xff"),
    "an error of two bytes": instead(b"\xff\x15"),
    "an error without a state": instead(error(1205, state=b"")),
    "an error whose state is cut": instead(b"\xff\xb5\x04#40"),
    "an error without a text": instead(error(1205, b"")),
    "error 0": instead(error(0)),
    "error 65535": instead(error(65535)),
    "an error of 100 KiB": instead(error(1064, b"x\x1b[31m\0\r\n" * 12000)),
    "an error of 200 KiB, not sent": send(packet(error(1064), length=200 << 10)),
    "two errors": instead(error(1205), error(1205)),
    "an error, and the answer": before(error(1213)),
    **{f"error {code}": instead(error(code)) for code in CODES},
}


def said(word):
    """One line for each of many, where they are asked for together."""
    def trick(link, good):
        line = word + b"\n" if good.step in ("renew", "inspect") else word
        link.client.sendall(packets(*good.result((line,)), first=good.first))

    return trick


WORDS = {f"the words '{word[:60]}'": said(word.encode()) for word in (
    "granted 0 0", "granted 255 0", "granted 257 0", "granted -256 0", "granted 25600",
    "granted 25600 ", "granted x 0", "granted 18446744073709551616 0",
    "granted 4611686018427387904 0", "granted  ", "granted",
    "queued", "queued 1", "queued -1 -1 -1 -1 -1 -1 ", "queued 4294967295 0 0 0 0 0 ",
    "queued 1 0 18446744073709551615 18446744073709551615 0 0 ", "refused x y z",
    "queued 1 0 0 0 0 0", "queued 1 0 0 0 4611686018427387904 0 ", "refused 1 0 0 0 0 0 ",
    "queued 1 0 0 0 0 99999999999999999999 ",
    "gone expired", "gone broken", "gone maybe", "gone 2", "gone 1 1", "done", "stale", "full",
    "spent", "mixed", "locked", "wait", "wait x", "wait -1", "wait 18446744073709551615", "wait 5",
    "GRANTED 25600 0", " granted 25600 0", "gone1", "null", "%s%s%n")}
WORDS["who of 100 KiB"] = said(b"queued 1 0 0 0 0 0 " + b"77" * 50000)
WORDS["who that is no hex"] = said(b"refused 1 0 0 0 0 0 zz\xff\xff")

UNASKED = {
    "an OK before it": before(ok()),
    "an OK behind it": behind(ok()),
    "a row behind it": behind(b"\0\0\x05hello"),
    "an error behind it": behind(error(1927)),
    "an error of nobody behind it": lambda link, good: link.client.sendall(
        good.raw + packet(error(4031), 0)),
    "half a packet behind it": lambda link, good: link.client.sendall(good.raw + b"\5\0\0\1\0"),
    "the answer twice": lambda link, good: link.client.sendall(good.raw * 2),
    "OKs behind it, for ever": behind_for_ever(ok()),
    "the end of the stream behind it": answer_and_say_no_more,
}
BEHIND = {*UNASKED, "a file is asked for behind it"} - {"an OK before it"}
# Nothing can follow these on the same connection.
HANGING = {"half, and silence", "a byte now and then", "half a packet behind it", "tls",
           "a packet of 200 KiB, not sent", "an error of 200 KiB, not sent"}
HARMLESS = {"one byte at a time": one_byte_at_a_time}
LATE = {"too late": late}


def swapped(column, value):
    """The first row of the answer with another value in it."""
    def trick(link, good):
        found = good.rows()
        found[0][column] = value
        link.client.sendall(packets(*good.result(*found), first=good.first))

    return trick


def every_row(change):
    """Those of the answer, each changed."""
    return lambda link, good: link.client.sendall(packets(
        *good.result(*(change(row) for row in good.rows()), columns=None if good.rows() else 7),
        first=good.first))

