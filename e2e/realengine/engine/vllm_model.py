"""Write what vLLM needs to serve a small LLaMA model with random weights: real work for an engine, nothing to download.

usage: vllm_model.py FOLDER

FOLDER/model has no weights: vLLM draws them at random (--load-format dummy). FOLDER/adapters contains LoRA adapters for
it.
"""

import json
import pathlib
import sys

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from vocabulary import CHAT_TEMPLATE, SPECIAL, merges, vocabulary

LAYERS, WIDTH, HEADS = 4, 512, 4
CONTEXT = 8192
ADAPTERS, RANK = ["first", "second", "third"], 8


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1))


def write_tokenizer(folder):
    words = {word: number for number, word in enumerate(vocabulary())}
    tokenizer = Tokenizer(models.BPE(vocab=words, merges=merges(), unk_token=SPECIAL[0]))
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    unknown, begin, end = SPECIAL
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": unknown, "bos_token": begin, "eos_token": end,
        "model_max_length": CONTEXT,
        "chat_template": CHAT_TEMPLATE,
    })
    return len(words)


def write_model(folder):
    folder.mkdir(parents=True)
    size = write_tokenizer(folder)
    write_json(folder / "config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float32",
        "hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "head_dim": WIDTH // HEADS,
        "vocab_size": size, "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "attention_bias": False,
        "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
    })


def write_adapter(folder, seed):
    folder.mkdir(parents=True)
    write_json(folder / "adapter_config.json", {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "tiny",
        "r": RANK, "lora_alpha": RANK, "lora_dropout": 0.0, "bias": "none", "target_modules": ["q_proj", "v_proj"],
    })
    rng = np.random.default_rng(seed)
    tensors = {}
    for layer in range(LAYERS):
        for name in ("q_proj", "v_proj"):
            key = f"base_model.model.model.layers.{layer}.self_attn.{name}."
            tensors[key + "lora_A.weight"] = rng.standard_normal((RANK, WIDTH)).astype(np.float32) * 0.02
            tensors[key + "lora_B.weight"] = rng.standard_normal((WIDTH, RANK)).astype(np.float32) * 0.02
    save_file(tensors, str(folder / "adapter_model.safetensors"))


def main():
    root = pathlib.Path(sys.argv[1])
    write_model(root / "model")
    for seed, name in enumerate(ADAPTERS):
        write_adapter(root / "adapters" / name, seed)


if __name__ == "__main__":
    main()
