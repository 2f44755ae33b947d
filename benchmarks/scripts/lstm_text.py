# A word-level LSTM on a made-up language; hidden state carried from batch to batch; sequences packed by length.
import collections
import random
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

rng = random.Random(3)
torch.manual_seed(3)

GRAMMAR = {
    "S": ["N V N .", "N V .", "if S then S"],
    "N": ["the A ball", "the dog", "a A A cat", "she"],
    "V": ["sees", "likes", "throws"],
    "A": ["red", "small", "old"],
}


def sentence(symbol="S", depth=0):
    if symbol not in GRAMMAR:
        return [symbol]
    rules = GRAMMAR[symbol][: 2 if depth > 2 else None]
    return [word for part in rng.choice(rules).split() for word in sentence(part, depth + 1)]


corpus = [sentence() for _ in range(2000)]
counts = collections.Counter(word for words in corpus for word in words)
index = {word: i for i, word in enumerate(["<pad>", *sorted(counts)])}
rows = [torch.tensor([index[w] for w in words]) for words in corpus]


class Model(nn.Module):
    def __init__(self, words, width=96, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, dropout=0.1)
        self.out = nn.Linear(width, words)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.embedding(x), lengths, batch_first=True, enforce_sorted=False)
        hidden, _ = self.lstm(packed)
        hidden, _ = pad_packed_sequence(hidden, batch_first=True)
        return self.out(hidden)


model = Model(len(index))
optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
average = None
for step in range(int(sys.argv[1]) if len(sys.argv) > 1 else 80):
    batch = [rows[i] for i in torch.randint(len(rows), (24,))]
    lengths = torch.tensor([len(row) - 1 for row in batch])
    padded = pad_sequence(batch, batch_first=True)
    logits = model(padded[:, :-1], lengths)
    loss = F.cross_entropy(logits.flatten(0, 1), padded[:, 1:].flatten(), ignore_index=0)
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        p.grad.clamp_(-0.5, 0.5)
    optimizer.step()
    average = loss.item() if average is None else 0.9 * average + 0.1 * loss.item()
    if step % 20 == 19:
        print(f"{step + 1:4d} {average:.4f}")
print("final loss", loss.item().hex())
