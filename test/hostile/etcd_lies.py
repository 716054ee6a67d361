"""What a hostile etcd may answer that is well-formed, but wrong: by the step that it answers.

LIES are those that nobody can tell from the truth: what they bring about is the server's fault. But
nothing that another holds is granted by any of them.
"""

import itertools

import http2
from etcd_tricks import INT_MAX, LONG_MAX, MESSAGE_MAX, sent, written
from http2 import but, changed, every, field, get, pack

HEADER, COUNT = 1, 4
KVS = 2
LARGE = (1 << 55) + 1  # a fence has no room for it


def put(*changes):
    return written(lambda message: but(message, *changes))


def revision(number):
    """Of the head."""
    return written(lambda message: changed(message, HEADER, lambda head: but(head, (3, number))))


def term(make):
    """Of the head: `make` tells it."""
    return written(lambda message: changed(message, HEADER, lambda head: but(head, (4, make()))))


LATER = itertools.count(1000)
LEADERS = {
    "no term": term(lambda: None), "the last term": term(lambda: (1 << 64) - 1),
    "a term that rises": term(lambda: next(LATER)),
    "of another member, and a later term": written(lambda message: changed(
        message, HEADER, lambda head: but(head, (2, 4711), (4, next(LATER))))),
}
STATUSES = {
    "no version": put((2, None)), "version 3.3": put((2, b"3.3.25")),
    "version 3.3, and more": put((2, b"3.3\x1b[2J\x7f")),
    "version 2": put((2, b"2.3.8")), "a version of letters": put((2, b"new\x1b[2J\x7f")),
    "a version of 1 MiB": put((2, b"3." + b"9" * (1 << 20))),
    "version 3.0 with zeros": put((2, b"3." + b"0" * 500)),
    "a version that is no text": put((2, b"3.4.\xff\xfe\0")),
    "no leader": put((4, None)), "another leads": put((4, 4711)), "a learner": put((10, 1)),
    "errors without number": written(lambda message: message + field(8, b"NOSPACE") * 100000),
}
MEMBERS = {
    "nobody": put((2, None)), "two": put((2, b"\x08\x01"), (2, b"\x08\x02")),
    "learners": put(*[(2, pack((1, 7), (5, 1)))] * 5),
    "more than there can be": put(*[(2, pack((1, 7)))] * 100000),
    "names of 1 MiB": put((2, pack((1, 7), (2, b"n" * (1 << 20))))),
}
LOGINS = {
    "no token": put((2, None)), "a token of 511 bytes": put((2, b"t" * 511)),
    "a token of 512 bytes": put((2, b"t" * 512)), "a token of 1 MiB": put((2, b"t" * (1 << 20))),
    "a token of two lines": put((2, b"token\r\nx: y")), "a token with a zero": put((2, b"tok\0en")),
    "a token of letters that are none": put((2, bytes(range(128, 256)))),
    "another's token": put((2, b"abcdefghijklmnop.7")), "a blank token": put((2, b" ")),
}
GRANTS = {
    "another's lease": put((2, 4711)), "no lease": put((2, None)), "lease -1": put((2, -1)),
    "TTL 0": put((3, None)), "TTL -1": put((3, -1)), "TTL of 63 bits": put((3, LONG_MAX)),
    "the least TTL": put((3, -LONG_MAX - 1)), "TTL of 300 years": put((3, 9000000001)),
    "an error": put((4, b"no\x1b[31m")),
}
LYING_GRANTS = {"TTL 1": put((3, 1)), "TTL of a year": put((3, 31536000))}
KEPT = {
    "another's lease": put((2, 4711)), "no lease": put((2, None)),
    "TTL 0": put((3, None)), "TTL -1": put((3, -1)), "TTL of 63 bits": put((3, LONG_MAX)),
}
LYING_KEPT = {
    "TTL 1": put((3, 1)), "TTL of a year": put((3, 31536000)),
    "unasked": sent(lambda good: good.data(but(good.message, (2, 4711))) * 50 + good.packet),
}

