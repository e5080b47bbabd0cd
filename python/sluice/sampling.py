"""Text from a language model, byte by byte."""
import gzip
import os
import pathlib
from typing import Any

from sluice.errors import SluiceError, need

TINY_SHAKESPEARE = "tinyshakespeare/input.txt"


def check_bytes(data: dict[str, Any]) -> None:
    """Refuses sub-words, whose tokenizer only the program has."""
    if data.get("tokenizer", "bytes") != "bytes":
        raise SluiceError("the model's tokens are sub-words, which the program "
                          "knows: `sluice sample RUN --prompt TEXT`")


def text_file(data: dict[str, Any]) -> pathlib.Path:
    """The file of a run's texts. data: the table [data] of its config."""
    if data.get("name") == "tiny_shakespeare":
        name = TINY_SHAKESPEARE
    elif data.get("name") == "text":
        name = data["file"]
    else:
        raise SluiceError("only language models on texts are sampled from; the "
                          f"data are {data.get('name')}")
    root = data.get("root") or os.environ.get("SLUICE_DATA") or "."
    for path in (pathlib.Path(root) / name, pathlib.Path(root) / f"{name}.gz"):
        if path.exists():
            return path
    raise SluiceError(f"{pathlib.Path(root) / name}: isn't there; its bytes are "
                      "the model's tokens: name the folder in SLUICE_DATA, or "
                      "the file itself: text=...")


def tokens_of(path: str | os.PathLike[str]) -> list[int]:
    """Token -> byte: the bytes that occur in the file, in order."""
    opened = gzip.open if os.fspath(path).endswith(".gz") else open
    with opened(path, "rb") as file:
        return sorted(set(file.read()))


def sample(model: Any, vocabulary: list[int], prompt: str, tokens: int,
           temperature: float, seed: int) -> str:
    """The prompt and so many bytes more, as a text."""
    torch = need("torch", "sample()")
    number = {byte: token for token, byte in enumerate(vocabulary)}
    unknown = sorted(set(prompt.encode()) - number.keys())
    if unknown or not prompt:
        raise SluiceError("a prompt has at least one byte, and only such as are "
                          f"in the text; these are not: {bytes(unknown)!r}")
    generator = torch.Generator().manual_seed(seed)
    said = [number[byte] for byte in prompt.encode()]
    with torch.no_grad():
        for _ in range(tokens):
            seen = torch.tensor([said[-model.sample_shape[0]:]])
            logits = model(seen)[0, -1].float()
            if temperature == 0:
                said.append(int(logits.argmax()))
                continue
            odds = torch.softmax(logits / temperature, 0)
            said.append(int(torch.multinomial(odds, 1, generator=generator)))
    return bytes(vocabulary[token] for token in said).decode(errors="replace")
