#include "model/network/edit_heads.h"

#include "base/error.h"
#include "graph/ops.h"
#include "model/families/family.h"

#include <algorithm>
#include <map>
#include <utility>

namespace dllm::model {
namespace {

const HeadConfig* find_head(const ModelConfig& config, const char* name) {
  const auto found = std::ranges::find(config.other_heads, name, &HeadConfig::name);
  return found == config.other_heads.end() ? nullptr : &*found;
}

bool is_edit_head(const std::string& parameter) {
  for (const char* name : {kSubstituteHead, kInsertHead, kRateHead}) {
    const std::string weight = std::string("heads.") + name;
    if (parameter == weight || parameter == weight + ".bias") return true;
  }
  return false;
}

// Reads a file without edit heads as if it had them.
class FirstEditHeads final : public WeightSource {
public:
  FirstEditHeads(std::unique_ptr<WeightSource> file, const ModelConfig& config, uint64_t seed)
      : file_(std::move(file)), config_(config), seed_(seed) {
    const std::vector<ParamSpec> specs = find_family(config_.family).params(config_);
    const std::string own = config_.tie_embeddings ? "embedding" : "head";
    const auto head = std::ranges::find(specs, own, &ParamSpec::name);
    for (const ParamSpec& spec : specs) {
      if (!is_edit_head(spec.name)) continue;
      const ParamPiece& piece = spec.pieces.at(0);
      const bool copies = head != specs.end() && head->shape() == spec.shape() &&
                          head->pieces.at(0).transpose == piece.transpose;
      if (copies)
        copied_[piece.logical] = head->pieces[0].logical;
      else
        drawn_[piece.logical] = spec;
    }
  }

  void check(const std::vector<ParamSpec>& specs) const override {
    std::vector<ParamSpec> in_file;
    for (const ParamSpec& spec : specs) {
      if (!is_edit_head(spec.name)) in_file.push_back(spec);
    }
    file_->check(in_file);
  }
  DType dtype(const std::string& logical) const override {
    return drawn_.contains(logical) ? DType::f32 : file_->dtype(name(logical));
  }
  bool quantized() const override { return file_->quantized(); }
  int64_t file_bytes(const std::string& logical) const override {
    return drawn_.contains(logical) ? 0 : file_->file_bytes(name(logical));
  }
  Tensor read(const std::string& logical, const Task* task) const override {
    const auto drawn = drawn_.find(logical);
    if (drawn == drawn_.end()) return file_->read(name(logical), task);
    const Shape shape = drawn->second.logical_shape(drawn->second.pieces[0]);
    return first_values(drawn->second, logical, shape, Box::whole(shape), config_, seed_, task);
  }
  Tensor read_part(const std::string& logical, const Box& box, const Task* task) const override {
    const auto drawn = drawn_.find(logical);
    if (drawn == drawn_.end()) return file_->read_part(name(logical), box, task);
    const ParamSpec& spec = drawn->second;
    return first_values(spec, logical, spec.logical_shape(spec.pieces[0]), box, config_, seed_,
                        task);
  }
  Tensor read_part_to(const std::string& logical, const Box& box, std::byte* to,
                      const Task* task) const override {
    if (!drawn_.contains(logical)) return file_->read_part_to(name(logical), box, to, task);
    const Tensor values = read_part(logical, box, task);
    std::ranges::copy(std::as_bytes(values.as<float>()), to);
    return values;
  }
  const WeightFormat* format(const std::string& logical) const override {
    return drawn_.contains(logical) ? &weight_format(DType::f32) : file_->format(name(logical));
  }
  Tensor read_blocks(const std::string& logical, const Box& box, std::byte* to,
                     const Task* task) const override {
    return file_->read_blocks(name(logical), box, to, task);
  }
  ScaledRows read_rows(const std::string& logical, const Box& box,
                       const Task* task) const override {
    return file_->read_rows(name(logical), box, task);
  }

private:
  const std::string& name(const std::string& logical) const {
    const auto found = copied_.find(logical);
    return found == copied_.end() ? logical : found->second;
  }

  std::unique_ptr<WeightSource> file_;
  ModelConfig config_;
  uint64_t seed_;
  // For each tensor, the tensor of the model's own head that it copies.
  std::map<std::string, std::string> copied_;
  std::map<std::string, ParamSpec> drawn_;
};

} // namespace

bool has_edit_heads(const ModelConfig& config) {
  return find_head(config, kSubstituteHead) != nullptr &&
         find_head(config, kInsertHead) != nullptr && find_head(config, kRateHead) != nullptr;
}

void add_edit_heads(ModelConfig& config, const char* rate_file) {
  const auto add = [&](const char* name, int64_t rows, bool bias, const char* file) {
    if (find_head(config, name) == nullptr)
      config.other_heads.push_back({name, rows, std::string("heads.") + name, 0, bias, file});
  };
  add(kSubstituteHead, config.vocab_size, false, "sub_logits");
  add(kInsertHead, config.vocab_size, false, "ins_logits");
  add(kRateHead, kEditRates, true, rate_file);
}

void need_edit_heads(const ModelConfig& config, const char* what) {
  if (!has_edit_heads(config)) {
    fail_with_hint("load or create the model with heads = edit (--model.heads edit)",
                   Code::failed_precondition,
                   "{} needs heads that insert and delete; the model "
                   "has none",
                   what);
  }
  const int64_t rates = find_head(config, kRateHead)->rows;
  for (const char* name : {kSubstituteHead, kInsertHead}) {
    if (find_head(config, name)->rows == config.vocab_size && rates == kEditRates) continue;
    fail(Code::invalid_argument, "head {} has {} rows and head rate {}, expected {} and {}", name,
         find_head(config, name)->rows, rates, config.vocab_size, kEditRates);
  }
}

std::unique_ptr<WeightSource> find_edit_heads(std::unique_ptr<WeightSource> source,
                                              ModelConfig& config, bool wanted, uint64_t seed) {
  if (source->has("sub_logits.weight")) {
    add_edit_heads(config, source->has("rate_heads.weight") ? "rate_heads" : "rate_heads.0");
    return source;
  }
  if (!wanted || has_edit_heads(config)) return source;
  add_edit_heads(config);
  return std::make_unique<FirstEditHeads>(std::move(source), config, seed);
}

graph::Value edit_rates(Builder& builder, graph::Value hidden) {
  return graph::softplus(product(builder.head(kRateHead), hidden));
}

} // namespace dllm::model
