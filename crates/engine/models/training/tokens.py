"""Make a vocabulary from the texts, and token files from both."""

import argparse
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

# Their ids, 0 to 2, are written into the GGUF file by export.py.
SPECIAL = ["<unk>", "<s>", "</s>"]
BEGIN, END = 1, 2

# The end of each source is for validation.
TRAINING_SHARE = 0.97


def make_tokenizer(texts: list[str], size: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    # GPT-2's way to cut text into words: "gpt-2" in GGUF.
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    whole = "\n\n".join(texts)
    pieces = (whole[i : i + 100_000] for i in range(0, len(whole), 100_000))
    tokenizer.train_from_iterator(pieces, trainer)
    return tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocabulary", type=int, default=2048, help="number of tokens")
    args = parser.parse_args()

    texts = [Path(name).read_text("utf-8") for name in ("web.txt", "shakespeare.txt")]
    tokenizer = make_tokenizer(texts, args.vocabulary)
    tokenizer.save("tokenizer.json")

    training: list[int] = []
    validation: list[int] = []
    for text in texts:
        cut = int(len(text) * TRAINING_SHARE)
        training += [BEGIN, *tokenizer.encode(text[:cut]).ids, END]
        validation += [BEGIN, *tokenizer.encode(text[cut:]).ids]
    np.save("train.npy", np.array(training, dtype=np.uint16))
    np.save("validation.npy", np.array(validation, dtype=np.uint16))
    print(len(training), "tokens for training,", len(validation), "for validation")


if __name__ == "__main__":
    main()
