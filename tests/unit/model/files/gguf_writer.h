#pragma once
// A model as the bytes of a GGUF file, with matrices in a chosen weight format.

#include "model/files/gguf_names.h"
#include "model/files/weights.h"
#include "model/model.h"
#include "tensor/weight_format.h"
#include "unit/ckpt/gguf_builder.h"

#include <string>
#include <vector>

namespace dllm::test {

// Half-split rows to neighbouring pairs, as the converter of llama.cpp writes q and k of llama.
inline Tensor pairs_from_halves(const Tensor& halves, int64_t head_dim) {
  Tensor pairs(DType::f32, halves.shape());
  const int64_t rows = halves.shape()[0], width = halves.count() / rows;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t head = row / head_dim, half = row % head_dim / (head_dim / 2),
                  i = row % (head_dim / 2);
    std::copy_n(halves.as<float>().begin() + row * width, width,
                pairs.mutable_as<float>().begin() + (head * head_dim + 2 * i + half) * width);
  }
  return pairs;
}

struct WrittenGguf {
  std::string arch;
  int64_t layers = 3;
  std::string extra_tensor;
  const WeightFormat* format = nullptr; // of matrices; null: f32
};

inline std::string gguf_of(const model::Model& model, const WrittenGguf& how) {
  constexpr uint32_t kU32 = 4, kF32 = 6;
  const model::ModelConfig& config = model.config();
  GgufBuilder file;
  const size_t tensors = model.params().names().size() + (how.extra_tensor.empty() ? 0 : 1);
  file.header(tensors, 9);
  file.text_value("general.architecture", how.arch);
  const auto number = [&](const char* key, int64_t value) {
    file.scalar(how.arch + "." + key, kU32, static_cast<uint32_t>(value));
  };
  number("embedding_length", config.hidden_size);
  number("block_count", how.layers);
  number("feed_forward_length", config.intermediate_size);
  number("attention.head_count", config.heads);
  number("attention.head_count_kv", config.kv_heads);
  number("attention.key_length", config.head_dim);
  number("context_length", config.max_positions);
  file.scalar(how.arch + ".attention.layer_norm_rms_epsilon", kF32,
              static_cast<float>(config.norm_eps));

  std::string data;
  const auto put = [&](const std::string& name, const Tensor& tensor) {
    const Shape& shape = tensor.shape();
    if (shape.rank() == 1) {
      file.tensor(name, {static_cast<uint64_t>(shape[0])}, 0, data.size());
    } else {
      const uint32_t type = how.format == nullptr ? 0 : *ckpt::ggml_type_of(*how.format);
      file.tensor(name, {static_cast<uint64_t>(shape[1]), static_cast<uint64_t>(shape[0])}, type,
                  data.size());
    }
    if (shape.rank() == 1 || how.format == nullptr) {
      data.append(reinterpret_cast<const char*>(tensor.bytes()),
                  static_cast<size_t>(tensor.byte_size()));
    } else {
      std::vector<std::byte> row(static_cast<size_t>(how.format->row_bytes(shape[1])));
      for (int64_t r = 0; r < shape[0]; ++r) {
        how.format->quantize(tensor.as<float>().data() + r * shape[1], shape[1], row.data(),
                             nullptr);
        data.append(reinterpret_cast<const char*>(row.data()), row.size());
      }
    }
    data.resize((data.size() + 31) / 32 * 32);
  };
  for (const std::string& name : model.params().names()) {
    Tensor tensor = model.params().read(name);
    const bool turns =
        name.find("q_proj") != std::string::npos || name.find("k_proj") != std::string::npos;
    if (how.arch == "llama" && turns) tensor = pairs_from_halves(tensor, config.head_dim);
    put(model::gguf_place(name, config).name, tensor);
  }
  if (!how.extra_tensor.empty()) put(how.extra_tensor, Tensor(DType::f32, {2}));
  file.align();
  return file.bytes + data;
}

} // namespace dllm::test
