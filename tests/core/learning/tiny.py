"""Small random transformers of every architecture we enter, and one we do not."""

from typing import Any

import numpy as np
import torch
from transformers import (
    AlbertConfig,
    AlbertModel,
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    MPNetConfig,
    MPNetModel,
    RobertaConfig,
    RobertaModel,
)

from core.encoder.tokens import Tokens
from core.learning.noise import Vocabulary

_SAME = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 32}
VOCABULARY = 60


def tiny_model(kind: str) -> Any:
    """Build a network of that kind, the same each time."""
    torch.manual_seed(0)
    made = {
        "bert": lambda: BertModel(BertConfig(vocab_size=VOCABULARY, **_SAME)),
        "roberta": lambda: RobertaModel(RobertaConfig(vocab_size=VOCABULARY, max_position_embeddings=40, **_SAME)),
        "distilbert": lambda: DistilBertModel(
            DistilBertConfig(vocab_size=VOCABULARY, dim=16, n_layers=3, n_heads=4, hidden_dim=32)
        ),
        "mpnet": lambda: MPNetModel(MPNetConfig(vocab_size=VOCABULARY, max_position_embeddings=40, **_SAME)),
        "albert": lambda: AlbertModel(AlbertConfig(vocab_size=VOCABULARY, embedding_size=16, **_SAME)),
    }
    return made[kind]().eval()


def tiny_tokens(texts: int = 12, seed: int = 0) -> Tokens:
    """Make token ids of lengths from 2 to 8; none is a padding id."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 9, (texts,), generator=generator).tolist()
    return Tokens.from_lists([torch.randint(3, VOCABULARY, (size,), generator=generator).tolist() for size in lengths])


def plain_vocabulary(mask: int | None = 3) -> Vocabulary:
    """Name five special tokens; of the others, every third continues a word."""
    special = np.zeros(VOCABULARY, bool)
    special[:5] = True
    return Vocabulary(np.arange(VOCABULARY) % 3 != 0, np.zeros(VOCABULARY, bool), special, mask)
