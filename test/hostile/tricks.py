"""What a hostile server may send instead of an answer. A trick gets the link and the good answer.

CODEC tricks attack the reader of bytes, TYPES are whole values of the wrong kind, WORDS are what
our scripts might answer, but should not.
"""

import random
import time

ENDLESS_S = 30  # whoever still listens then has listened too long


def send(data):
    return lambda link, good: link.client.sendall(data)


def endless(head, unit):
    """Until the other side has had enough."""

    def trick(link, _):
        link.client.sendall(head)
        end = time.monotonic() + ENDLESS_S
        while time.monotonic() < end:
            link.client.sendall(unit)

    return trick


def drip_for_ever(head, byte):
    def trick(link, _):
        link.client.sendall(head)
        end = time.monotonic() + ENDLESS_S
        while time.monotonic() < end:
            link.client.sendall(byte)
            time.sleep(0.01)

    return trick


def one_byte_at_a_time(link, good):
    for at in range(len(good)):
        link.client.sendall(good[at:at + 1])


def with_more_before(more):
    return lambda link, good: link.client.sendall(more + good)


def with_more_behind(more):
    return lambda link, good: link.client.sendall(good + more)


def close(link, _):
    link.close()


def close_in_the_middle(link, good):
    link.client.sendall(good[:max(1, len(good) // 2)])
    link.close()


def say_nothing(_link, _good):
    pass


def array(*values):
    """Of texts, numbers and arrays."""
    data = b"*%d\r\n" % len(values)
    for value in values:
        if isinstance(value, bytes):
            data += value  # ready made
        elif isinstance(value, int):
            data += b":%d\r\n" % value
        else:
            data += b"$%d\r\n%s\r\n" % (len(value.encode()), value.encode())
    return data


def message(text):
    return b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$%d\r\n%s\r\n" % (len(text), text)


GARBAGE = random.Random(7).randbytes(100000)
HTTP = b"HTTP/1.1 400 Bad Request\r\nServer: nginx\r\nContent-Length: 0\r\n\r\n"
TLS = b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03" + GARBAGE[:111]

CODEC = {
    "huge array": send(b"*400000000\r\n"),
    "huge array, and its values": endless(b"*400000000\r\n", b":1\r\n" * 4096),
    "huge map": send(b"%200000000\r\n"),
    "huge text": send(b"$999999999999\r\n"),
    "huge text, and its bytes": endless(b"$999999999\r\n", b"x" * 65536),
    "text beyond the limit": endless(b"$5242880\r\n", b"x" * 65536),
    "big text": send(b"$4000000\r\n" + b"x" * 4000000 + b"\r\n"),
    "many texts": endless(b"*1000\r\n", b"$65000\r\n" + b"x" * 65000 + b"\r\n"),
    "nested 100000 deep": send(b"*1\r\n" * 100000),
    "nested 16000 deep": send(b"*1\r\n" * 16000 + b":1\r\n"),
    "16384 values": send(b"*16383\r\n" + b":1\r\n" * 16383),
    "maps of maps": send(b"%2\r\n" * 20 + b":1\r\n" * 100),
    "endless line": endless(b"+", b"a" * 65536),
    "endless line, slowly": drip_for_ever(b"+", b"a"),
    "endless error": endless(b"-ERR ", b"a" * 65536),
    "endless attributes": endless(b"", b"|1\r\n+a\r\n+b\r\n" * 1000),
    "endless messages": endless(b"", message(b"crowded 1") * 1000),
    "count without a number": send(b"*\r\n"),
    "count of letters": send(b"*abc\r\n"),
    "count below -1": send(b"*-5\r\n"),
    "length below -1": send(b"$-7\r\n"),
    "count of 20 digits": send(b"*99999999999999999999\r\n"),
    "number of 30 digits": send(b":" + b"9" * 30 + b"\r\n"),
    "text without an end": send(b"$3\r\nabcdef\r\n"),
    "newline alone": send(b"\n"),
    "end of line alone": send(b"\r\n"),
    "line without a return": send(b"+OK\n"),
    "a zero byte": send(b"\0\r\n"),
    "garbage": send(GARBAGE),
    "tls": send(TLS),
    "http": send(HTTP),
    "answers that nobody asked for": with_more_behind(b"+OK\r\n" * 100),
    "an answer too early": with_more_before(b"+OK\r\n"),
}

TYPES = {
    "nil": send(b"_\r\n"),
    "no text": send(b"$-1\r\n"),
    "no array": send(b"*-1\r\n"),
    "status": send(b"+OK\r\n"),
    "empty status": send(b"+\r\n"),
    "number": send(b":-1\r\n"),
    "empty text": send(b"$0\r\n\r\n"),
    "text": send(b"$5\r\nhello\r\n"),
    "binary text": send(b"$40\r\n" + bytes(range(40)) + b"\r\n"),
    "empty array": send(b"*0\r\n"),
    "array in array": send(b"*1\r\n*1\r\n*0\r\n"),
    "map": send(b"%1\r\n+a\r\n+b\r\n"),
    "set": send(b"~2\r\n:1\r\n:2\r\n"),
    "boolean": send(b"#t\r\n"),
    "double": send(b",1.5\r\n"),
    "big number": send(b"(3492890328409238509324850943850943825024385\r\n"),
    "verbatim": send(b"=7\r\ntxt:abc\r\n"),
    "attribute": send(b"|1\r\n+a\r\n+b\r\n:1\r\n"),
    "attribute within": send(b"*2\r\n|1\r\n+a\r\n*2\r\n:1\r\n:2\r\n:7\r\n:8\r\n"),
    "error": send(b"-ERR no\r\n"),
    "empty error": send(b"-\r\n"),
    "binary error": send(b"-\x01\x02\xff\x00\x1b[31m\r\n"),
    "long error": send(b"-ERR " + b"e" * 60000 + b"\r\n"),
    "error with a length": send(b"!6\r\nERR no\r\n"),
    "loading": send(b"-LOADING Redis is loading the dataset in memory\r\n"),
    "busy": send(b"-BUSY Redis is busy running a script\r\n"),
    "noscript": send(b"-NOSCRIPT No matching script\r\n"),
    "noauth": send(b"-NOAUTH Authentication required.\r\n"),
    "noperm": send(b"-NOPERM this user has no permissions\r\n"),
    "readonly": send(b"-READONLY You can't write against a read only replica.\r\n"),
    "oom": send(b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"),
    "misconf": send(b"-MISCONF Redis is configured to save RDB snapshots\r\n"),
    "two big numbers": send(array("999999999999999999", "999999999999999999")),
    "two small numbers": send(array("-999999999999999999", "-999999999999999999")),
    "closed": close,
    "closed in the middle": close_in_the_middle,
    "silence": say_nothing,
    "one byte at a time": one_byte_at_a_time,
    "strange messages": with_more_before(b">0\r\n>1\r\n:1\r\n>2\r\n$7\r\nmessage\r\n_\r\n"
                                         + message(b"granted 1 2") + message(b"granted ff 1 1")
                                         + message(b"granted 1 9007199254740993 1")
                                         + message(b"broken 1") + message(b"crowded zz")
                                         + message(b"\0" * 50) + message(b"x" * 70000)),
}

HELD = "0123456789abcdef0123456789abcdef 5 1000 0 7 0123456789abcdef 1 77 host purpose"
WORDS = {
    "no word": array(),
    "granted": array("granted"),
    "granted 0": array("granted", "0", 0),
    "granted -5": array("granted", "-5", 0),
    "granted text": array("granted", "a", 0),
    "granted too much": array("granted", "9007199254740993", 0),
    "granted array": array("granted", array("granted"), 1),
    "granted 5": array("granted", "5", 999999999999999999),
    "queued": array("queued"),
    "queued far": array("queued", 4294967296, 0, 0, "0", HELD),
    "queued long": array("queued", 1, 0, 999999999999999999, "1", HELD),
    "queued negative": array("queued", -1, -1, -1, "-1", ""),
    "queued behind nobody": array("queued", 0, 0, 0, "0", "nobody"),
    "queued behind blanks": array("queued", 1, 0, 5, "0", " " * 300),
    "queued behind a crowd": array("queued", 1, 0, 5, "0", HELD + "x" * 70000),
    "refused": array("refused", 1, 0, 5, "0", HELD),
    "gone": array("gone"),
    "gone twice": array("gone", 2),
    "gone broken": array("gone", "broken"),
    "gone expired": array("gone", "expired"),
    "done": array("done"),
    "stale": array("stale"),
    "full": array("full"),
    "collision": array("collision"),
    "nonsense": array("nonsense", 1, 2, 3),
}

ENTRY = array(0, "x", "5", 1000, 1000, "0123456789abcdef 1 77 host purpose")
KEYS = ["hf:{a}", "hf:{" + "n" * 5000 + "}", "hf:{~x" + "61" * 3000 + "}", "hf:{~s}", "hf:{}", "}",
        "hf:{~x6}:s", "hf:{..}:q", "no{prefix}", "hf:{a", "h}", "hf:{\1\x7f}", "hf:{~x00}"]
SCANS = {
    "a scan without an end": send(array("1", array())),
    "a cursor of 30 digits": send(array("9" * 30, array())),
    "a cursor that is none": send(array("-1", array("hf:{a}"))),
    "strange keys": send(array("0", array(*KEYS))),
    "many keys": endless(b"*2\r\n$1\r\n1\r\n*16000\r\n",
                         b"".join(b"$8\r\nhf:{%03d}\r\n" % n for n in range(1000))),
    "keys that are no texts": send(array("0", array(1, array(), "hf:{a}"))),
    "a third value": send(array("0", array(), "x")),
}
PAGES = {
    "an entry": send(array(1, 0, array("", ENTRY))),
    "a page without an end": send(array(0, 1, array("", ENTRY))),
    "more locks than were asked for": send(array(1, 0, *[array("", ENTRY)] * 50)),
    "more done than were asked for": send(array(99, 0, array("", ENTRY))),
    "nothing done": send(array(0, 0, array("", ENTRY))),
    "a skip of 18 digits": send(array(0, 999999999999999999, array("", ENTRY))),
    "a long name": send(array(1, 0, array("n" * 1024, ENTRY))),
    "too long a name": send(array(1, 0, array("n" * 1025, ENTRY))),
    "a name with a zero byte": send(array(1, 0, array("a\0b", ENTRY))),
    "locks that are no arrays": send(array(1, 0, 5, "a", array())),
    "entries that are none": send(array(1, 0, array("", 1, array(), array(1, 2), array(array())))),
    "numbers beyond reason": send(array(1, 0, array("", array(
        4294967296, "x", "5", 1, 1, "a 1 7 h p"), array(
            1, "s", "999999999999999999", 999999999999999999, -999999999999999999, "a 1 7 h p"),
        array(1, "s", "-5", -5, 5, "a 1 99999999999 h p"), array(1, 1, 1, 1, 1, "")))),
}