# --- transactions ---


def ranges(make):
    """`make` makes another answer of every range in the transaction."""
    def whole(message):
        return changed(message, 3, lambda part: changed(part, 1, make))

    return written(whole)


def first_range(make):
    """Of the last range alone: that of the line."""
    def whole(message):
        parts = every(message, 3)  # none, if what it was asked for is gone
        parts[-1:] = [changed(part, 1, make) for part in parts[-1:]]
        return but(message, (3, None)) + b"".join(field(3, part) for part in parts)

    return written(whole)


def key_values(make):
    return lambda range_message: changed(range_message, KVS, make)


def crowd(count, value=b"w 0 77 host purpose", first=1):
    """So many that stand ahead, the last that came first."""
    def make(message):
        key = get(message, KVS, 1) or b"x/"
        key = key[:key.rfind(b"/") + 1]
        kvs = b"".join(field(2, pack((1, key + b"w%032x" % number), (2, first + number),
                                     (3, first + number), (4, 1), (5, value)))
                       for number in range(count, 0, -1))
        return message + kvs

    return first_range(make)


def operations(make):
    """`make` makes another list of the parts of the answer."""
    def whole(message):
        return but(message, (3, None)) + b"".join(field(3, part)
                                                  for part in make(every(message, 3)))

    return written(whole)


def values(text):
    return ranges(key_values(lambda kv: but(kv, (5, text))))


TXNS = {
    "no head": put((HEADER, None)), "no parts": put((3, None)),
    "one part": operations(lambda parts: parts[:1]),
    "parts of another kind": operations(lambda parts: [pack((3, b"")) for _ in parts]),
    "parts of no kind": operations(lambda parts: [b"" for _ in parts]),
    "parts the other way round": operations(lambda parts: parts[::-1]),
    "100000 parts": operations(lambda parts: parts + (parts[-1:] or [b""]) * 100000),
    "a transaction in it": operations(lambda parts: [pack((4, pack((2, 1))))] * 3),
    "success, or not": written(lambda message: but(message, (2, 0 if get(message, 2) else 1))),
}
REVISIONS = {
    "revision 0": revision(0), "revision -1": revision(-1), "the last revision": revision(LONG_MAX),
    "revision of 56 bits": revision(LARGE), "the first revision": revision(-LONG_MAX - 1),
    "a revision that falls": revision(2),
}
HOPES = {name: trick for name, trick in TXNS.items()  # of one part
         if name not in ("one part", "parts the other way round")} | {
    "two parts": operations(lambda parts: parts * 2)}
LINES = {
    "keys of another": ranges(key_values(lambda kv: but(kv, (1, b"elsewhere/w7")))),
    "keys without bytes": ranges(key_values(lambda kv: but(kv, (1, None)))),
    "a key of 1 MiB": ranges(key_values(lambda kv: but(kv, (1, b"k" * (1 << 20))))),
    "made at 0": ranges(key_values(lambda kv: but(kv, (2, None)))),
    "made at -1": ranges(key_values(lambda kv: but(kv, (2, -1)))),
    "made at the end": ranges(key_values(lambda kv: but(kv, (2, LONG_MAX)))),
    "of another lease": ranges(key_values(lambda kv: but(kv, (6, 4711)))),
    "count -1": ranges(lambda part: but(part, (COUNT, -1))),
    "count of 63 bits": ranges(lambda part: but(part, (COUNT, LONG_MAX))),
    "count of 32 bits": ranges(lambda part: but(part, (COUNT, (1 << 32) - 1))),
    "all twice": ranges(lambda part: part + part),
    "a crowd ahead": crowd(3000), "16 ahead": crowd(16),
    "readers ahead that are writers": crowd(16, b"r 0 77 host purpose"),
    "as many as there may be": crowd(20000, b"w 0 7 h " + b"x" * 100),
    "ahead at -5": crowd(5, first=-5),
    "control bytes": values(b"w 0 77 ho\x1b[2Jst pur\x07pose\0\x7f\x9b\r\n"),
    "values of 1 MiB": values(b"w 0 77 host " + b"x" * (1 << 20)),
    "no values": values(None), "a value of 1 byte": values(b"w"), "blanks": values(b" " * 300),
    "an exclamation": values(b"!"),
    "broken, with a grace of 20 digits": values(b"!w 18446744073709551615 77 host purpose"),
    "broken, with a grace of a day": values(b"!w 86400000 77 host purpose"),
    "numbers beyond reason": values(b"w 99999999999999999999999 99999999999 host purpose"),
    "names behind the values": values(b"w 0 77 host purpose\n" + b"n" * 3000),
}

