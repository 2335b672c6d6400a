"""A transformer in plain PyTorch: a GPT that continues text and a ViT that classifies images, both of the same blocks."""
import torch
import torch.nn.functional as F
from torch import nn


def attend(q, k, v, causal):
    """softmax(q k' / sqrt(d)) v; before torch 2.0 from its parts."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    return scores.softmax(-1) @ v


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = (t.view(n, length, self.heads, -1).transpose(1, 2) for t in self.qkv(x).split(width, 2))
        return self.out(attend(q, k, v, self.causal).transpose(1, 2).reshape(n, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, causal, dropout=0.0):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads, causal)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


def small_weights(module):
    """Normal with deviation 0.02, as GPT-2 and ViT begin."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


class Gpt(nn.Module):
    """Logits of the next token at each place. The defaults are GPT-2 small; its head shares the weights of the embedding."""

    def __init__(self, vocabulary=50257, length=1024, width=768, depth=12, heads=12, dropout=0.0):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, True, dropout) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.apply(small_weights)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


class Vit(nn.Module):
    """Logits of classes. The defaults are ViT-B/16."""

    def __init__(self, image=224, patch=16, classes=1000, width=768, depth=12, heads=12, dropout=0.0):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(0.02 * torch.randn(1, 1 + (image // patch) ** 2, width))
        self.blocks = nn.ModuleList(Block(width, heads, False, dropout) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)
        self.apply(small_weights)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))
