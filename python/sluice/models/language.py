"""Language models: texts [N, T] int64 -> logits [N, T, vocabulary]."""
from torch import nn
from torch.nn import functional

from sluice.models.chain import Chain
from sluice.models.transformer import LlamaLayer, Tied, TransformerLayer


class Embeddings(nn.Module):
    """[N, T] -> [N, T, C]; tied: also the weight of the tokens."""

    def __init__(self, vocabulary, context, width, dropout, tied):
        super().__init__()
        self.tied = tied
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(context, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens):
        places = self.position.weight[:tokens.size(1)]
        h = self.dropout(self.token(tokens) + places)
        return (h, self.token.weight) if self.tied else h


class Vocabulary(nn.Module):
    """[N, T, C] -> [N, T, V], by its own weight or the one that came along."""

    def __init__(self, width, vocabulary, bias, tied):
        super().__init__()
        self.norm = nn.LayerNorm(width, bias=bias)
        if not tied:
            self.vocabulary = nn.Linear(width, vocabulary, bias=False)
        self.tied = tied

    def forward(self, values):
        h, weight = values if self.tied else (values, self.vocabulary.weight)
        return functional.linear(self.norm(h), weight)


def gpt(options, sample):
    width, tied = options["width"], options["tied"]
    layers = [TransformerLayer(
        width, options["heads"], options["dropout"], causal=True,
        bias=options["bias"],
        activation="tanh" if options["activation"] == "gelu_tanh" else "none")
        for _ in range(options["layers"])]
    return [Embeddings(sample["classes"], sample["shape"][0], width,
                       options["dropout"], tied),
            *(map(Tied, layers) if tied else layers),
            Vocabulary(width, sample["classes"], options["bias"], tied)]


def llama(options, sample):
    width, heads = options["width"], options["heads"]
    hidden = options["hidden"] or -(-((8 * width + 2) // 3) // 32) * 32
    layers = [LlamaLayer(width, heads, options["kv_heads"] or heads, hidden,
                         options["rotary_base"], options["epsilon"])
              for _ in range(options["layers"])]
    last = Chain().add("norm", nn.RMSNorm(width, options["epsilon"]))
    last.add("vocabulary", nn.Linear(width, sample["classes"], bias=False))
    return [Chain().add("token", nn.Embedding(sample["classes"], width)),
            *layers, last]


class LstmLayer(nn.Module):
    """[N, T, C] -> [N, T, C]; the state begins at zero for every text."""

    def __init__(self, width, dropout):
        super().__init__()
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.lstm(x)[0])


def lstm(options, sample):
    width, dropout = options["width"], options["dropout"]
    embedding = Chain().add("token", nn.Embedding(sample["classes"], width))
    embedding.add("dropout", nn.Dropout(dropout))
    vocabulary = nn.Linear(width, sample["classes"])
    return [embedding,
            *(LstmLayer(width, dropout) for _ in range(options["layers"])),
            Chain().add("vocabulary", vocabulary)]
