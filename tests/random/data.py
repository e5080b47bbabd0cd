"""Small data sets, as files of the kinds that a config can name.

All of them are the same whenever they are made, so that a config which failed
can be run again.
"""
import array
import pathlib
import random
import struct
import subprocess
import sys
import zlib

SIDE = 16  # pixels


def write_npy(path, code, shape, numbers):
    kinds = {"f": "<f4", "q": "<i8"}
    header = (f"{{'descr': '{kinds[code]}', 'fortran_order': False, "
              f"'shape': {tuple(shape)}, }}")
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) +
                     header.encode() + array.array(code, numbers).tobytes())


def write_png(path, pixels):
    """Rows of SIDE grey pixels."""
    def chunk(kind, data):
        body = kind + data
        return (struct.pack(">I", len(data)) + body +
                struct.pack(">I", zlib.crc32(body)))
    rows = b"".join(b"\0" + bytes(row) for row in pixels)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" +
        chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0)) +
        chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def make_tensors(root, chance):
    for split, samples in (("train", 60), ("test", 20)):
        write_npy(root / f"{split}-images.npy", "f", (samples, 1, SIDE, SIDE),
                  [chance.gauss(0, 1) for _ in range(samples * SIDE * SIDE)])
        write_npy(root / f"{split}-rows.npy", "f", (samples, 6),
                  [chance.gauss(0, 1) for _ in range(samples * 6)])
        write_npy(root / f"{split}-labels.npy", "q", (samples,),
                  [i % 4 for i in range(samples)])
        write_npy(root / f"{split}-numbers.npy", "f", (samples, 2),
                  [chance.gauss(0, 1) for _ in range(samples * 2)])


def make_images(root, chance):
    for split, samples in (("train", 20), ("test", 6)):
        for name, light in (("dark", 60), ("light", 180)):
            for i in range(samples):
                write_png(root / "images" / split / name / f"{i}.png",
                          [[light + chance.randrange(60) for _ in range(SIDE)]
                           for _ in range(SIDE)])


def make_texts(root, chance):
    words = "the quick brown fox jumps over a lazy dog and runs away".split()
    (root / "text.txt").write_text(
        " ".join(chance.choice(words) for _ in range(600)))
    tokens = root / "tokens"
    tokens.mkdir(exist_ok=True)
    for split, count in (("train", 1200), ("val", 300)):
        numbers = [chance.randrange(20) for _ in range(count)]
        (tokens / f"{split}.bin").write_bytes(
            struct.pack(f"<{count}H", *numbers))
        (tokens / f"{split}32.bin").write_bytes(
            struct.pack(f"<{count}I", *numbers))


def make_scripts(root):
    """Networks scripted by PyTorch, by channels and classes: needs its Python."""
    here = pathlib.Path(__file__).parent
    words = [word for channels, classes in ((1, 10), (3, 2), (1, 4))
             for word in (str(root / f"net-{channels}-{classes}.pt"),
                          str(channels), str(classes))]
    subprocess.run([sys.executable, "-B", str(here / "scripted_net.py"), *words],
                   capture_output=True, check=False)


def make(root):
    """Writes all files below `root`, a pathlib.Path."""
    root.mkdir(parents=True, exist_ok=True)
    if (root / "complete").exists():
        return
    make_scripts(root)
    chance = random.Random(1)
    make_tensors(root, chance)
    make_images(root, chance)
    make_texts(root, chance)
    (root / "complete").touch()


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
