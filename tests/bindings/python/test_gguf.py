"""A model from a GGUF file takes the file's words along: what it saves is whole."""
import os
import random
import struct
import tempfile
import unittest

import dllm

HIDDEN, INNER, LAYERS = 16, 32, 2
U32, F32, I32, STRING, ARRAY = 4, 6, 5, 8, 9


def byte_alphabet():
    """The letters of byte-level BPE: printable bytes stand for themselves, the others for 256 and up."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [byte for byte in range(256) if byte not in own]
    return [chr(byte) for byte in own] + [chr(256 + i) for i in range(len(other))]


TOKENS = [*byte_alphabet(), "th", "the", "<|endoftext|>"]
KINDS = [1] * (len(TOKENS) - 1) + [3]  # the last is a control token


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def field(key, kind, value):
    if kind == STRING:
        return text(key) + struct.pack("<I", kind) + text(value)
    if kind == ARRAY:
        inner, values = value
        packed = b"".join(text(v) if inner == STRING else struct.pack("<i", v) for v in values)
        return text(key) + struct.pack("<IIQ", kind, inner, len(values)) + packed
    return text(key) + struct.pack("<I", kind) + struct.pack("<f" if kind == F32 else "<I", value)


def shapes():
    yield "token_embd.weight", (len(TOKENS), HIDDEN)
    for i in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"blk.{i}.{name}.weight", (HIDDEN, HIDDEN)
        yield f"blk.{i}.ffn_gate.weight", (INNER, HIDDEN)
        yield f"blk.{i}.ffn_up.weight", (INNER, HIDDEN)
        yield f"blk.{i}.ffn_down.weight", (HIDDEN, INNER)
        yield f"blk.{i}.attn_norm.weight", (HIDDEN,)
        yield f"blk.{i}.ffn_norm.weight", (HIDDEN,)
    yield "output_norm.weight", (HIDDEN,)


def write_gguf(path):
    fields = [
        field("general.architecture", STRING, "llama"),
        field("llama.block_count", U32, LAYERS), field("llama.context_length", U32, 64),
        field("llama.embedding_length", U32, HIDDEN), field("llama.feed_forward_length", U32, INNER),
        field("llama.attention.head_count", U32, 2), field("llama.attention.head_count_kv", U32, 2),
        field("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
        field("llama.rope.freq_base", F32, 10000.0), field("llama.rope.dimension_count", U32, 8),
        field("llama.vocab_size", U32, len(TOKENS)),
        field("tokenizer.ggml.model", STRING, "gpt2"), field("tokenizer.ggml.pre", STRING, "gpt-2"),
        field("tokenizer.ggml.tokens", ARRAY, (STRING, TOKENS)),
        field("tokenizer.ggml.token_type", ARRAY, (I32, KINDS)),
        field("tokenizer.ggml.merges", ARRAY, (STRING, ["t h", "th e"])),
        field("tokenizer.ggml.eos_token_id", U32, len(TOKENS) - 1),
    ]
    draw, infos, data = random.Random(1), [], b""
    for name, shape in shapes():
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        infos.append(text(name) + struct.pack("<I", len(shape)) +
                     b"".join(struct.pack("<Q", d) for d in reversed(shape)) +
                     struct.pack("<IQ", 0, len(data)))
        data += struct.pack(f"<{count}f", *(draw.gauss(0.1, 0.1) for _ in range(count)))
        data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(fields)) + b"".join(fields + infos)
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % 32) + data)


class Gguf(unittest.TestCase):
    def test_a_save_has_the_words(self):
        with tempfile.TemporaryDirectory() as root:
            path, folder = os.path.join(root, "tiny.gguf"), os.path.join(root, "saved")
            write_gguf(path)
            words = dllm.Tokenizer(path)
            dllm.Model(path).save(folder)
            again = dllm.Tokenizer(folder)
            for line in ("the other Thing", "Ünïcode 12\n", ""):
                self.assertEqual(list(again.encode(line)), list(words.encode(line)))
            self.assertEqual(len(words.encode("the")), 1)

    def test_training_adds_a_mask_token_to_both(self):
        with tempfile.TemporaryDirectory() as root:
            path = os.path.join(root, "tiny.gguf")
            write_gguf(path)
            model = dllm.Model(path, attention="bidirectional")
            trainer = dllm.Trainer(model, dllm.Objective("mdlm"))
            trainer.step({"ids": [[1, 2, 3, 4, 5, 6, 7, 8]]})
            model.save(os.path.join(root, "saved"))
            self.assertEqual(model["mask_id"], len(TOKENS))
            self.assertEqual(dllm.Tokenizer(os.path.join(root, "saved")).id("<|mask|>"), len(TOKENS))


if __name__ == "__main__":
    unittest.main()
