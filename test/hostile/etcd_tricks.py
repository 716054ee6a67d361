"""What a hostile etcd may send for an answer: the frames, the calls and the messages.

FRAMES attack the reader of HTTP/2, CALLS that of gRPC, CODES are refusals, MESSAGES are no messages
of protobuf, or such ones as cost much; HARMLESS may come from an honest server too. A trick gets
the link and the good answer. What is well-formed, but wrong, is in etcd_lies.py.
"""

import os
import re
import struct
import time

import http2
from etcd_middle import HEAD
from http2 import END_HEADERS, END_STREAM, frame, header
from tricks import ENDLESS_S, GARBAGE, HTTP, TLS, close, say_nothing, send

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/engine/etcd/rpc.h")
INT_MAX, LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
LATE_S = 4
CODES_OF_GRPC = [*range(1, 18), 99, INT_MAX]
CONTROLS = "".join(f"%{byte:02X}" for byte in (*range(32), 127, 0x9B)).encode()


def message_max():
    """The longest message that the client takes."""
    with open(HEADER, encoding="utf-8") as file:
        found = re.search(r"HF__RPC_MESSAGE_BYTES_MAX \((\d+)u << (\d+)\)", file.read())
    return int(found[1]) << int(found[2])


MESSAGE_MAX = message_max()


def sent(make):
    """What `make` returns, of the good answer."""
    return lambda link, good: link.client.sendall(make(good))


def before(*frames):
    return sent(lambda good: b"".join(frames) + good.packet)


def endless(make, unit):
    """Behind what `make` returns, `unit` (of the good answer), until the other side has had
    enough."""

    def trick(link, good):
        link.client.sendall(make(good))
        end, data = time.monotonic() + ENDLESS_S, unit(good)
        while time.monotonic() < end and link.is_hostile():
            link.client.sendall(data)

    return trick


def drip(make, unit):
    def trick(link, good):
        link.client.sendall(make(good))
        end = time.monotonic() + ENDLESS_S
        while time.monotonic() < end and link.is_hostile():
            link.client.sendall(unit(good))
            time.sleep(0.01)

    return trick


def nothing(_):
    return b""


def one_byte_at_a_time(link, good):
    for byte in good.packet:
        link.client.sendall(bytes([byte]))