# --- ranges and deletions ---


def page(make):
    return written(lambda message: changed(message, 2, make))


def names(*those, more=0):
    """A page of these keys, behind the prefix of the case."""
    def make(good):
        prefix = get(good.request, 1)
        kvs = [(2, pack((1, prefix + name), (2, 7 + at), (3, 7 + at), (5, b"w 0 77 host purpose"),
                        (6, 4711 + at))) for at, name in enumerate(those)]
        return good.frames(pack((1, get(good.message, 1)), *kvs, (3, more), (4, len(kvs))))

    return sent(make)


PAGES = {
    "no keys": put((2, None), (3, None)), "no keys, and more": put((2, None), (3, 1)),
    "more, for ever": put((3, 1)),
    "keys without bytes": page(lambda kv: but(kv, (1, None))),
    "keys from elsewhere": page(lambda kv: but(kv, (1, b"e"))),
    "a key of 1 MiB, and more": names(b"n/" + b"k" * (1 << 20), more=1),
    "made at -1": page(lambda kv: but(kv, (2, -1))),
    "made at the end": page(lambda kv: but(kv, (2, LONG_MAX))),
    "many leases": names(*[b"n%06d/w" % number for number in range(2000)]),
    "many locks": names(*[b"n%06d/w" % number for number in range(30000)]),
    "one long line": names(*[b"n/w%06d" % number for number in range(30000)]),
    "one long line, and more": names(*[b"n/w%06d" % number for number in range(1000)], more=1),
    "strange names": names(b"/", b"//", b"~x/w", b"~x6/w", b"~x00/w", b"~s/w", b"~s0000/w",
                           b"\xff\xfe/w", b"n" * 1500 + b"/w", b"\x1b[2J/w", b"a/b/c/d", b"nobody"),
    "control bytes": page(lambda kv: but(kv, (5, b"w 0 77 ho\x1b[2Jst pur\x07pose\0\x7f\x9b\r\n"))),
    "numbers beyond reason": page(lambda kv: but(kv, (5, b"w 999999999999999999999 9999999999 h"))),
    "count -1": put((4, -1)),
    "the page before": written(lambda message: message + b"".join(
        field(2, one) for one in every(message, 2)[::-1])),
}


def sought(key, made=None):
    """The key that was to be broken: this one, made then, or at the time that was asked for."""
    def make(good):
        number = made or get(every(good.request, 2)[0], 1, 12)
        part = pack((1, pack((2, pack((1, key), (2, number), (3, number))), (4, 1))))
        rest = every(good.message, 3)[1:]
        return good.frames(but(good.message, (3, None)) + b"".join(
            field(3, one) for one in [part, *rest]))

    return sent(make)


SOUGHT = {"another's key": sought(b"elsewhere/w7"), "another number": sought(b"elsewhere/w7", 7),
          "a key of no bytes": sought(b"")}
