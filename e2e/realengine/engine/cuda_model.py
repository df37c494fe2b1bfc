"""Write what vLLM needs to serve a model of a known size with random weights, which it draws itself.

usage: cuda_model.py FOLDER SHAPE

SHAPE is one of SHAPES. The tokenizer knows the words that the load is made of, one token each, so that an answer that
comes back in the next prompt is cut into the same tokens.
"""

import itertools
import json
import pathlib
import sys

from tokenizers import Tokenizer, models, pre_tokenizers

# Hidden size, intermediate size, layers, heads, KV heads, size of a head.
SHAPES = {
    "llama-3b": (3072, 8192, 28, 24, 8, 128),  # that of Llama-3.2-3B
    "tiny": (256, 512, 2, 2, 1, 128),
}
SPECIAL = ["<unk>", "<s>", "</s>"]
ROLES = ["system", "user", "assistant"]
LETTERS = "abcdefghijklmnop"  # words of the load are three of these
CONTEXT = 32768
TEMPLATE = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}assistant"


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1))


def write_tokenizer(folder):
    words = SPECIAL + ROLES + ["".join(letters) for letters in itertools.product(LETTERS, repeat=3)]
    tokenizer = Tokenizer(models.WordLevel(vocab={w: i for i, w in enumerate(words)}, unk_token=SPECIAL[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.save(str(folder / "tokenizer.json"))
    unknown, begin, end = SPECIAL
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": unknown, "bos_token": begin, "eos_token": end,
        "model_max_length": CONTEXT, "clean_up_tokenization_spaces": False, "chat_template": TEMPLATE,
    })
    return len(words)


def write_config(folder, words, shape):
    hidden, intermediate, layers, heads, kv_heads, head = SHAPES[shape]
    write_json(folder / "config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "hidden_size": hidden, "intermediate_size": intermediate, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head,
        "vocab_size": words, "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
        "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2,
    })
    write_json(folder / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2})


def main():
    folder, shape = pathlib.Path(sys.argv[1]), sys.argv[2]
    folder.mkdir(parents=True, exist_ok=True)
    write_config(folder, write_tokenizer(folder), shape)


if __name__ == "__main__":
    main()
