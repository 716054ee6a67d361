"""What a hostile PostgreSQL may send for an answer. A trick gets the link and the good answer.

FRAMES attack libpq, which must end the connection and no more than that; SHAPES are whole answers
of another shape than ours have; ERRORS are errors that make no sense; WORDS are what our functions
might answer, but should not; the others are for one step each.
"""

import struct
import time

from postgres_middle import message, row
from tricks import ENDLESS_S, GARBAGE, HTTP, TLS, close, drip_for_ever, endless, say_nothing, send

LATE_S = 4
READY = message(b"Z", b"I")
DONE = message(b"C", b"SELECT 1\0")
MIB = 1 << 20


def head_of(good):
    """Up to the first row."""
    out = b""
    for kind, body in good.messages:
        if kind in (b"D", b"C", b"E", b"Z"):
            break
        out += message(kind, body)
    return out


def rows(*values):
    """The good answer with these rows instead of its own."""
    return lambda link, good: link.client.sendall(
        good.with_rows(*(row(*value) for value in values)))


def described(count, *values, oid=25):
    """So many columns are told of, and these come."""
    columns = b"".join(b"c%d\0" % i + struct.pack(">ihihih", 0, 0, oid, -1, -1, 1)
                       for i in range(count))
    return lambda link, good: link.client.sendall(
        message(b"2") + message(b"T", struct.pack(">h", count) + columns) + b"".join(values) + DONE
        + READY)


def instead(*messages):
    """These, and the end of an answer."""
    return lambda link, good: link.client.sendall(b"".join(messages) + READY)


def before(*messages):
    return lambda link, good: link.client.sendall(b"".join(messages) + good.raw)


def behind(*messages):
    return lambda link, good: link.client.sendall(good.raw + b"".join(messages))


def error(code, severity="ERROR", text="no"):
    fields = (b"S" + severity.encode() + b"\0V" + severity.encode() + b"\0C" + code.encode()
              + b"\0M" + text.encode() + b"\0\0")
    return message(b"E", fields)


def notify(text):
    return message(b"A", struct.pack(">i", 1) + b"hf_0000000000000000\0" + text + b"\0")


def one_byte_at_a_time(link, good):
    for byte in good.raw:
        link.client.sendall(bytes([byte]))


