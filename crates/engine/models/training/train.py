"""Train the network on train.npy, for as long as the clock says."""

import argparse
import math
import time
from dataclasses import asdict, dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class Config:
    vocabulary: int = 2048
    width: int = 192
    layers: int = 6
    heads: int = 6
    kv_heads: int = 2
    hidden: int = 512
    context: int = 256
    epsilon: float = 1e-5
    rope_base: float = 10000.0

    @property
    def head_width(self) -> int:
        return self.width // self.heads


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn neighbouring elements by angles that grow with the position.

    GGUF files of the llama architecture expect neighbours: most other code
    pairs element i with element i + width / 2.
    """
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class Norm(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.epsilon = config.epsilon
        self.weight = nn.Parameter(torch.ones(config.width))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], self.weight, self.epsilon)


class Layer(nn.Module):
    """The attributes bear the names of the GGUF tensors."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        width, hidden = config.width, config.hidden
        queries = config.heads * config.head_width
        keys = config.kv_heads * config.head_width
        self.attn_norm = Norm(config)
        self.attn_q = nn.Linear(width, queries, bias=False)
        self.attn_k = nn.Linear(width, keys, bias=False)
        self.attn_v = nn.Linear(width, keys, bias=False)
        self.attn_output = nn.Linear(queries, width, bias=False)
        self.ffn_norm = Norm(config)
        self.ffn_gate = nn.Linear(width, hidden, bias=False)
        self.ffn_up = nn.Linear(width, hidden, bias=False)
        self.ffn_down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        def heads(y: Tensor) -> Tensor:
            return y.unflatten(-1, (-1, self.config.head_width)).transpose(1, 2)

        y = self.attn_norm(x)
        query = rotate(heads(self.attn_q(y)), cos, sin)
        key = rotate(heads(self.attn_k(y)), cos, sin)
        value = heads(self.attn_v(y))
        shared = self.config.heads // self.config.kv_heads
        key, value = (z.repeat_interleave(shared, 1) for z in (key, value))
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attn_output(y.transpose(1, 2).flatten(2))
        y = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(y)) * self.ffn_up(y))


class Network(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.token_embd = nn.Embedding(config.vocabulary, config.width)
        self.blk = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.output_norm = Norm(config)

        # What adds to the residual stream begins smaller, the more layers add.
        for name, weight in self.named_parameters():
            if weight.dim() < 2:
                continue
            deviation = 1 / math.sqrt(weight.shape[1])
            if name.startswith("token_embd"):
                deviation = 0.02
            elif name.endswith(("attn_output.weight", "ffn_down.weight")):
                deviation /= math.sqrt(2 * config.layers)
            nn.init.normal_(weight, std=deviation)

        exponents = torch.arange(0, config.head_width, 2) / config.head_width
        angles = torch.outer(torch.arange(config.context), config.rope_base**-exponents)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean loss per token."""
        x = self.token_embd(tokens)
        length = tokens.shape[1]
        for layer in self.blk:
            x = layer(x, self.cos[:length], self.sin[:length])
        # The embedding scores, too: the file has no other output matrix.
        logits = F.linear(self.output_norm(x), self.token_embd.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def orthogonalize(gradient: Tensor) -> Tensor:
    """The nearest matrix whose singular values are all about 1."""
    x = gradient / (gradient.norm() + 1e-7)
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    for _ in range(5):
        y = x @ x.T
        x = 3.4445 * x + (-4.7750 * y + 2.0315 * y @ y) @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    """Momentum whose steps are orthogonalized; for the matrices within layers."""

    def __init__(self, parameters, lr: float, momentum: float = 0.95, decay: float = 0.05):
        super().__init__(parameters, dict(lr=lr, momentum=momentum, decay=decay))

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                state = self.state[weight]
                mean = state.setdefault("mean", torch.zeros_like(weight))
                mean.mul_(group["momentum"]).add_(weight.grad)
                step = orthogonalize(weight.grad.add(mean, alpha=group["momentum"]))
                scale = max(1, weight.shape[0] / weight.shape[1]) ** 0.5
                weight.mul_(1 - group["lr"] * group["decay"])
                weight.add_(step, alpha=-group["lr"] * scale)


@torch.no_grad()
def validate(network: Network, tokens: Tensor) -> float:
    context = network.config.context
    count = (len(tokens) - 1) // context
    inputs = tokens[: count * context].view(count, context)
    targets = tokens[1 : count * context + 1].view(count, context)
    batches = zip(inputs.split(16), targets.split(16))
    return sum(network(x, y).item() * len(x) for x, y in batches) / count


def rate(step: int, progress: float) -> float:
    """A short warm-up, then full speed, then a slow stop from 40 % on."""
    return min(1, (step + 1) / 50) * min(1, max(0.02, 1 - (progress - 0.4) / 0.6))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=40)
    parser.add_argument("--batch", type=int, default=16, help="texts per step")
    parser.add_argument("--adam-rate", type=float, default=3e-3)
    parser.add_argument("--muon-rate", type=float, default=0.02)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", default="model.pt")
    args = parser.parse_args()
    torch.manual_seed(1234)
    torch.set_num_threads(args.threads)

    config = Config()
    network = Network(config)
    training = torch.from_numpy(np.load("train.npy").astype(np.int64))
    validation = torch.from_numpy(np.load("validation.npy").astype(np.int64))
    print(sum(weight.numel() for weight in network.parameters()), "parameters")

    matrices = [weight for weight in network.blk.parameters() if weight.dim() == 2]
    inner = {id(weight) for weight in matrices}
    others = [weight for weight in network.parameters() if id(weight) not in inner]
    optimizers = {
        Muon(matrices, args.muon_rate): args.muon_rate,
        torch.optim.AdamW(others, args.adam_rate, betas=(0.9, 0.95), weight_decay=0.0): args.adam_rate,
    }

    start = time.time()
    step = 0
    while (progress := (time.time() - start) / (60 * args.minutes)) < 1:
        for optimizer, full in optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = full * rate(step, progress)

        starts = torch.randint(len(training) - config.context - 1, (args.batch,))
        texts = torch.stack([training[i : i + config.context + 1] for i in starts])
        loss = network(texts[:, :-1], texts[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()

        step += 1
        if step % 150 == 0:
            print(f"step {step}: loss {loss.item():.3f}, validation {validate(network, validation):.3f}")
    print(f"{step * args.batch * config.context} tokens, validation {validate(network, validation):.3f}")
    torch.save({"config": asdict(config), "weights": network.state_dict()}, args.out)


if __name__ == "__main__":
    main()
