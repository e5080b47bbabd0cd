#!/usr/bin/env python3
"""Prints the frames of one direction of a link, as transport/README.md has
them. Usage: read_frames.py FILE"""
import struct
import sys

TYPES = {1: "hello", 2: "data", 3: "credit", 4: "bye", 5: "quit", 6: "stop"}
KINDS = {1: "activation", 2: "gradient", 3: "evaluation", 4: "norm",
         5: "grant", 6: "record", 7: "reached", 8: "failure",
         9: "witness"}
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


def print_tensors(block, count, payload):
    at = 32
    for _ in range(count):
        dtype, ndim, length, _, offset = struct.unpack_from("<BBHIQ", block, at)
        numbers = struct.unpack_from(f"<{2 * ndim}q", block, at + 16)
        sizes, strides = list(numbers[:ndim]), list(numbers[ndim:])
        at += 16 + 16 * ndim
        name = block[at:at + length].decode()
        at += (length + 7) // 8 * 8
        dtype, item = DTYPES[dtype]
        data = payload[offset:offset + stored_bytes(item, sizes, strides)]
        print(f"  {name} {dtype} {sizes} strides {strides}: {data.hex()}")


def print_frames(stream):
    at = 0
    while at < len(stream):
        header = stream[at:at + 64]
        (magic, version, kind, flags, crc, block_crc, sequence, block_bytes,
         count, payload_bytes) = struct.unpack_from("<4sBBHIIQIIQ", header)
        assert magic == b"\x9cSLC" and version == 1 and flags == 0
        assert crc == crc32c(header[:8] + bytes(4) + header[12:])
        block = stream[at + 64:at + 64 + block_bytes]
        assert block_crc == crc32c(block)
        at += 64 + block_bytes + payload_bytes
        if TYPES[kind] != "data":
            print(TYPES[kind], *([count] if count else []))
            continue
        what, tensors, batch, turn, weights = struct.unpack_from(
            "<B3xIqqq", block)
        print(f"data {sequence}: {KINDS[what]} batch {batch} turn {turn}"
              f" weights {weights}")
        print_tensors(block, tensors, stream[at - payload_bytes:at])


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        print_frames(file.read())
