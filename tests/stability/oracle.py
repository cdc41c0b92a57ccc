#!/usr/bin/env python3
"""Computes what `tests/value_stability.rs` holds the streams and draws to.

    python3 tests/stability/oracle.py > tests/stability/draws.toml

Shares no code with logitchain: the generators are written out here from their
published descriptions, and the stages from their documentation, naively, in
f64. Wherever a decision would hang on less than f32's precision the program
stops, so that the tokens do not depend on how anybody rounds.

Needs nothing but Python. Where numpy is installed, its MT19937 is asked too.
"""

import math
import random
import struct
import sys

MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1
WORDS, TOKENS = 32, 64
BELOW_ONE = 1.0 - 2.0**-53
STAGES = ["adaptive_p", "dist", "mirostat", "mirostat_v2", "xtc"]

# 48 logits from 0 to 5.875, all different, and all exact in f32.
LOGITS = [(i * 29 % 48) / 8 for i in range(48)]
CHAINS = [
    "dist",
    "xtc{probability=0.5,threshold=0.05};dist",
    "mirostat{tau=3,eta=0.1}",
    "mirostat_v2{tau=3,eta=0.1}",
    "adaptive_p{target=0.1,decay=0.9}",
    "adaptive_p{target=-1}",
]


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


class Xoshiro:
    """Blackman and Vigna's xoshiro256++ 1.0, seeded by their SplitMix64."""

    name = "xoshiro256++"

    def __init__(self, seed, stage, nth):
        # FNV-1a over the stage's name and the eight bytes of its number, the
        # lowest first; the seed joins by exclusive or.
        mixed = 0xCBF29CE484222325
        for byte in stage.encode() + nth.to_bytes(8, "little"):
            mixed = (mixed ^ byte) * 0x100000001B3 & MASK64
        mixed ^= seed
        self.s = []
        for _ in range(4):
            mixed = mixed + 0x9E3779B97F4A7C15 & MASK64
            z = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & MASK64
            z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK64
            self.s.append(z ^ z >> 31)

    def word(self):
        def rotl(x, k):
            return (x << k | x >> (64 - k)) & MASK64

        s = self.s
        result = rotl(s[0] + s[3] & MASK64, 23) + s[0] & MASK64
        t = s[1] << 17 & MASK64
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotl(s[3], 45)
        return result

    def uniform(self):
        return (self.word() >> 11) / 2.0**53

    def coin(self):
        return self.uniform()


class Mt19937:
    """Matsumoto and Nishimura's mt19937, the same for every stage."""

    name = "mt19937"

    def __init__(self, seed, _stage, _nth):
        self.state = [seed]
        for i in range(1, 624):
            last = self.state[-1]
            self.state.append(1812433253 * (last ^ last >> 30) + i & MASK32)
        self.at = 624
        # The same state in Python's own generator, as a second opinion.
        self.second = random.Random()
        self.second.setstate((3, (*self.state, 624), None))

    def word(self):
        if self.at == 624:
            s = self.state
            for i in range(624):
                y = s[i] & 0x80000000 | s[(i + 1) % 624] & 0x7FFFFFFF
                s[i] = s[(i + 397) % 624] ^ y >> 1 ^ (0x9908B0DF if y & 1 else 0)
            self.at = 0
        y = self.state[self.at]
        self.at += 1
        y ^= y >> 11
        y ^= y << 7 & 0x9D2C5680
        y ^= y << 15 & 0xEFC60000
        y ^= y >> 18
        assert y == self.second.getrandbits(32)
        return y

    def uniform(self):
        low, high = self.word(), self.word()
        return min(float(high << 32 | low) * 2.0**-64, BELOW_ONE)

    def coin(self):
        return min(f32(self.word()) * 2.0**-32, 1.0 - 2.0**-24)


def decide(a, b, slack=2e-7):
    """Whether a < b, where that is beyond doubt."""
    if abs(a - b) < slack * max(1.0, abs(a), abs(b)):
        sys.exit(f"too close to call: {a!r} and {b!r}; take other logits or parameters")
    return a < b


def probabilities(candidates):
    """Of (id, logit): (id, probability), in the same order."""
    best = max(logit for _, logit in candidates)
    weights = [math.exp(logit - best) for _, logit in candidates]
    return [(id, w / sum(weights)) for (id, _), w in zip(candidates, weights)]


def by_rank(candidates):
    return sorted(candidates, key=lambda c: (-c[1], c[0]))


