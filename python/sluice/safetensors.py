"""Reads files of the safetensors format: 8 bytes little-endian length, a JSON
header, the bytes of the tensors."""
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from sluice.errors import SluiceError, need

NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4",
         "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?"}
TORCH = {"F64": "float64", "F32": "float32", "F16": "float16",
         "BF16": "bfloat16", "I64": "int64", "I32": "int32", "I16": "int16",
         "I8": "int8", "U8": "uint8", "BOOL": "bool"}
MOST_HEADER = 100 << 20


class File:
    """A file's tensors by name, and what it says about itself (`notes`)."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        try:
            with open(self.path, "rb") as file:
                content = file.read()
        except OSError as error:
            raise SluiceError(f"{self.path}: {error.strerror}") from None
        self._header, self._bytes = self._parts(content)
        self.notes = self._header.pop("__metadata__", {})

    def _parts(self, content: bytes) -> tuple[dict[str, Any], memoryview]:
        size = int.from_bytes(content[:8], "little")
        if len(content) < 8 or size > min(MOST_HEADER, len(content) - 8):
            raise SluiceError(f"{self.path}: is no safetensors file")
        try:
            header = json.loads(content[8:8 + size])
        except ValueError as error:
            raise SluiceError(f"{self.path}: its header is damaged: {error}"
                              ) from None
        return header, memoryview(content)[8 + size:]

    def names(self) -> list[str]:
        return list(self._header)

    def numpy(self) -> dict[str, Any]:
        """Name -> array of its own."""
        np = need("numpy", "weights()")
        return {name: np.frombuffer(part, self._type(name, entry, NUMPY))
                .reshape(entry["shape"]).copy()
                for name, entry, part in self._tensors()}

    def torch(self) -> dict[str, Any]:
        """Name -> tensor of its own."""
        torch = need("torch", "model()")
        found = {}
        for name, entry, part in self._tensors():
            dtype = getattr(torch, self._type(name, entry, TORCH))
            flat = (torch.frombuffer(bytearray(part), dtype=dtype) if len(part)
                    else torch.empty(0, dtype=dtype))
            found[name] = flat.reshape(entry["shape"])
        return found

    def _tensors(self) -> Iterator[tuple[str, dict[str, Any], memoryview]]:
        for name, entry in self._header.items():
            begin, end = entry["data_offsets"]
            if not 0 <= begin <= end <= len(self._bytes):
                raise SluiceError(f"{self.path}: {name} lies outside of the "
                                  "file: it is damaged or cut off")
            yield name, entry, self._bytes[begin:end]

    def _type(self, name: str, entry: dict[str, Any],
              types: Mapping[str, str]) -> str:
        if entry["dtype"] not in types:
            raise SluiceError(f"{self.path}: {name} is of type "
                              f"{entry['dtype']}, which can't be read here")
        return types[entry["dtype"]]
