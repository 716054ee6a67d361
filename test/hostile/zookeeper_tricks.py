"""What a hostile ZooKeeper may send for an answer. A trick gets the link and the good answer.

FRAMES attack the reader of packets, HEADS are whole packets with something wrong in their head,
ERRORS say what makes no sense, EVENTS come before the good answer; the others are answers to one
step each, which are well-formed, but wrong.
"""

import os
import re
import struct
import time

from tricks import (ENDLESS_S, GARBAGE, HTTP, TLS, close, drip_for_ever, endless, say_nothing, send)
from zookeeper_middle import XID_EVENT, XID_PING, text

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                      "../../src/engine/zookeeper/jute.h")
INT_MAX, INT_MIN, LONG_MAX = (1 << 31) - 1, -(1 << 31), (1 << 63) - 1
LATE_S = 4


def packet_max():
    """The longest packet that the client takes."""
    with open(HEADER, encoding="utf-8") as file:
        units, bits = re.search(r"HF__JUTE_BYTES_MAX \((\d+)u << (\d+)\)", file.read()).groups()
    return int(units) << int(bits)


PACKET_MAX = packet_max()


def i32(*numbers):
    return struct.pack(f">{len(numbers)}i", *numbers)


def i64(*numbers):
    return struct.pack(f">{len(numbers)}q", *numbers)


def changed(**what):
    """The good answer with something else in it."""
    return lambda link, good: link.client.sendall(good.but(**what))


def made(make):
    """The good answer with the body that `make` returns, of the good one. A refusal has none."""
    return lambda link, good: link.client.sendall(
        good.but(body=make(good)) if good.body else good.packet)


def rewritten(make):
    """What `make` returns is the packet's inside."""
    return lambda link, good: link.client.sendall(text(make(good.raw)))


def cut_to(count):
    return rewritten(lambda raw: raw[:count])


def cut_by(count):
    return rewritten(lambda raw: raw[:-count])


def before(*packets):
    return lambda link, good: link.client.sendall(b"".join(packets) + good.packet)


def behind(*packets):
    return lambda link, good: link.client.sendall(good.packet + b"".join(packets))


def event(kind, path, state=3):
    return text(i32(XID_EVENT) + i64(-1) + i32(0, kind, state) + text(path))


def one_byte_at_a_time(link, good):
    for byte in good.packet:
        link.client.sendall(bytes([byte]))