def close_in_the_middle(link, good):
    link.client.sendall(good.raw[:len(good.raw) // 2])
    link.close()


def half(link, good):
    link.client.sendall(good.raw[:len(good.raw) // 2])


def late(link, good):
    time.sleep(LATE_S)
    link.client.sendall(good.raw)


def flood(make):
    """Before the good answer, as fast as they go, and it never comes."""
    def trick(link, good):
        end = time.monotonic() + ENDLESS_S
        unit = make(good)
        while time.monotonic() < end:
            link.client.sendall(unit)

    return trick


def flood_behind(unit):
    def trick(link, good):
        link.client.sendall(good.raw)
        end = time.monotonic() + ENDLESS_S
        while time.monotonic() < end:
            link.client.sendall(unit)

    return trick


def head_of_great_row(size):
    return b"D" + struct.pack(">ihi", size + 10, 1, size)


def great_row_behind(size):
    """Which belongs to no answer, and comes together with one."""
    def trick(link, good):
        link.client.sendall(good.raw + head_of_great_row(size) + b"x" * 1000)
        endless(b"", b"x" * 65536)(link, good)

    return trick


def endless_rows(*values):
    def trick(link, good):
        link.client.sendall(head_of(good))
        endless(b"", row(*values) * 200)(link, good)

    return trick


def great_row(size, comes):
    """One that says it is so long; and comes, or a part of it, or slowly."""
    def trick(link, good):
        link.client.sendall(head_of(good) + head_of_great_row(size))
        if comes == "slowly":
            drip_for_ever(b"x" * (size - 5000), b"x")(link, good)
        elif comes:
            endless(b"", b"x" * 65536)(link, good)

    return trick


FRAMES = {
    "length 0": send(b"D" + struct.pack(">i", 0)),
    "length 3": send(b"Z" + struct.pack(">i", 3)),
    "length -1": send(b"D" + struct.pack(">i", -1) + GARBAGE[:100]),
    "length of 2 GiB": send(b"D" + struct.pack(">i", (1 << 31) - 1) + GARBAGE[:100]),
    "length of 2 GiB, and its bytes": endless(b"D" + struct.pack(">i", (1 << 31) - 1),
                                              b"x" * 65536),
    "an unknown kind": send(message(b"\xff", b"abc")),
    "a kind of the old protocol": send(b"E" + b"FATAL: no\n\0"),
    "garbage": send(GARBAGE),
    "http": send(HTTP),
    "tls": send(TLS),
    "close": close,
    "close in the middle": close_in_the_middle,
    "half, and silence": half,
    "silence": say_nothing,
    "a byte now and then": drip_for_ever(b"D" + struct.pack(">i", 100000), b"\0"),
    "notices for ever": flood(lambda good: message(b"N", b"SNOTICE\0C00000\0Mno\0\0") * 500),
    "parameters for ever": flood(lambda good: message(b"S", b"a\0b\0") * 1000),
    "messages for ever": flood(lambda good: notify(b"crowded 0000000000000001") * 500),
    "messages of 8 KiB for ever": flood(lambda good: notify(b"x" * 8000) * 20),
    "an endless notice": endless(b"N" + struct.pack(">i", 1 << 30), b"x" * 65536),
}

SHAPES = {
    "no row": lambda link, good: link.client.sendall(good.with_rows()),
    "two rows": rows((b"granted 256 0",), (b"granted 512 0",)),
    "a thousand rows": rows(*[(b"granted 256 0",)] * 1000),
    "rows for ever": endless_rows(b"granted 256 0"),
    "rows of 8 KiB for ever": endless_rows(b"x" * 8192),
    "no columns": described(0, row()),
    "two columns": described(2, row(b"granted 256 0", b"granted 256 0")),
    "1600 columns": described(1600, row(*[b"granted 256 0"] * 1600)),
    "more values than columns": described(1, row(b"granted 256 0", b"x")),
    "fewer values than columns": described(2, row(b"granted 256 0")),
    "rows without columns": lambda link, good: link.client.sendall(
        message(b"2") + row(b"granted 256 0") + DONE + READY),
    "columns twice": lambda link, good: link.client.sendall(
        message(b"2") + b"".join(message(k, b) for k, b in good.messages if k == b"T") * 2
        + row(b"granted 256 0") + DONE + READY),
    "a column that is a number": described(1, row(struct.pack(">q", 256)), oid=20),
    "null": rows((None,)),
    "a value of length -2": lambda link, good: link.client.sendall(
        head_of(good) + message(b"D", struct.pack(">hi", 1, -2)) + DONE + READY),
    "a value longer than its message": lambda link, good: link.client.sendall(
        head_of(good) + message(b"D", struct.pack(">hi", 1, 1000) + b"x") + DONE + READY),
    "nothing": rows((b"",)),
    "a zero byte within": rows((b"granted 256\0 0",)),
    "no letters": rows((bytes(range(128, 256)),)),
    "a text of 1 MiB": rows((b"granted " + b"9" * MIB,)),
    "a text of 7 MiB": rows((b"queued " + b"9" * 7 * MIB,)),
    "a text of 1 GiB, not sent": great_row(1 << 30, False),
    "a text of 1 GiB": great_row(1 << 30, True),
    "a text of 4 MiB, slowly": great_row(4 * MIB, "slowly"),
    "an empty query": instead(message(b"I")),
    "a copy to us": instead(message(b"H", b"\0\0\0")),
    "a copy to us, for ever": endless(message(b"H", b"\0\0\0"), message(b"d", b"x" * 8000) * 8),
    "a copy from us": instead(message(b"G", b"\0\0\0")),
    "suspended": instead(message(b"2"), message(b"s")),
    "ready alone": instead(),
    "no end": lambda link, good: link.client.sendall(good.raw[:-6]),
    "ready in a failed transaction": lambda link, good: link.client.sendall(
        good.raw[:-1] + b"E"),
    "ready in a state that there is not": lambda link, good: link.client.sendall(
        good.raw[:-1] + b"?"),
}

ERRORS = {
    "an error without fields": instead(message(b"E", b"\0")),
    "an error without a code": instead(message(b"E", b"SERROR\0Mno\0\0")),
    "an unknown code": instead(error("ZZZZZ")),
    "a code of one letter": instead(error("4")),
    "a code of 1000 letters": instead(error("X" * 1000)),
    "a text of 100 KiB": instead(error("XX000", text="x\x1b[31m" * 20000)),
    "fatal": instead(error("XX000", "FATAL")),
    "panic": instead(error("XX000", "PANIC")),
    "a severity that there is not": instead(error("40001", "SOMETIMES")),
    "a success for an error": instead(error("00000")),
    "an endless error": endless(b"E" + struct.pack(">i", 1 << 30), b"Mxxxx" * 10000),
    "two errors": instead(error("40001"), error("40001")),
    **{f"error {code}": instead(error(code))
       for code in ("42501", "42P01", "42883", "26000", "0A000", "53300", "57P01", "57014",
                    "40001", "40P01", "25006", "08006", "HF001", "HF002", "HF003", "28P01",
                    "3D000", "55P03", "58030", "40003")},
}

WORDS = {f"the words '{text[:60]}'": rows((text.encode(),)) for text in (
    "granted 0 0", "granted 255 0", "granted -256 0", "granted 256", "granted 256 ", "granted x 0",
    "granted 18446744073709551616 0", "granted 4611686018427387904 0", "granted  ", "granted",
    "queued", "queued 1", "queued -1 -1 -1 -1 -1 ", "queued 4294967295 0 0 0 0 ",
    "queued 1 0 18446744073709551615 18446744073709551615 0 ", "refused x y z", "queued 1 0 0 0 0",
    "gone expired", "gone maybe", "gone 2", "done", "stale", "locked", "wait", "wait x", "wait -1",
    "wait 18446744073709551615", "GRANTED 256 0", " granted 256 0", "gone1", "null", "%s%s%n")}
WORDS["who of 100 KiB"] = rows((b"queued 1 0 0 0 0 " + b"77" * 50000,))
WORDS["who that is no hex"] = rows((b"refused 1 0 0 0 0 zz\xff\xff",))

FACTS = {
    "version 9": lambda link, good: link.client.sendall(swap(good, 0, b"90600")),
    "version 13": lambda link, good: link.client.sendall(swap(good, 0, b"130000")),
    "a version of words": lambda link, good: link.client.sendall(swap(good, 0, b"fifteen")),
    "a version of 2^64": lambda link, good: link.client.sendall(swap(good, 0, b"9" * 20)),
    "no version": lambda link, good: link.client.sendall(swap(good, 0, None)),
    "a replica": lambda link, good: link.client.sendall(swap(good, 1, b"t")),
    "read-only": lambda link, good: link.client.sendall(swap(good, 2, b"t")),
    "another process": lambda link, good: link.client.sendall(swap(good, 3, b"1")),
    "no clock": lambda link, good: link.client.sendall(swap(good, 7, None)),
    "a clock of words": lambda link, good: link.client.sendall(swap(good, 7, b"noon")),
    "a clock of 2^63": lambda link, good: link.client.sendall(
        swap(good, 7, b"9223372036854775808")),
    "no start": lambda link, good: link.client.sendall(swap(good, 6, b"")),
}


def values_of(body):
    """Of a row."""
    values, at = [], 2
    for _ in range(struct.unpack(">h", body[:2])[0]):
        size = struct.unpack(">i", body[at:at + 4])[0]
        values.append(None if size < 0 else body[at + 4:at + 4 + size])
        at += 4 + max(size, 0)
    return values


def swap(good, column, value):
    values = values_of(good.of(b"D")[0])
    values[column] = value
    return good.with_rows(row(*values))


def listed(make):
    """The good list, each row changed."""
    return lambda link, good: link.client.sendall(good.with_rows(
        *(row(*make(values_of(body))) for body in good.of(b"D"))))


LISTS = {
    "names of no bytes": listed(lambda values: [b"", *values[1:]]),
    "names of 2000 bytes": listed(lambda values: [b"x" * 2000, *values[1:]]),
    "names with a zero": listed(lambda values: [b"a\0b", *values[1:]]),
    "null for all": listed(lambda values: [None] * len(values)),
    "numbers of 3 bytes": listed(lambda values: [value if value is None or len(value) != 8
                                                 else b"abc" for value in values]),
    "numbers of -1": listed(lambda values: [value if value is None or len(value) != 8
                                            else b"\xff" * 8 for value in values]),
    "six columns": listed(lambda values: values[:6]),
    "who of 1 MiB": listed(lambda values: values[:6] + [b"w 0 1 host " + b"x" * MIB]),
    "who that is nobody": listed(lambda values: values[:6] + [GARBAGE[:200]]),
    "the list for ever": lambda link, good: flood_list(link, good),
}


def flood_list(link, good):
    """Rows of locks that match, one after the other."""
    body = good.of(b"D")[0] if good.of(b"D") else None
    link.client.sendall(head_of(good))
    unit = (message(b"D", body) if body else row(b"x")) * 500
    endless(b"", unit)(link, good)


UNASKED = {
    "messages without a text": before(message(b"A", struct.pack(">i", 1) + b"c\0\0")),
    "messages of nobody": before(*[notify(text) for text in (
        b"granted ffffffffffffffff 256 0", b"granted 0 256 0", b"broken 1", b"crowded x",
        b"granted 100000000 999999999999999999999999 1", b"broken ffffffffffffffffffff",
        b"\xff" * 50, b"granted", b"")] * 20),
    "granted to everybody": before(*[notify(b"granted %016x 25600 0" % ((1 << 32) + number))
                                     for number in range(64)]),
    "notices": before(*[message(b"N", b"SWARNING\0C01000\0Mno\0\0")] * 100),
    "another parameter": before(message(b"S", b"server_version\00099.0\0")),
}

HARMLESS = {"one byte at a time": one_byte_at_a_time}
LATE = {"too late": late}
EXTRA = {"an answer that nobody asked for": behind(message(b"2"), DONE, READY),
         "messages behind it, for ever": flood_behind(notify(b"crowded 1") * 300),
         "a text of 1 GiB behind it": great_row_behind(1 << 30)}

WELCOMES = {
    "the password is wrong": send(error("28P01", "FATAL")),
    "too many": send(error("53300", "FATAL")),
    "starting up": send(error("57P03", "FATAL")),
    "a way to sign in that there is not": send(message(b"R", struct.pack(">i", 99))),
    "in the clear": send(message(b"R", struct.pack(">i", 3))),
    "as md5": send(message(b"R", struct.pack(">i", 5) + b"salt")),
    "signed in at once": send(message(b"R", struct.pack(">i", 0)) + READY),
    "a protocol that there is not": send(message(b"v", struct.pack(">ii", 9, 0))),
}
