"""A folder that we save loads in Hugging Face transformers with the same logits and token ids.
Skipped where torch and transformers are not installed."""
import os
import random
import tempfile
import unittest

try:
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error} (pip install torch transformers)")
    raise SystemExit(0)

import dllm
from tiny import SENTENCES

SHAPE = {"vocab_size": 131, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
         "rms_norm_eps": 1e-5, "rope_theta": 5000.0, "hidden_act": "silu"}
FAMILIES = {
    "llama": dict(SHAPE, model_type="llama", tie_word_embeddings=False),
    "llama_tied_biased": dict(SHAPE, model_type="llama", tie_word_embeddings=True, attention_bias=True,
                              mlp_bias=True),
    "llama_scaled_rope": dict(SHAPE, model_type="llama", tie_word_embeddings=True, rope_scaling={
        "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16}),
    "qwen2": dict(SHAPE, model_type="qwen2", tie_word_embeddings=False),
    "qwen3": dict(SHAPE, model_type="qwen3", tie_word_embeddings=True, head_dim=16),
    "gpt2": {"model_type": "gpt2", "vocab_size": 131, "n_embd": 48, "n_layer": 2, "n_head": 4,
             "n_positions": 64, "n_inner": 100, "layer_norm_epsilon": 1e-5,
             "activation_function": "gelu_new", "tie_word_embeddings": True},
}
IDS = [[(7 * i + 31 * row) % 130 for i in range(21)] for row in range(3)]


def fill(model):
    """Other numbers in every parameter: norms of ones and biases of zeros would hide mistakes."""
    draw = random.Random(3)
    for name in model.param_names():
        shape = model.param(name).shape
        middle = 1.0 if "norm" in name or ".ln_" in name and name.endswith("weight") else 0.0
        flat = [middle + draw.gauss(0, 0.15) for _ in range(int(torch.Size(shape).numel()))]
        model.set_param(name, torch.tensor(flat).reshape(shape).tolist())


class Transformers(unittest.TestCase):
    def compare(self, config, **save_settings):
        engine = dllm.Engine(threads=2)
        with tempfile.TemporaryDirectory() as root:
            folder = os.path.join(root, "model")
            made = dllm.Model.new(dict(config, dllm={"attention": "causal"}), engine)
            fill(made)
            made.save(folder, **save_settings)
            ours = dllm.Model(folder, engine, dtype="f32").forward({"ids": IDS})["logits"]
            theirs, report = transformers.AutoModelForCausalLM.from_pretrained(
                folder, torch_dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        for part in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            self.assertEqual(list(report[part]), [], part)
        with torch.no_grad():
            logits = theirs.eval()(torch.tensor(IDS)).logits
        ours = torch.tensor(ours)
        self.assertEqual(ours.shape, logits.shape)
        self.assertGreater(logits.std().item(), 0.1)
        self.assertLess((ours - logits).abs().max().item(), 1e-4)

    def test_every_family(self):
        for name, config in FAMILIES.items():
            if config["model_type"] not in transformers.CONFIG_MAPPING:
                print(f"skipped: transformers {transformers.__version__} does not know {name}")
                continue
            with self.subTest(name):
                self.compare(config)

    def test_bf16_and_shards(self):
        self.compare(FAMILIES["llama"], dtype="bf16", max_shard_bytes=20000)

    def test_the_tokenizer_is_the_same(self):
        tokenizer = dllm.Tokenizer.train(dllm.Dataset.of(SENTENCES), vocab_size=300)
        model = dllm.Model.new(dict(SHAPE, model_type="llama", vocab_size=len(tokenizer)))
        model.set_tokenizer(tokenizer)
        with tempfile.TemporaryDirectory() as root:
            folder = os.path.join(root, "model")
            model.save(folder)
            tokenizer = dllm.Tokenizer(folder, parse_special=True)
            theirs = transformers.AutoTokenizer.from_pretrained(folder)
        for text in (SENTENCES[3], "Ünïcode, 12345 — tabs\tand  spaces\n", "<|mask|> in the middle <|mask|>"):
            own = tokenizer.encode(text)
            self.assertEqual(list(own), theirs(text)["input_ids"], text)
            self.assertEqual(tokenizer.decode(own), theirs.decode(own), text)


if __name__ == "__main__":
    unittest.main()
