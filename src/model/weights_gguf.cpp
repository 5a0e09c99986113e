#include "base/error.h"
#include "model/weights.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace dllm::model {
namespace {

struct NamePair {
  std::string_view file;    // after "blk.<layer>." or whole
  std::string_view logical; // after "model.layers.<layer>." or whole
};

// gguf-py, tensor_mapping.py: the names of the llama, qwen2 and qwen3 architectures.
constexpr NamePair kLayerNames[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};
constexpr NamePair kNames[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
};

bool is_float_type(uint32_t type) {
  const auto ggml = static_cast<ckpt::GgmlType>(type);
  return ggml == ckpt::GgmlType::f32 || ggml == ckpt::GgmlType::f16 ||
         ggml == ckpt::GgmlType::bf16 || ggml == ckpt::GgmlType::f64;
}

// ggml turns neighbouring pairs, Hugging Face halves: row (head, i, j) of the file is row (head, j,
// i) of dllm's, i < dim / 2, j < 2.
Tensor halves_from_pairs(const Tensor& pairs, int64_t head_dim) {
  Tensor halves(pairs.dtype(), pairs.shape());
  const int64_t rows = pairs.shape()[0];
  const int64_t size = pairs.byte_size() / rows;
  std::byte* to = halves.mutable_bytes();
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t head = row / head_dim, within = row % head_dim, i = within / 2, j = within % 2;
    std::memcpy(to + (head * head_dim + j * (head_dim / 2) + i) * size, pairs.bytes() + row * size,
                static_cast<size_t>(size));
  }
  return halves;
}

class GgufWeights final : public WeightSource {
public:
  GgufWeights(std::shared_ptr<const ckpt::GgufFile> file, const ModelConfig& config)
      : file_(std::move(file)), head_dim_(config.head_dim), tied_(config.tie_embeddings),
        pairs_(config.family == "llama") {}

  void check(const std::vector<ParamSpec>& specs) const override {
    std::set<std::string> known = {"rope_freqs.weight"}; // read with the config
    if (tied_) known.insert("output.weight");
    for (const ParamSpec& spec : specs) {
      for (int64_t layer = 0; layer < spec.copies(); ++layer) {
        for (const ParamPiece& piece : spec.pieces) {
          known.insert(check_tensor(spec.logical_name(piece, layer), spec.logical_shape(piece)));
        }
      }
    }
    for (const auto& [name, info] : file_->tensors()) {
      if (known.contains(name)) continue;
      fail_with_hint("it may be another architecture under a known name", Code::data_loss,
                     "{}: unexpected tensor {} {}", file_->name(), name, info.shape.text());
    }
  }

  DType dtype(const std::string& logical) const override {
    switch (static_cast<ckpt::GgmlType>(info(logical).type)) {
    case ckpt::GgmlType::f16: return DType::f16;
    case ckpt::GgmlType::bf16: return DType::bf16;
    default: return DType::f32;
    }
  }

  bool quantized() const override {
    return std::any_of(file_->tensors().begin(), file_->tensors().end(),
                       [](const auto& entry) { return !is_float_type(entry.second.type); });
  }

  int64_t file_bytes(const std::string& logical) const override {
    return info(logical).end - info(logical).begin;
  }

  Tensor read(const std::string& logical, const Task* task) const override {
    const Tensor tensor = read_rows(gguf_name(logical), task);
    return turns(logical) ? halves_from_pairs(tensor, head_dim_) : tensor;
  }

  Tensor read_to(const std::string& logical, std::byte* to, const Task* task) const override {
    const Tensor tensor = read(logical, task).to(dtype(logical), task);
    const auto size = static_cast<size_t>(tensor.byte_size());
    copy_in_pieces(to, tensor.bytes(), tensor.byte_size(), task);
    return Tensor(tensor.dtype(), tensor.shape(), Bytes(to, size, nullptr));
  }

  const WeightFormat* format(const std::string& logical) const override {
    const uint32_t type = info(logical).type;
    if (is_float_type(type)) return WeightSource::format(logical);
    return type == static_cast<uint32_t>(ckpt::GgmlType::q8_0) ? &weight_format("q8_0") : nullptr;
  }