TERMS = {
    "TTL -1": put((3, -1)), "TTL 0": put((3, None)), "TTL of 63 bits": put((3, LONG_MAX)),
    "another's lease": put((2, 4711)), "100000 keys": put(*[(5, b"key")] * 100000),
}
DELETIONS = {
    "nothing": put((2, None), (3, None)), "-1 of them": put((2, -1)),
    "nobody knows what": put((3, None)),
    "another's": written(lambda message: changed(message, 3, lambda kv: but(kv, (2, 7)))),
    "made at -1": written(lambda message: changed(message, 3, lambda kv: but(kv, (2, -1)))),
    "one that was broken": written(lambda message: changed(
        message, 3, lambda kv: but(kv, (5, b"!w 0 77 host purpose")))),
    "100000 of them": written(lambda message: message + b"\x1a\x02\x10\x07" * 100000),
}


def each_deletion(change):
    """Of those that go by one transaction."""
    return operations(lambda parts: [pack((3, change(get(part, 3) or b""))) for part in parts])


DELETED_TOGETHER = {
    "nothing of all that": each_deletion(lambda _: b""),
    "-1 of each": each_deletion(lambda part: but(part, (2, -1))),
    "nobody knows what": each_deletion(lambda part: but(part, (3, None))),
    "others'": each_deletion(lambda part: changed(part, 3, lambda kv: but(kv, (2, 7)))),
    "all were broken": each_deletion(lambda part: changed(
        part, 3, lambda kv: but(kv, (5, b"!w 0 77 host purpose")))),
    "one too many": operations(lambda parts: parts + parts[-1:]),
    "one too few": operations(lambda parts: parts[:-1]),
    "the last of another kind": operations(lambda parts: parts[:-1] + [pack((1, b""))]),
}

CONVOYS = {
    "one too many": operations(lambda parts: parts + parts[-1:]),
    "one too few": operations(lambda parts: parts[:-1]),
    "the first of another kind": operations(lambda parts: [pack((1, b""))] + parts[1:]),
    "the last of another kind": operations(lambda parts: parts[:-1] + [pack((1, b""))]),
    "in vain": written(lambda message: but(message, (2, None), (3, None))),
    "in vain, with all that was done": written(lambda message: but(message, (2, None))),
    "the last twice, and not the first": operations(lambda parts: parts[1:] + parts[-1:]),
}

# --- the watch ---


def event(kind, key, at=None, made=7, **more):
    kv = pack((1, key), (2, made if kind == 0 else 0), (3, at or made), (5, more.get("value", b"")))
    before = (3, pack((1, key), (2, made), (3, made)))
    return field(11, pack((1, kind), (2, kv), *([before] if more.get("prev", kind) else [])))


def events(*those):
    """Before the good message, in one of their own."""
    return sent(lambda good: good.data(pack((1, get(good.message, 1)), (2, 0)) + b"".join(those))
                + good.packet)


def keys_of(good):
    return [get(one, 2, 1) for one in every(good.message, 11)]


def about_its_keys(make):
    """Events about the keys that the good message tells of, behind it."""
    def whole(good):
        more = b"".join(make(key) for key in keys_of(good))
        return good.packet + good.data(pack((1, get(good.message, 1)), (2, 0)) + more)

    return sent(whole)


