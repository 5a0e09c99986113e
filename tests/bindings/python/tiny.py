"""A model, a tokenizer and text small enough for every test."""
import dllm

SENTENCES = [f"the cat sat on the mat and looked at the moon number {i % 7}" for i in range(200)]


class Tiny:
    """Owns one of everything; training continues on the same model."""

    def __init__(self, layers=2):
        self.engine = dllm.Engine(threads=2)
        self.tokenizer = dllm.Tokenizer.train(dllm.Dataset.of(SENTENCES), vocab_size=300)
        self.data = dllm.Dataset.of(SENTENCES, self.tokenizer)
        self.loader = dllm.Loader(self.data, batch=4, length=32, epochs=0)
        self.model = dllm.Model.new(self.config(layers), self.engine)

    def config(self, layers=2):
        return {
            "model_type": "llama", "vocab_size": len(self.tokenizer), "hidden_size": 64,
            "intermediate_size": 128, "num_hidden_layers": layers, "num_attention_heads": 2,
            "num_key_value_heads": 2, "max_position_embeddings": 64, "tie_word_embeddings": True,
            "dllm": {"attention": "bidirectional", "shift": 0,
                     "mask_token_id": self.tokenizer.id("<|mask|>")},
        }