def close_in_the_middle(link, good):
    link.client.sendall(good.packet[:len(good.packet) // 2])
    link.close()


def late(link, good):
    time.sleep(LATE_S)
    link.client.sendall(good.packet)


def on_another_stream(shift):
    def make(good):
        was, good.stream = good.stream, good.stream + shift
        made, good.stream = good.packet, was
        return made

    return sent(make)


def begun(good):
    """The head, if it was not sent yet."""
    return b"" if good.is_stream else good.head_frame()


def goaway(last, code=0, text=b""):
    return frame(http2.GOAWAY, 0, 0, struct.pack(">II", last, code) + text)


def reset(code):
    return lambda good: frame(http2.RST_STREAM, 0, good.stream, struct.pack(">I", code))


def bomb(good):
    """A word of 4000 bytes goes into the table, and then one byte stands for it, again and again:
    16 KiB become 48 MiB."""
    return frame(http2.HEADERS, END_HEADERS, good.stream,
                 header(b":status", b"200") + header(b"x", b"y" * 4000, 0x40) + b"\xbe" * 12000)


def headers_of(count):
    def make(good):
        data = b"".join(header(name, value) for name, value in HEAD) + header(b"x", b"y" * count)
        parts = [data[at:at + http2.FRAME_MAX] for at in range(0, len(data), http2.FRAME_MAX)]
        made = frame(http2.HEADERS, 0, good.stream, parts[0])
        for at, part in enumerate(parts[1:]):
            is_last = at == len(parts) - 2
            made += frame(http2.CONTINUATION, END_HEADERS if is_last else 0, good.stream, part)
        return made

    return sent(make)


def half_headers(good):
    return frame(http2.HEADERS, 0, good.stream, header(b":status", b"200"))


def continuation(good):
    return frame(http2.CONTINUATION, 0, good.stream, header(b"x", b"y")) * 100


def raw_headers(*data):
    return sent(lambda good: frame(http2.HEADERS, END_HEADERS, good.stream, b"".join(data)))


PING = frame(http2.PING, 0, 0, b"8 bytes.")
FRAMES = {
    "garbage": send(GARBAGE), "HTTP": send(HTTP), "TLS": send(TLS),
    "zeros for ever": endless(nothing, lambda good: bytes(65536)),
    "closed": close, "closed in the middle": close_in_the_middle, "silence": say_nothing,
    "a frame of 16 MiB": endless(lambda good: struct.pack(
        ">IBI", (1 << 24) - 1 << 8, 0, good.stream), lambda good: bytes(65536)),
    "a frame beyond what was allowed": sent(lambda good: frame(0, 0, good.stream, bytes(16385))),
    "a frame slowly": drip(lambda good: frame(0, 0, good.stream, bytes(16000))[:9],
                           lambda good: b"\0"),
    "empty frames for ever": endless(begun, lambda good: frame(0, 0, good.stream) * 500),
    "data for ever": endless(begun, lambda good: frame(0, 0, good.stream, bytes(16384))),
    "data on stream 0": before(frame(0, 0, 0, b"x" * 10)),
    "headers on stream 0": before(frame(http2.HEADERS, END_HEADERS, 0, b"\x88")),
    "another's stream": on_another_stream(-2),
    "a stream that is not there": on_another_stream(2000),
    "a stream of the server's": on_another_stream(1),
    "a promise": sent(lambda good: frame(http2.PUSH_PROMISE, END_HEADERS, good.stream,
                                         struct.pack(">I", 2) + header(b":path", b"/"))
                      + good.packet),
    "reset": sent(reset(8)), "reset as refused": sent(reset(7)), "reset without a fault":
        sent(reset(0)), "reset with an unknown code": sent(reset(0xFFFFFFFF)),
    "reset in the middle": sent(lambda good: begun(good) + reset(2)(good)),
    "reset, calm down": sent(reset(11)),
    "reset of a stream that is not there": before(frame(3, 0, 2001, bytes(4))),
    "resets for ever": endless(nothing, lambda good: reset(8)(good) * 500),
    "GOAWAY": before(goaway(INT_MAX)), "GOAWAY to all": sent(lambda good: goaway(0)),
    "GOAWAY with a long text": before(goaway(INT_MAX, 11, b"too\x1b_many\0" * 1000)),
    "GOAWAY in the middle": sent(lambda good: begun(good) + goaway(good.stream, 2)),
    "GOAWAY that takes back": before(goaway(1), goaway(INT_MAX)),
    "GOAWAY for ever": endless(nothing, lambda good: goaway(INT_MAX) * 500),
    "no streams": before(http2.settings((3, 0))),
    "no streams, and no answer": sent(lambda good: http2.settings((3, 0))),
    "a window of 0": before(http2.settings((4, 0))),
    "a window of 0, and no answer": sent(lambda good: http2.settings((4, 0))),
    "a window beyond 31 bits": before(http2.settings((4, 1 << 31))),
    "frames of 1 byte": before(http2.settings((5, 1))),
    "half a setting": before(frame(http2.SETTINGS, 0, 0, bytes(5))),
    "settings of a stream": before(frame(http2.SETTINGS, 0, 1, bytes(6))),
    "settings that nobody sent are confirmed": before(frame(http2.SETTINGS, 1, 0) * 10),
    "settings for ever": endless(nothing, lambda good: http2.settings((3, 100)) * 500),
    "pings for ever": endless(nothing, lambda good: PING * 500),
    "half a ping": before(frame(http2.PING, 0, 0, b"1")),
    "the window grows by 0": before(frame(http2.WINDOW, 0, 0, bytes(4))),
    "the window grows beyond 31 bits": before(
        frame(http2.WINDOW, 0, 0, struct.pack(">I", INT_MAX)) * 2),
    "headers that go on for ever": endless(half_headers, continuation),
    "headers that end nowhere": sent(lambda good: half_headers(good) + good.packet),
    "headers out of nothing": before(frame(http2.CONTINUATION, END_HEADERS, 1, b"\x88")),
    "headers of 40 KiB": headers_of(40000), "headers of 1 MiB": headers_of(1 << 20),
    "a bomb of headers": sent(bomb),
    "headers with an index too high": raw_headers(b"\x88\xff\xff\xff\xff\x0f"),
    "headers that are garbage": raw_headers(GARBAGE[:1000]),
    "headers with half a word": raw_headers(b"\x00\x7fabc"),
    "a table of 4 GiB": raw_headers(b"\x3f\xff\xff\xff\xff\x0f\x88"),
    "names in capitals": raw_headers(b"\x88", header(b"Content-Type", b"application/grpc")),
    "no status of HTTP": raw_headers(header(b"content-type", b"application/grpc")),
    "two of them": raw_headers(b"\x88\x88"),
    "padding beyond the frame": sent(lambda good: begun(good) + frame(
        http2.DATA, http2.PADDED, good.stream, b"\xff123")),
    "100 continue, for ever": endless(nothing, lambda good: http2.headers_frame(
        good.stream, [(b":status", b"100")]) * 100),
    "twice": sent(lambda good: good.packet * 2),
    "data behind the end": sent(lambda good: good.packet + good.data()),
    "data before the head": sent(lambda good: good.data() + good.packet),
    "too late": late,
}


ANSWERED = {  # the good answer comes as well, and may be heard
    "a stream of the server's", "GOAWAY", "GOAWAY with a long text", "no streams", "a window of 0",
    "frames of 1 byte", "settings that nobody sent are confirmed", "twice", "data behind the end",
    "reset of a stream that is not there", "too late"}


def padded(good):
    head = b"".join(header(name, value) for name, value in good.head)
    data = frame(http2.DATA, http2.PADDED, good.stream, b"\x09" + good.packed() + bytes(9))
    if good.is_stream:
        return data
    return frame(http2.HEADERS, END_HEADERS | http2.PADDED | http2.PRIORITISED, good.stream,
                 b"\x05" + bytes([0, 0, 0, 0, 7]) + head + bytes(5)) + data + good.tail_frame()


def in_pieces(good):
    """Each byte in a frame of its own."""
    data = b"".join(frame(0, 0, good.stream, bytes([byte])) for byte in good.packed())
    return data if good.is_stream else good.head_frame() + data + good.tail_frame()


def other_header(**changes):
    """The head of the message: who answered, and when."""
    def make(good):
        return good.frames(http2.but(good.message, (1, http2.but(
            http2.get(good.message, 1) or b"", *((int(k[1:]), v) for k, v in changes.items())))))

    return sent(make)


UNKNOWN_FIELDS = http2.pack((99, 7), (100, b"text"), (101, 1, bytes(8)), (102, 5, bytes(4)),
                            (536870911, b""), (1000, b"x" * 5000))
HARMLESS = {
    "one byte at a time": one_byte_at_a_time,
    "a byte a frame": sent(in_pieces),
    "padding and a weight": sent(padded),
    "frames of unknown kinds": before(*(frame(kind, 255, 0, b"x" * 10) for kind in (10, 11, 200))),
    "other settings": before(http2.settings((1, 0), (2, 0), (3, 5), (5, 20000), (99, 99))),
    "pings": before(PING * 20),
    "the window grows": before(frame(http2.WINDOW, 0, 0, struct.pack(">I", 1000))),
    "100 continue": sent(lambda good: (b"" if good.is_stream else http2.headers_frame(
        good.stream, [(b":status", b"100")])) + good.packet),
    "unknown fields": sent(lambda good: good.frames(UNKNOWN_FIELDS + good.message)),
    "another member": other_header(_2=4711),
    "another term": other_header(_4=1 << 40),
}


def ended(*pairs):
    return sent(lambda good: good.ended(list(pairs)))


def status(code, *more):
    return ended((b"grpc-status", str(code).encode()), *more)


def text(value):
    return (b"grpc-message", value)


def of_http(code, kind, body):
    """From somebody between us and etcd."""
    def make(good):
        head = [(b":status", code), (b"content-type", kind), (b"server", b"nginx")]
        return good.head_frame(head) + http2.data_frames(good.stream, body, END_STREAM)

    return sent(make)


HTML = b"<html><body><h1>503 Service \x1b[31mTemporarily Unavailable</h1></body></html>\r\n" * 20
CALLS = {
    "a refusal without a code": ended(text(b"why")),
    "a code of letters": ended((b"grpc-status", b"ok")),
    "no number of a code": ended((b"grpc-status", b"")),
    "code -1": status(-1), "a code of 30 digits": status("9" * 30),
    "success without an answer": status(0),
    "an answer without a code": sent(
        lambda good: begun(good) + good.data() + good.tail_frame([(b"x", b"y")])),
    "an answer that ends without a tail": sent(lambda good: begun(good) + http2.data_frames(
        good.stream, good.packed(), END_STREAM)),
    "an answer, and a refusal": sent(lambda good: begun(good) + good.data() + good.tail_frame(
        [(b"grpc-status", b"14"), text(b"but no")])),
    "compressed": sent(lambda good: good.frames(flag=1)),
    "neither compressed nor not": sent(lambda good: good.frames(flag=7)),
    "a length of 4 GiB": sent(lambda good: good.frames(count=(1 << 32) - 1)),
    "a length of 4 GiB, and the bytes": endless(
        lambda good: begun(good) + good.data(count=(1 << 32) - 1),
        lambda good: frame(0, 0, good.stream, bytes(16384))),
    "a length beyond the limit": endless(
        lambda good: begun(good) + good.data(count=MESSAGE_MAX + 1),
        lambda good: frame(0, 0, good.stream, bytes(16384))),
    "a length of a byte more": sent(lambda good: good.frames(count=len(good.message) + 1)),
    "half of a length": sent(lambda good: begun(good) + http2.data_frames(
        good.stream, b"\0\0\0", 0 if good.is_stream else END_STREAM)),
    "to the limit, slowly": drip(
        lambda good: begun(good) + http2.data_frames(good.stream, good.packed(
            bytes(MESSAGE_MAX - 5000), count=MESSAGE_MAX)),
        lambda good: frame(0, 0, good.stream, b"\0")),
    "HTTP 503": of_http(b"503", b"text/html", HTML),
    "HTTP 404": of_http(b"404", b"text/html", HTML),
    "HTTP 302": of_http(b"302", b"text/html", b""),
    "HTTP 999": of_http(b"999", b"application/grpc", b""),
    "HTTP of letters": of_http(b"abc", b"application/grpc", b""),
    "200, but HTML": of_http(b"200", b"text/html\t\x7f" + b"x" * 300, HTML),
    "200, but JSON": of_http(b"200", b"application/grpc+json", b"{}"),
}
TWO_ANSWERS = {"two answers": sent(lambda good: good.head_frame() + good.data() * 2
                                   + good.tail_frame())}
CODES = {f"code {code}": status(code) for code in CODES_OF_GRPC} | {
    f"code {code}, and why": status(code, text(b"etcdserver: no such thing"))
    for code in CODES_OF_GRPC} | {
    "code 14, with control bytes": status(14, text(CONTROLS)),
    "code 14, with half a percent": status(14, text(b"100% of %4 %zz %")),
    "code 14, with 20 KiB": status(14, text(b"%F0%9F%92%A9" * 1700)),
    "code 8, too many requests": status(8, text(b"etcdserver: too many requests")),
}


def written(make):
    """The message that `make` makes of the good one."""
    return sent(lambda good: good.frames(make(good.message)))


def other_kinds(message):
    """Each field is of another kind than it should be."""
    return http2.pack(*((place, 2, b"no number") if kind == 0 else (place, 0, 77)
                        for place, kind, _ in http2.fields(message)))


MESSAGES = {
    "bytes that are no message": written(lambda message: GARBAGE[:1000]),
    "0xff to the limit": written(lambda message: b"\xff" * MESSAGE_MAX),
    "half a message": written(lambda message: message[:len(message) // 2]),
    "a byte less": written(lambda message: message[:-1]),
    "a byte more": written(lambda message: message + b"\x0a"),
    "fields of other kinds": written(other_kinds),
    "a field without a number": written(lambda message: b"\0\0" + message),
    "a text of 2 GiB": written(lambda message: message + b"\x0a" + http2.varint(INT_MAX)),
    "a text of 2^63 bytes": written(lambda message: message + b"\x0a" + http2.varint(LONG_MAX)),
    "a number without an end": written(lambda message: message + b"\x18" + b"\xff" * 20),
    "a group": written(lambda message: message + b"\x0b\x0c"),
    "a kind that there is not": written(lambda message: message + b"\x0f\x0e"),
    "a head that is no message": written(lambda message: http2.but(message, (1, b"\x0a\xff"))),
}
EMPTY = {
    "no bytes": written(lambda message: b""),
    "only a head": written(lambda message: http2.pack((1, http2.get(message, 1) or b""))),
    "only unknown fields": written(lambda message: UNKNOWN_FIELDS),
}
MUCH = {  # the reader must not make much of little
    "heads without number": written(lambda message: message + b"\x0a\0" * (MESSAGE_MAX // 2 - 999)),
    "one field again and again": written(
        lambda message: message + b"\x1a\0" * (MESSAGE_MAX // 2 - 9999)),
    "another field again and again": written(
        lambda message: message + b"\x12\0" * (MESSAGE_MAX // 2 - 9999)),
    "unknown fields to the limit": written(
        lambda message: message + b"\xf8\x07\1" * ((MESSAGE_MAX - len(message)) // 3 - 9)),
    "an unknown text to the limit": written(  # which is skipped, and costs nothing
        lambda message: message + http2.field(99, bytes(MESSAGE_MAX - len(message) - 100))),
}
