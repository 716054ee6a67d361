"""What a hostile server may send instead of an answer. A trick gets the link and the good answer.

CODEC tricks attack the reader of bytes, TYPES are whole values of the wrong kind, PLAIN are what
commands answer, WORDS are what our scripts might answer, but should not; some recipes have more of
these.
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
    "plain 5": b"$1\r\n5\r\n",
    "plain 0": b"$1\r\n0\r\n",
    "plain -5": b"$2\r\n-5\r\n",
    "plain too much": b"$16\r\n9007199254740993\r\n",
    "zero": b":0\r\n",
    "one": b":1\r\n",
    "two": b":2\r\n",
}
WHO = "0123456789abcdef 1 77 host purpose"
RAW_WORDS = {  # of set, setnx and getset
    "refused by somebody": array("refused", "5", WHO),
    "refused by another program": array("refused", "0", ""),
    "refused by a crowd": array("refused", "5", "a b 77 " + "h" * 70000),
    "refused by a number": array("refused", "5", 5),
    "refused too much": array("refused", "9007199254740993", WHO),
    "refused, and granted": array("granted", "5", 0, "value", -1),
    "refused, and done": array("done", "5", WHO, "value", -1),
    "refused without a limit": array("refused", "0", "", "value", -1),
    "refused without a value": array("refused", "0", "", "", -1),
    "refused for ever": array("refused", "0", WHO, "v" * 70000, 999999999999999999),
    "refused behind an array": array("refused", "0", WHO, array("v"), 5),
    "ours": array("ours"),
    "foreign": array("foreign"),
}
HELD_HERE = "0123456789abcdef0123456789abcdef 5 1000 0 7 " + WHO
QUORUM_WORDS = {
    "granted what nobody proposed": array("granted", "9007199254740991"),
    "low": array("low"),
    "low 0": array("low", "0"),
    "low -5": array("low", "-5"),
    "low text": array("low", "x"),
    "low far": array("low", "9007199254740991"),
    "low too much": array("low", "9007199254740992"),
    "refused here": array("refused", "5", 1000, HELD_HERE),
    "refused far": array("refused", "9007199254740991", 1000, HELD_HERE),
    "refused by nobody": array("refused", "5", -2, ""),
    "refused by a crowd": array("refused", "5", 5, HELD_HERE + "x" * 70000),
    "unmarked": array("unmarked"),
    "done 0": array("done", "0", "0", "0123"),
    "done far": array("done", "9007199254740991", "86400000", "0123"),
    "done far and soon": array("done", "9007199254740991", "0", "0123"),
    "done too long": array("done", "5", "86400001", "0123"),
    "done too much": array("done", "9007199254740992", "5", "0123"),
    "done negative": array("done", "-5", "-5", "-5"),
    "done arrays": array("done", array(), array("5"), array("0123")),
}
PLAIN = {
    "zero": send(b":0\r\n"),
    "one": send(b":1\r\n"),
    "two": send(b":2\r\n"),
    "huge": send(b":9223372036854775807\r\n"),
    "queued": send(b"+QUEUED\r\n"),
    "a past time": send(b"$1\r\n1\r\n"),
    "a time far off": send(b"$19\r\n9223372036854775807\r\n"),
    "a time of 30 digits": send(b"$30\r\n" + b"9" * 30 + b"\r\n"),
    "a long text": send(b"$70000\r\n" + b"x" * 70000 + b"\r\n"),
    "what EXEC might answer": send(array(1, 1)),
    "what EXEC might answer of nothing": send(array(0, 0)),
    "errors within": send(b"*2\r\n-ERR no\r\n-ERR no\r\n"),
    "execabort": send(b"-EXECABORT Transaction discarded because of previous errors.\r\n"),
    "wrongtype": send(b"-WRONGTYPE Operation against a key\r\n"),
}
# The same for other steps than those of `fair`: the reader of bytes is one for all.
FEW_CODEC = ["huge array, and its values", "text beyond the limit", "nested 100000 deep",
             "endless line, slowly", "endless messages", "garbage", "an answer too early",
             "answers that nobody asked for"]

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
