"""Frames of HTTP/2, headers of HPACK and fields of protobuf, as the one in the middle needs them.

Headers are read by nghttp2, because only who has read all of them can read the next; they are
written out in full, so that any of them may be left out or changed.
"""

import ctypes
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW, CONTINUATION = (
    range(10))
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITISED = 1, 1, 4, 8, 0x20
FRAME_MAX = 16384
LIBRARY = "libnghttp2.so.14"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


def data_frames(stream, data, flags=0):
    """As many as it takes; the last has the flags."""
    parts = [data[at:at + FRAME_MAX] for at in range(0, len(data), FRAME_MAX)] or [b""]
    return b"".join(frame(DATA, flags if at == len(parts) - 1 else 0, stream, part)
                    for at, part in enumerate(parts))


def settings(*pairs):
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *pair) for pair in pairs))


# --- headers ---


def number(value, bits, first=0):
    """RFC 7541, 5.1"""
    top = (1 << bits) - 1
    if value < top:
        return bytes([first | value])
    data, value = bytes([first | top]), value - top
    while value >= 128:
        data, value = data + bytes([value & 127 | 128]), value >> 7
    return data + bytes([value])


def word(data):
    return number(len(data), 7) + data


def header(name, value, first=0):
    """Spelt out; with 0x40 the reader puts it into its table."""
    return bytes([first]) + word(name) + word(value)


def headers_frame(stream, pairs, flags=0):
    return frame(HEADERS, END_HEADERS | flags, stream,
                 b"".join(header(name, value) for name, value in pairs))


class Pair(ctypes.Structure):
    _fields_ = [("name", ctypes.POINTER(ctypes.c_uint8)),
                ("value", ctypes.POINTER(ctypes.c_uint8)),
                ("name_bytes", ctypes.c_size_t), ("value_bytes", ctypes.c_size_t),
                ("flags", ctypes.c_uint8)]


class Headers:
    """Reads one side's headers, in the order in which they come."""

    FINAL, EMIT = 1, 2

    def __init__(self):
        self.library = ctypes.CDLL(LIBRARY)
        self.library.nghttp2_hd_inflate_hd2.restype = ctypes.c_ssize_t
        self.state = ctypes.c_void_p()
        if self.library.nghttp2_hd_inflate_new(ctypes.byref(self.state)) != 0:
            raise MemoryError

    def resize(self, table_bytes):
        self.library.nghttp2_hd_inflate_change_table_size(self.state, ctypes.c_size_t(table_bytes))

    def read(self, block):
        """[(name, value)]"""
        found, pair, flags = [], Pair(), ctypes.c_int(0)
        while True:
            taken = self.library.nghttp2_hd_inflate_hd2(
                self.state, ctypes.byref(pair), ctypes.byref(flags), block,
                ctypes.c_size_t(len(block)), 1)
            if taken < 0:
                raise ValueError(f"no headers: {taken}")
            block = block[taken:]
            if flags.value & self.EMIT:
                found.append((ctypes.string_at(pair.name, pair.name_bytes),
                              ctypes.string_at(pair.value, pair.value_bytes)))
            if flags.value & self.FINAL:
                self.library.nghttp2_hd_inflate_end_headers(self.state)
                return found


# --- messages ---


def varint(value):
    value &= (1 << 64) - 1
    data = b""
    while value >= 128:
        data, value = data + bytes([value & 127 | 128]), value >> 7
    return data + bytes([value])


def field(place, value, kind=None):
    """A number is a varint, a text has its length before it; a fixed one is told by its kind."""
    kind = (0 if isinstance(value, int) else 2) if kind is None else kind
    head = varint(place << 3 | kind)
    if kind == 0:
        return head + varint(value)
    return head + (varint(len(value)) if kind == 2 else b"") + value


def read_varint(data, at):
    value = shift = 0
    while True:
        byte, at = data[at], at + 1
        value, shift = value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return (value - (1 << 64) if value >> 63 else value), at


def fields(data):
    """[(place, kind, value)]"""
    found, at = [], 0
    while at < len(data):
        head, at = read_varint(data, at)
        kind = head & 7
        if kind == 0:
            value, at = read_varint(data, at)
        else:
            size, at = read_varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            value, at = data[at:at + size], at + size
        found.append((head >> 3, kind, value))
    return found


def pack(*those):
    """Of (place, value), or of what fields() returns."""
    return b"".join(field(one[0], one[-1], one[1] if len(one) == 3 else None) for one in those)


def get(data, *path):
    """The last of this place, and of what is in it; 0 or b"" is not told apart from nothing."""
    value = data
    for place in path:
        those = [one[2] for one in fields(value or b"") if one[0] == place]
        value = those[-1] if those else None
    return value


def every(data, place):
    return [one[2] for one in fields(data) if one[0] == place]


def but(data, *changes):
    """The message with other fields: (place, value); without it, if the value is None."""
    gone = {place for place, _ in changes}
    kept = [one for one in fields(data) if one[0] not in gone]
    return pack(*kept, *(change for change in changes if change[1] is not None))


def changed(data, place, make):
    """Every field of this place is what `make` makes of it; a None is left out."""
    found = [(one[0], one[1], make(one[2]) if one[0] == place else one[2]) for one in fields(data)]
    return pack(*(one for one in found if one[2] is not None))