def close_in_the_middle(link, good):
    link.client.sendall(good.packet[:len(good.packet) // 2])
    link.close()


def twice(link, good):
    link.client.sendall(good.packet * 2)


def late(link, good):
    time.sleep(LATE_S)
    link.client.sendall(good.packet)


def full_packet(link, good):
    """The good answer, and behind it as much as a packet may hold."""
    link.client.sendall(text(good.raw + bytes(PACKET_MAX - len(good.raw))))


def slow_packet(link, good):
    """One of which all but the last bytes come at once."""
    link.client.sendall(i32(PACKET_MAX) + good.raw + bytes(PACKET_MAX - len(good.raw) - 5000))
    drip_for_ever(b"", b"\0")(link, good)


def flood(link, good):
    """Events about what is watched, as fast as they go."""
    unit = b"".join(event(kind, path) for kind in range(1, 5)
                    for path in (good.path, good.path.rpartition(b"/")[0], b"/elsewhere")) * 50
    end = time.monotonic() + ENDLESS_S
    link.client.sendall(good.packet)
    while time.monotonic() < end:
        link.client.sendall(unit)


PONG = text(i32(XID_PING) + i64(0) + i32(0))
FRAMES = {
    "length 0": send(i32(0)),
    "length 0, for ever": endless(b"", i32(0) * 4096),
    "length -1": send(i32(-1) + GARBAGE[:100]),
    "length of 2 GiB": send(i32(INT_MIN) + GARBAGE[:100]),
    "length of 2 GiB less 1": endless(i32(INT_MAX), bytes(65536)),
    "length beyond the limit": endless(i32(PACKET_MAX + 1), bytes(65536)),
    "zeros to the limit": send(i32(PACKET_MAX) + bytes(PACKET_MAX)),
    "slowly to the limit": slow_packet,
    "slowly": drip_for_ever(i32(1000), b"\0"),
    "ones to the limit": send(i32(PACKET_MAX) + b"\xff" * PACKET_MAX),
    "garbage": send(GARBAGE),
    "HTTP": send(HTTP),
    "TLS": send(TLS),
    "1 byte": cut_to(1), "3 bytes": cut_to(3), "4 bytes": cut_to(4), "11 bytes": cut_to(11),
    "15 bytes": cut_to(15),
    "closed": close,
    "closed in the middle": close_in_the_middle,
    "silence": say_nothing,
}
BODIES = {  # cut short; of answers that have one
    "no body": cut_to(16), "17 bytes": cut_to(17), "20 bytes": cut_to(20), "24 bytes": cut_to(24),
    "a byte less": cut_by(1), "4 bytes less": cut_by(4), "8 bytes less": cut_by(8),
    "60 bytes less": cut_by(60), "69 bytes less": cut_by(69),
}
HARMLESS = {
    "one byte at a time": one_byte_at_a_time,
    "more behind": rewritten(lambda raw: raw + b"more"),
    "as much behind as there may be": full_packet,
    "zxid 0": changed(zxid=0),
}
HEADS = {
    "another's number": lambda link, good: link.client.sendall(good.but(xid=good.xid + 1)),
    "number 0": changed(xid=0),
    "number of an event": changed(xid=XID_EVENT),
    "number of a ping": changed(xid=XID_PING),
    "number of an authentication": changed(xid=-4, error=-115),
    "number of watches": changed(xid=-8),
    "number -100": changed(xid=-100),
    "twice": twice,
    "too late": late,
    "zxid -1": changed(zxid=-1),
    "the last zxid": changed(zxid=LONG_MAX),
}
ERRORS = {f"error {number}": changed(error=number, body=b"") for number in (
    1, -1, -2, -4, -5, -6, -8, -100, -101, -102, -103, -108, -110, -111, -112, -114, -115, -118,
    -119, -121, -122, -124, -125, -127, -999, INT_MAX, INT_MIN)}
ERRORS["error -101, and an answer"] = changed(error=-101)
STRANGE = (b"", b"/", b"/elsewhere", b"\0\1\2", b"x" * 70000, b"/holdfast", b"/holdfast/")
EVENTS = {
    "events of unknown paths": before(*(event(kind, path) for kind in (-1, 0, 1, 2, 3, 4, 5, 99)
                                        for path in STRANGE)),
    "events of unknown states": before(*(event(2, b"/", state) for state in (-112, 0, 4, 99))),
    "half an event": before(text(i32(XID_EVENT) + i64(-1) + i32(0, 2))),
    "an event with half a path": before(text(i32(XID_EVENT) + i64(-1) + i32(0, 2, 3, 50) + b"/")),
    "a flood of events": flood,
    "pongs that nobody waits for": before(PONG, PONG, PONG),
    "a pong with an error": before(text(i32(XID_PING) + i64(0) + i32(-112))),
}


def welcome(timeout=4000, session=None, key=None, version=0):
    def make(raw):
        one = struct.unpack(">q", raw[8:16])[0] if session is None else session
        return i32(version, timeout) + i64(one) + (key or raw[16:36]) + b"\0"

    return rewritten(make)


WELCOMES = {
    "no session": welcome(session=0),
    "neither session nor time": welcome(0, 0),
    "no time": welcome(0), "time -1": welcome(-1), "least time": welcome(INT_MIN),
    "key of 0 bytes": welcome(key=i32(0)), "no key": welcome(key=i32(-1)),
    "key of -2 bytes": welcome(key=i32(-2)),
    "key of 15 bytes": welcome(key=text(b"k" * 15)),
    "key of 17 bytes": welcome(key=text(b"k" * 17)),
    "key of 100000 bytes": welcome(key=text(b"k" * 100000)),
    "key of 2 GiB": welcome(key=i32(INT_MAX)),
}
LYING_WELCOMES = {
    "1 ms": welcome(1), "5 ms": welcome(5), "24 days": welcome(INT_MAX),
    "another session": welcome(session=77), "session -1": welcome(session=-1),
    "another key": welcome(key=text(b"k" * 16)), "version -1": welcome(version=-1),
}


def config(data, stat=bytes(68)):
    return changed(body=text(data) + stat)


CONFIGS = {
    "as many servers as there may be": config(b"server." * (PACKET_MAX // 7 - 40)),
    "lines of servers": config(b"server.\n" * (PACKET_MAX // 8 - 40)),
    "one of many observers": config(b"server." * 100000 + b":observer\n"),
    "zeros": config(bytes(100000)),
    "no text": changed(body=i32(-1) + bytes(68)),
}


def created(path=None, czxid=None):
    """`path` of the good one; the stat lies behind it."""

    def make(good):
        size = struct.unpack(">i", good.body[:4])[0]
        name, stat = good.body[4:4 + size], good.body[4 + size:]
        number = struct.unpack(">q", stat[:8])[0] if czxid is None else czxid
        return text(path(name) if path else name) + i64(number) + stat[8:]

    return made(make)


def named(name):
    """It is said to be the child of that name."""
    return created(lambda path: path.rpartition(b"/")[0] + b"/" + name)


CREATES = {
    "no path": created(lambda path: b""),
    "the root": created(lambda path: b"/"),
    "the lock itself": created(lambda path: path.rpartition(b"/")[0]),
    "without a number": created(lambda path: path[:-10]),
    "a number of letters": created(lambda path: path[:-10] + b"x" * 10),
    "a number of 11 digits": created(lambda path: path[:-10] + b"99999999999"),
    "a number beyond 31 bits": created(lambda path: path[:-10] + b"2147483648"),
    "a name of 300 bytes": named(b"w" * 290 + b"0000000000"),
    "a name of 70000 bytes": named(b"w" * 70000 + b"0000000000"),
    "a name with a zero byte": named(b"w-\0" + b"0000000000"),
    "the name of nobody": named(b"0000000000"),
    "the name of another": named(b"w-" + b"0" * 16 + b"-" + b"0" * 32 + b"-0000000000"),
    "czxid 0": created(czxid=0), "czxid -1": created(czxid=-1), "czxid 1": created(czxid=1),
    "czxid of 55 bits": created(czxid=(1 << 55) - 1), "czxid of 56 bits": created(czxid=1 << 56),
    "the last czxid": created(czxid=LONG_MAX), "the first czxid": created(czxid=-LONG_MAX - 1),
}


def names(*those):
    return i32(len(those)) + b"".join(text(name) for name in those)


def line(make):
    """The names that `make` returns, of the good ones."""

    def body(good):
        rest, those = good.body[4:], []
        while rest:
            size = struct.unpack(">i", rest[:4])[0]
            those.append(rest[4:4 + size])
            rest = rest[4 + size:]
        return names(*make(those))

    return made(body)


def number_of(name):
    return name[-10:]


STEM = b"w-" + b"0" * 16 + b"-" + b"0" * 32 + b"-"
CHILDREN = {  # whatever is asked for next
    "count of 31 bits": changed(body=i32(INT_MAX)),
    "count -2": changed(body=i32(-2)), "least count": changed(body=i32(INT_MIN)),
    "a count too many": made(lambda good: i32(struct.unpack(">i", good.body[:4])[0] + 1)
                             + good.body[4:]),
    "a name of 2 GiB": changed(body=i32(1, INT_MAX)),
    "a name of -2 bytes": changed(body=i32(1, -2)),
    "names without bytes, to the limit": changed(
        body=i32(PACKET_MAX // 4 - 8) + bytes(PACKET_MAX - 32)),
    "names that are not there": changed(body=i32(1000) + i32(-1) * 1000),
    "nobody": changed(body=i32(0)), "no list": changed(body=i32(-1)),
    "names of 300 bytes": changed(body=names(*[b"w" * 290 + b"0000000000"] * 100)),
    "a name of 1 MiB": changed(body=names(b"w" * (1 << 20))),
    "names without numbers": changed(body=names(b"lock", b"x", b"0123456789x", b"\xff" * 20)),
}
LINES = {
    "a crowd ahead": line(lambda good: good + [
        STEM + b"-%010d" % (number + 1) for number in range(20000)]),
    "as many ahead as there may be": changed(body=names(
        *[b"%010d" % number for number in range(PACKET_MAX // 14 - 10)])),
    "numbers that go round": line(
        lambda good: good + [STEM + b"-2147483648", STEM + b"2147483647"]),
    "names with zero bytes": line(lambda good: good + [b"w\0-" + b"0000000000", b"\0" * 30]),
    "all twice": line(lambda good: good * 2),
    "one that is not there": line(lambda good: good + [STEM + b"-0000000009"]),
    "all with one number": line(lambda good: good + [STEM + number_of(good[0])] if good else []),
}
ROOTS = {
    "strange locks": changed(body=names(b"a", b"n" * 5000, b"~x" + b"61" * 3000, b"~s", b"", b"..",
                                        b"~x6", b"\1\x7f", b"~x00", b"~s" + b"0" * 40, b"a/b")),
    "many locks": changed(body=names(*[b"lock%06d" % number for number in range(2000)])),
    "as many locks as there may be": changed(body=names(
        *[b"~~%06d" % number for number in range(PACKET_MAX // 12 - 10)])),
}


def data(text_of, owner=None, czxid=None):
    """A node that says this, with the good one's stat, or another owner."""

    def make(good):
        stat = good.body[-68:]
        stat = (stat[:8] if czxid is None else i64(czxid)) + stat[8:]
        stat = stat[:44] + (stat[44:52] if owner is None else i64(owner)) + stat[52:]
        return text(text_of) + stat

    return made(make)


DATA = {
    "data of 2 GiB": changed(body=i32(INT_MAX) + bytes(100)),
    "data of -2 bytes": changed(body=i32(-2) + bytes(100)),
    "no data": changed(body=i32(-1) + bytes(68)),
    "as much data as there may be": data(b"w 0 77 host " + b"x" * (PACKET_MAX - 200)),
    "a host of 100000 bytes": data(b"w 0 77 " + b"x" * 100000 + b" purpose"),
    "control bytes": data(b"w 0 77 ho\x1b[2Jst pur\x07pose\0\x7f\x9b\r\n"),
    "a purpose of bytes that are no letters": data(b"w 0 77 host " + bytes(range(128, 256))),
    "broken, with a grace of 20 digits": data(b"!w 18446744073709551615 77 host purpose"),
    "broken, with a grace of a day": data(b"!w 86400000 77 host purpose"),
    "a reader": data(b"r 0 77 host purpose"),
    "numbers beyond reason": data(b"w 99999999999999999999999 99999999999 host purpose"),
    "a word": data(b"w"), "blanks": data(b" " * 300), "an exclamation": data(b"!"),
    "of nobody": data(b"w 0 77 host purpose", owner=0),
    "shorter than a token": data(b"w 5000 77 host x"),
    "czxid of data 0": data(b"w 0 77 host purpose", czxid=0),
    "the last czxid of data": data(b"w 0 77 host purpose", czxid=LONG_MAX),
}
FAILED = i32(-1) + b"\0" + i32(-101, -101, -1) + b"\1" + i32(-1)  # as a real one says it
CHECKS = {
    "it is not there": changed(body=FAILED),
    "something went wrong": changed(body=FAILED.replace(i32(-101), i32(-999))),
    "nothing was checked": changed(body=i32(-1) + b"\1" + i32(-1)),
    "something else was done": changed(body=i32(2) + b"\0" + i32(0, -1) + b"\1" + i32(-1)),
}


class Stray:
    """One of the nodes that are deleted together was never there: nothing is deleted."""

    @staticmethod
    def ask(data):
        end = data.rindex(b"-")  # before the last one's number
        return data[:end + 1] + b"9999999999" + data[end + 11:]

    def __call__(self, link, good):
        link.client.sendall(good.packet)


def parts(good):
    """How many were deleted: each has 9 bytes, and the end has as many."""
    return len(good.body) // 9 - 1


DELETED, END = i32(2) + b"\0" + i32(0), i32(-1) + b"\1" + i32(-1)
UNDONE = i32(-1) + b"\0" + i32(-101, -101)
JOINED = {
    "one was never there": Stray(),
    "nothing was done": made(lambda good: UNDONE * parts(good) + END),
    "the first was done": made(lambda good: DELETED + UNDONE * (parts(good) - 1) + END),
    "the last was not done": made(lambda good: DELETED * (parts(good) - 1) + UNDONE + END),
    "one too few": made(lambda good: DELETED * (parts(good) - 1) + END),
    "one too many": made(lambda good: DELETED * (parts(good) + 1) + END),
    "no part": changed(body=END),
    "no end": made(lambda good: DELETED * parts(good)),
    "something else was done in one": made(
        lambda good: i32(1) + b"\0" + i32(0) + DELETED * (parts(good) - 1) + END),
    "an error in one": made(
        lambda good: i32(2) + b"\0" + i32(-101) + DELETED * (parts(good) - 1) + END),
}
