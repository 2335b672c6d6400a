"""Reads an event file of TensorBoard from its definition, with its checks: the file's records, and each scalar by tag. Standard library only.

usage: read_events.py FILE [TAG]    prints the tags with the number of their values, or the values of a tag
"""
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def table():
    entries = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ (0x82F63B78 if n & 1 else 0)
        entries.append(n)
    return entries


TABLE = table()
assert crc32c(b"123456789") == 0xE3069283  # the check value of its definition


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        length, check = struct.unpack_from("<QI", data, at)
        assert check == masked(data[at:at + 8]), f"the check of the length at byte {at}"
        record = data[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(record), f"the check of the record at byte {at}"
        at += 16 + length
        yield record


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """[(number, value)] of a message; numbers as numbers, what has a length as bytes."""
    at, found = 0, []
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 1:
            (value,), at = struct.unpack_from("<d", data, at), at + 8
        elif key & 7 == 5:
            (value,), at = struct.unpack_from("<f", data, at), at + 4
        else:
            assert key & 7 == 2, f"wire type {key & 7}"
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
            assert len(value) == length, "a field is cut short"
        found.append((key >> 3, value))
    return found


def scalars(path):
    """{tag: [(step, wall time, value)]}"""
    with open(path, "rb") as file:
        events = [dict(fields(record)) for record in records(file.read())]
    assert events[0][3] == b"brain.Event:2" and 5 not in events[0], "the first record is not the version"
    found = {}
    for event in events[1:]:
        for number, value in fields(event[5]):
            assert number == 1
            parts = dict(fields(value))
            found.setdefault(parts[1].decode(), []).append((event[2], event[1], parts[2]))
    return found


if __name__ == "__main__":
    tags = scalars(sys.argv[1])
    if len(sys.argv) > 2:
        for step, _, value in tags[sys.argv[2]]:
            print(step, f"{value:.7g}")
    else:
        for tag, values in tags.items():
            print(tag, len(values))
