"""Write model.pt and tokenizer.json as a GGUF file."""

import argparse
import json

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, TokenType, quants


def write_metadata(writer: GGUFWriter, config: dict) -> None:
    writer.add_name("logitchain-tiny")
    writer.add_license("cc0-1.0")
    writer.add_block_count(config["layers"])
    writer.add_context_length(config["context"])
    writer.add_embedding_length(config["width"])
    writer.add_feed_forward_length(config["hidden"])
    writer.add_head_count(config["heads"])
    writer.add_head_count_kv(config["kv_heads"])
    writer.add_layer_norm_rms_eps(config["epsilon"])
    # llama.cpp can do without, other programs cannot.
    writer.add_rope_dimension_count(config["width"] // config["heads"])
    writer.add_rope_freq_base(config["rope_base"])
    writer.add_vocab_size(config["vocabulary"])
    writer.add_quantization_version(2)


def write_tokenizer(writer: GGUFWriter, model: dict) -> None:
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    types = [TokenType.NORMAL] * len(tokens)
    types[:3] = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    # Without these two, texts would silently begin differently.
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    writer.add_add_eos_token(False)


def write_weights(writer: GGUFWriter, weights: dict, kind: GGMLQuantizationType) -> None:
    # The network's attributes bear the tensors' names already. Rotary pairs
    # are neighbours in training as in the file: nothing is to be reordered.
    for name, tensor in weights.items():
        array = tensor.float().numpy()
        if array.ndim == 1:
            writer.add_tensor(name, array.astype(np.float32))
        else:
            writer.add_tensor(name, quants.quantize(array, kind), raw_dtype=kind)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", help="the GGUF file to write")
    parser.add_argument("--type", choices=["F32", "F16", "Q8_0"], default="F16")
    parser.add_argument("--model", default="model.pt")
    parser.add_argument("--tokenizer", default="tokenizer.json")
    args = parser.parse_args()

    saved = torch.load(args.model)
    with open(args.tokenizer, encoding="utf-8") as file:
        tokenizer = json.load(file)
    file_types = {
        "F32": LlamaFileType.ALL_F32,
        "F16": LlamaFileType.MOSTLY_F16,
        "Q8_0": LlamaFileType.MOSTLY_Q8_0,
    }

    writer = GGUFWriter(args.out, "llama")
    write_metadata(writer, saved["config"])
    writer.add_file_type(file_types[args.type])
    write_tokenizer(writer, tokenizer["model"])
    write_weights(writer, saved["weights"], GGMLQuantizationType[args.type])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
