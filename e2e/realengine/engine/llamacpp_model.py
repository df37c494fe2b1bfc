"""Write a small LLaMA model with random weights as a GGUF file: real work for an engine, nothing to download.

usage: llamacpp_model.py OUT.gguf
"""

import sys

import gguf
import numpy as np

from vocabulary import CHAT_TEMPLATE, SPECIAL, merges, vocabulary

LAYERS, WIDTH, HEADS = 4, 512, 4
CONTEXT = 32768


def write_header(writer, tokens):
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(2 * WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_merges([" ".join(pair) for pair in merges()])
    kinds = [gguf.TokenType.CONTROL] * len(SPECIAL) + [gguf.TokenType.NORMAL] * (len(tokens) - len(SPECIAL))
    writer.add_token_types([int(k) for k in kinds])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def write_tensors(writer, vocab):
    rng = np.random.default_rng(0)

    def random(*shape):
        return (rng.standard_normal(shape) * 0.02).astype(np.float32)

    ones = np.ones(WIDTH, np.float32)
    writer.add_tensor("token_embd.weight", random(vocab, WIDTH))
    writer.add_tensor("output_norm.weight", ones)
    writer.add_tensor("output.weight", random(vocab, WIDTH))
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(block + name + ".weight", ones)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(block + name + ".weight", random(WIDTH, WIDTH))
        writer.add_tensor(block + "ffn_gate.weight", random(2 * WIDTH, WIDTH))
        writer.add_tensor(block + "ffn_up.weight", random(2 * WIDTH, WIDTH))
        writer.add_tensor(block + "ffn_down.weight", random(WIDTH, 2 * WIDTH))


def main():
    tokens = vocabulary()
    writer = gguf.GGUFWriter(sys.argv[1], "llama")
    write_header(writer, tokens)
    write_tensors(writer, len(tokens))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