STRANGE = (b"", b"/", b"elsewhere/w", b"\0\1\2", b"k" * 70000, b"holdfast/", b"holdfast/@77")
CREATED = {
    "cancelled": put((4, 1), (6, b"no\x1b[31m more")), "cancelled, in 1 MiB": put(
        (4, 1), (6, b"y" * (1 << 20))),
    "compacted": put((5, 77)), "denied": put((4, 1), (6, b"rpc error: permission denied")),
    "not created": put((3, None)),
}
LYING_CREATED = {
    "created twice": sent(lambda good: good.packet * 2), "watch 77": put((2, 77)),
    "a progress notice": sent(lambda good: good.packet + good.data(
        pack((1, get(good.message, 1)), (2, 0)))),
}
EVENTS = {
    "cancelled": put((4, 1), (6, b"no more"), (11, None)), "compacted": put((5, 77), (11, None)),
}
LYING_EVENTS = {
    "twice": sent(lambda good: good.packet * 2),
    "the other way round": written(lambda message: but(message, (11, None)) + b"".join(
        field(11, one) for one in every(message, 11)[::-1])),
    "in pieces, out of order": sent(lambda good: b"".join(
        good.data(but(good.message, (11, one))) for one in every(good.message, 11)[::-1])),
    "of an earlier revision": revision(2), "revision 0": revision(0),
    "the last revision": revision(LONG_MAX),
    "of unknown keys": events(*(event(kind, key) for kind in (0, 1) for key in STRANGE)),
    "of unknown kinds": events(*(event(kind, b"n/w") for kind in (2, 99, -1, INT_MAX))),
    "of nothing": events(field(11, b""), field(11, pack((1, 1))), field(11, pack((2, b"")))),
    "without what was before": about_its_keys(lambda key: event(1, key, LONG_MAX, prev=0)),
    "all its keys are gone": about_its_keys(lambda key: event(1, key, LONG_MAX)),
    "all its keys are gone, long ago": about_its_keys(lambda key: event(1, key, 2, 1)),
    "all its keys are broken": about_its_keys(
        lambda key: event(0, key, LONG_MAX, value=b"!w 0 77 host purpose")),
    "all its keys are readers'": about_its_keys(
        lambda key: event(0, key, LONG_MAX, 3, value=b"r 0 77 host purpose")),
    "all its keys are new": about_its_keys(lambda key: event(0, key, 9, 9)),
    "as many as there may be": events(event(0, b"n/w" + b"x" * 100) * (MESSAGE_MAX // 300)),
    "a progress notice": sent(
        lambda good: good.data(pack((1, get(good.message, 1)))) + good.packet),
    "none": put((11, None)),
}


def for_ever(link, good):
    """Events about what is wanted, as fast as they go."""
    unit = b"".join(event(kind, key, 9) for kind in (0, 1) for key in keys_of(good)) * 100
    data = good.data(pack((1, get(good.message, 1))) + unit) * 10
    while link.is_hostile():
        link.client.sendall(data)


FLOODS = {"for ever": for_ever}
OTHER_CLUSTER = {"another cluster": written(
    lambda message: changed(message, HEADER, lambda head: http2.but(head, (1, 4711))))}
OWN = {
    "status": STATUSES | LEADERS, "members": MEMBERS, "login": LOGINS,
    "grant": GRANTS | LYING_GRANTS | LEADERS,
    "kept": KEPT | LYING_KEPT | LEADERS, "hope": HOPES | REVISIONS | LEADERS,
    "claim": TXNS | REVISIONS | LINES | LEADERS, "look": TXNS | REVISIONS | LINES | LEADERS,
    "move": TXNS | REVISIONS | LEADERS, "lower": TXNS | REVISIONS,
    "undo": TXNS | LINES, "break": TXNS,
    "list": PAGES | REVISIONS, "seek": TXNS | REVISIONS | LINES | SOUGHT,
    "term": TERMS, "delete": DELETIONS, "deletes": TXNS | DELETED_TOGETHER,
    "convoy": TXNS | REVISIONS | CONVOYS,
    "created": CREATED | LYING_CREATED, "event": EVENTS | LYING_EVENTS | FLOODS,
    "probe": REVISIONS | LEADERS, "hello": REVISIONS | LEADERS,
}
# What must not be taken for an answer, by step: the others may be true.
FALSE = {
    "status": {"version 3.3", "version 3.3, and more", "version 3.0 with zeros", "no leader",
               "a learner"},
    "login": set(LOGINS) - {"a token of 511 bytes", "a blank token"},
    "created": set(CREATED), "grant": set(GRANTS),
    "hope": set(HOPES) | set(REVISIONS),
    "claim": set(TXNS) - {"100000 parts"} | set(REVISIONS) | {
        "made at 0", "made at -1", "made at the end", "ahead at -5"},
}