  Tensor read_blocks(const std::string& logical, const Shape& shape, std::byte* to,
                     const Task* task) const override {
    const WeightFormat& own = *format(logical);
    Tensor blocks(DType::u8, stored_shape(own, shape),
                  Bytes(to, static_cast<size_t>(file_bytes(logical)), nullptr));
    file_->read_stored(gguf_name(logical), to, task);
    if (turns(logical)) {
      const Tensor halves = halves_from_pairs(blocks, head_dim_); // rows are whole blocks
      copy_in_pieces(to, halves.bytes(), halves.byte_size(), task);
    }
    blocks.set_format(&own);
    return blocks;
  }

private:
  bool turns(const std::string& logical) const {
    return pairs_ && (logical.find(".q_proj.") != std::string::npos ||
                      logical.find(".k_proj.") != std::string::npos);
  }
  // Block formats become f32 some rows at a time.
  Tensor read_rows(const std::string& name, const Task* task) const {
    const ckpt::GgufTensor& found = file_->tensor_info(name);
    const ckpt::GgmlTypeInfo* type = ckpt::ggml_type_info(found.type);
    if (type == nullptr || type->block == 1) return file_->tensor(name);
    Tensor numbers(DType::f32, found.shape);
    const int64_t row = found.shape.rank() > 0 ? found.shape.dim(-1) : 1;
    const auto to = numbers.mutable_as<float>();
    in_pieces(row > 0 ? found.shape.count() / row : 0, std::max<int64_t>(1, kPiece / row), task,
              [&](int64_t begin, int64_t end) {
                file_->dequantize(name,
                                  to.subspan(static_cast<size_t>(begin * row),
                                             static_cast<size_t>((end - begin) * row)),
                                  begin, end);
              });
    return numbers;
  }
  static constexpr int64_t kPiece = int64_t{1} << 18; // numbers

  const ckpt::GgufTensor& info(const std::string& logical) const {
    return file_->tensor_info(gguf_name(logical));
  }

  std::string check_tensor(const std::string& logical, const Shape& expected) const {
    const std::string name = gguf_name(logical);
    if (name.empty() || !file_->has_tensor(name)) {
      fail(Code::data_loss, "{}: tensor {} {} is missing", file_->name(),
           name.empty() ? logical : name, expected.text());
    }
    const ckpt::GgufTensor& found = file_->tensor_info(name);
    if (found.shape != expected) {
      fail(Code::data_loss, "{}: tensor {} has shape {}, expected {}", file_->name(), name,
           found.shape.text(), expected.text());
    }
    const ckpt::GgmlTypeInfo* type = ckpt::ggml_type_info(found.type);
    if (type == nullptr || !type->readable) {
      fail(Code::unimplemented, "{}: tensor {} has type {}, which is not supported yet",
           file_->name(), name, found.type_name);
    }
    return name;
  }

  std::shared_ptr<const ckpt::GgufFile> file_;
  int64_t head_dim_;
  bool tied_, pairs_;
};

} // namespace

std::string gguf_name(const std::string& logical) {
  for (const NamePair& pair : kNames) {
    if (pair.logical == logical) return std::string(pair.file);
  }
  constexpr std::string_view kLayers = "model.layers.";
  if (!logical.starts_with(kLayers)) return {};
  const size_t dot = logical.find('.', kLayers.size());
  const size_t last = logical.rfind('.');
  if (dot == std::string::npos || last <= dot) return {};
  const std::string_view middle = std::string_view(logical).substr(dot + 1, last - dot - 1);
  for (const NamePair& pair : kLayerNames) {
    if (pair.logical != middle) continue;
    return "blk." + logical.substr(kLayers.size(), dot - kLayers.size()) + "." +
           std::string(pair.file) + logical.substr(last);
  }
  return {};
}

std::unique_ptr<WeightSource> open_gguf_weights(std::shared_ptr<const ckpt::GgufFile> file,
                                                const ModelConfig& config) {
  return std::make_unique<GgufWeights>(std::move(file), config);
}

} // namespace dllm::model