class Chain:
    def __init__(self, text, generator, seed):
        self.mt = generator is Mt19937
        self.stages = []
        for stage in text.split(";"):
            name, _, params = stage.rstrip("}").partition("{")
            params = dict(p.split("=") for p in params.split(",")) if params else {}
            params = {key: float(value) for key, value in params.items()}
            self.stages.append((name, params, generator(seed, name, 0)))
            if name.startswith("mirostat"):
                self.limit = 2 * params["tau"]
            if name == "adaptive_p" and params["target"] >= 0:
                self.sum = params["target"] / (1 - params["decay"])
                self.weight = 1 / (1 - params["decay"])

    def draw(self, candidates, rng):
        """A token and its probability. mt19937 walks the candidates as they
        stand and the default generator by id."""
        if not self.mt:
            candidates = sorted(candidates)
        u, end = rng.uniform(), 0.0
        for id, p in probabilities(candidates):
            end += p
            if decide(u, end):
                return id, p
        return id, p

    def surprise(self, candidates, rng, params):
        if self.mt and len(candidates) == 1:
            id, p = candidates[0][0], 1.0
        else:
            id, p = self.draw(candidates, rng)
        self.limit -= params["eta"] * (-math.log2(p) - params["tau"])
        return id

    def token(self):
        candidates = list(enumerate(LOGITS))
        for name, params, rng in self.stages:
            if name == "xtc":
                if decide(rng.coin(), params["probability"]):
                    ranked = by_rank(candidates)
                    top = [c for c in probabilities(ranked) if not decide(c[1], params["threshold"])]
                    candidates = ranked[max(len(top) - 1, 0) :]
            elif name == "dist":
                return self.draw(candidates, rng)[0]
            elif name == "mirostat":
                ranked = by_rank(candidates)
                steps = range(min(100, len(ranked)) - 1)
                ts = [math.log((i + 2) / (i + 1)) for i in steps]
                bs = [ranked[i][1] - ranked[i + 1][1] for i in steps]
                s = sum(t * b for t, b in zip(ts, bs)) / sum(t * t for t in ts)
                size = len(ranked)
                k = ((s - 1) * 2**self.limit / (1 - size ** (1 - s))) ** (1 / s)
                decide(k, round(k), 1e-5)
                return self.surprise(ranked[: max(int(k), 1)], rng, params)
            elif name == "mirostat_v2":
                ranked = by_rank(candidates)
                allowed = [p for _, p in probabilities(ranked) if not decide(self.limit, -math.log2(p), 1e-5)]
                return self.surprise(ranked[: max(len(allowed), 1)], rng, params)
            elif name == "adaptive_p":
                if params["target"] < 0:
                    return self.draw(candidates, rng)[0]
                aim = min(max(2 * params["target"] - self.sum / self.weight, 0), 1)
                before = dict(probabilities(candidates))
                ds = {id: abs(p - aim) / 0.3 for id, p in before.items()}
                new = [(id, 5 - 10 * d * d / (1 + d)) for id, d in ds.items()]
                id, _ = self.draw(new, rng)
                # The drawn token is accepted.
                self.sum = before[id] + params["decay"] * self.sum
                self.weight = 1 + params["decay"] * self.weight
                return id


def listed(items, per_line):
    lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
    return "[\n" + "".join(f"    {line},\n" for line in lines) + "]"


def stream(generator, seed, stages, nth):
    rng = generator(seed, stages[0], nth)
    digits = 8 if generator is Mt19937 else 16
    words = [f'"{rng.word():0{digits}x}"' for _ in range(WORDS)]
    rng = generator(seed, stages[0], nth)
    # Python prints as many digits as tell the number from all others.
    numbers = [repr(rng.uniform()) for _ in range(WORDS)]
    print("\n[[stream]]")
    print(f'rng = "{generator.name}"\nseed = "{seed}"')
    print("stages = [" + ", ".join(f'"{s}"' for s in stages) + f"]\nnth = {nth}")
    print(f"words = {listed(words, 8 if digits == 8 else 4)}")
    print(f"numbers = {listed(numbers, 4)}")


def draws(generator, seed, chain):
    running = Chain(chain, generator, seed)
    tokens = [str(running.token()) for _ in range(TOKENS)]
    print("\n[[draws]]")
    print(f'rng = "{generator.name}"\nseed = "{seed}"\nchain = "{chain}"')
    print(f"tokens = {listed(tokens, 16)}")


HEADER = """\
# What seeds mean: the words and numbers of each stage's stream, and the tokens
# that chains draw over fixed logits. `../value_stability.rs` compares them.
#
# Printed by `oracle.py`, which shares no code with logitchain. Nothing blesses
# this file anew: a seed must give the same text in every later release. If
# that promise is ever broken on purpose, it is a breaking change: say so in the
# changelog, change the oracle first and print the file with it, and let the
# test confirm that the code follows.
#
# `words` are hexadecimal; `numbers` are exact, since their digits identify one
# f64. mt19937 starts alike in every stage, so one stream stands for all.
"""


def main():
    check_numpy()
    print(HEADER, end="")
    print(f"\nlogits = {listed([str(logit) for logit in LOGITS], 12)}")
    small = [0, 1, 42, MASK32]
    for seed in [*small, MASK32 + 1, MASK64]:
        for stage in STAGES:
            stream(Xoshiro, seed, [stage], 0)
    # The second and third stage of a name.
    for nth in [1, 2]:
        stream(Xoshiro, 42, ["xtc"], nth)
    for seed in small:
        stream(Mt19937, seed, STAGES, 0)
    for chain in CHAINS:
        for seed in [*small, MASK32 + 1, MASK64]:
            draws(Xoshiro, seed, chain)
        for seed in small:
            draws(Mt19937, seed, chain)


def check_numpy():
    try:
        from numpy.random import RandomState
    except ImportError:
        return
    for seed in [0, 1, 42, MASK32]:
        rng, bits = Mt19937(seed, "", 0), RandomState(seed)._bit_generator
        assert all(rng.word() == int(bits.random_raw()) for _ in range(2000))


if __name__ == "__main__":
    main()
