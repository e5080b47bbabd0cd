#!/usr/bin/env python3
"""Prints the frames of one direction of a link, as transport/README.md has
them. Usage: read_frames.py FILE"""
import struct
import sys

TYPES = {1: "hello", 2: "data", 3: "credit", 4: "bye", 5: "quit", 6: "stop",
         7: "beat", 8: "end"}
KINDS = {1: "activation", 2: "gradient", 3: "evaluation", 4: "norm",
         5: "grant", 6: "record", 7: "reached", 8: "failure",
         9: "observation", 10: "progress", 11: "clock", 12: "exchange"}
DTYPES = {1: ("float32", 4), 2: ("float64", 8), 3: ("float16", 2),
          4: ("bfloat16", 2), 5: ("int64", 8), 6: ("int32", 4),
          7: ("int16", 2), 8: ("int8", 1), 9: ("uint8", 1), 10: ("boolean", 1)}


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def stored_bytes(item, sizes, strides):
    if 0 in sizes:
        return 0
    for size, stride in zip(sizes, strides):
        item *= size if stride else 1
    return item


def read_greeting(stream):
    """Of a stream that begins with the handshake: how many bytes that is."""
    if stream[:4] != b"\x9cSLH":
        return 0
    least, most, side, sender, to = struct.unpack_from("<4xBBBxII", stream)
    print(f"greeting {sender} to {to}, side {side}, versions {least} to {most}")
    return 64 + 32  # the proof follows


def print_tensors(block, count, payload):
    """Returns the checksum of all bytes."""
    at, stored = 32, b""
    for _ in range(count):
        dtype, ndim, length, _, offset = struct.unpack_from("<BBHIQ", block, at)
        numbers = struct.unpack_from(f"<{2 * ndim}q", block, at + 16)
        sizes, strides = list(numbers[:ndim]), list(numbers[ndim:])
        at += 16 + 16 * ndim
        name = block[at:at + length].decode()
        at += (length + 7) // 8 * 8
        dtype, item = DTYPES[dtype]
        data = payload[offset:offset + stored_bytes(item, sizes, strides)]
        stored += data
        print(f"  {name} {dtype} {sizes} strides {strides}: {data.hex()}")
    return crc32c(stored)


def print_frames(stream):
    at = read_greeting(stream)
    while at < len(stream):
        header = stream[at:at + 64]
        (magic, version, kind, flags, crc, block_crc, sequence, block_bytes,
         count, payload_bytes, payload_crc, received,
         progress) = struct.unpack_from("<4sBBHIIQIIQI4xQQ", header)
        assert magic == b"\x9cSLC" and version == 4 and flags < 2
        assert crc == crc32c(header[:8] + bytes(4) + header[12:])
        block = stream[at + 64:at + 64 + block_bytes]
        assert block_crc == crc32c(block)
        at += 64 + block_bytes + payload_bytes
        if TYPES[kind] != "data":
            print(TYPES[kind], *(n for n in (count, received, progress) if n))
            continue
        what, visit, tensors, batch, turn, weights = struct.unpack_from(
            "<BxHIqqq", block)
        batch = f"{batch}.{visit}" if visit else batch
        print(f"data {sequence}: {KINDS[what]} batch {batch} turn {turn}"
              f" weights {weights}")
        crc = print_tensors(block, tensors, stream[at - payload_bytes:at])
        assert crc == payload_crc or not flags


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        print_frames(file.read())
