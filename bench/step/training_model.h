#pragma once
// The model and the batches that benches of training steps share.

#include "tensor/batch.h"

#include <nlohmann/json.hpp>

namespace dllm::bench {

// Sizes of a run. The defaults are what scripts/quickstart trains.
struct TrainingSizes {
  int64_t layers = 4, hidden = 256, heads = 4, inner = 688, vocab = 2048, batch = 16, length = 128;
};

inline Json qwen3_config(const TrainingSizes& sizes) {
  return {{"model_type", "qwen3"},
          {"vocab_size", sizes.vocab},
          {"hidden_size", sizes.hidden},
          {"num_hidden_layers", sizes.layers},
          {"num_attention_heads", sizes.heads},
          {"num_key_value_heads", sizes.heads},
          {"head_dim", sizes.hidden / sizes.heads},
          {"intermediate_size", sizes.inner},
          {"max_position_embeddings", 512},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 10000.0},
          {"tie_word_embeddings", true},
          {"mask_token_id", sizes.vocab - 1}};
}

inline Batch batch_of(const TrainingSizes& sizes, int64_t step) {
  Tensor ids(DType::i32, {sizes.batch, sizes.length});
  for (int64_t i = 0; i < ids.count(); ++i) {
    ids.mutable_as<int32_t>()[static_cast<size_t>(i)] =
        static_cast<int32_t>((i * 7919 + step * 104729) % (sizes.vocab - 1));
  }
  Batch batch;
  batch.set("ids", ids);
  return batch;
}

} // namespace dllm::bench
