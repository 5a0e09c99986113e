// Reads the moving averages that a trainer keeps in a checkpoint, in place of the weights.

#include "base/error.h"
#include "ckpt/checkpoint/state_files.h"
#include "model/files/weights.h"
#include "model/params/part.h"

#include <fmt/core.h>

#include <set>

namespace dllm::model {
namespace {

class AveragedWeights final : public WeightSource {
public:
  AveragedWeights(std::unique_ptr<WeightSource> weights, const std::string& checkpoint,
                  const std::string& network)
      : weights_(std::move(weights)), state_(checkpoint), checkpoint_(checkpoint),
        network_(network) {}

  // Fails for averages of adapters and of tensors that the network lacks: only a part of the
  // averages would be read.
  void check(const std::vector<ParamSpec>& specs) const override {
    weights_->check(specs);
    std::map<std::string, Shape> known;
    for (const ParamSpec& spec : specs) {
      for (int64_t layer = 0; layer < spec.copies(); ++layer) {
        for (const ParamPiece& piece : spec.pieces)
          known[qualified_name(network_, spec.file_name(piece, layer))] = spec.logical_shape(piece);
      }
    }
    const std::string prefix = std::string(ckpt::kAverage) + ".";
    bool has_any = false;
    for (const auto& [name, file] : state_.tensors()) {
      if (!name.starts_with(prefix)) continue;
      has_any = true;
      const std::string own = name.substr(prefix.size()), part = split_name(own).first;
      if (part != network_ && !part.starts_with(kAdapterPart)) continue; // of another network
      const auto found = known.find(own);
      if (found == known.end()) {
        fail_with_hint(
            "load the weights, or average a run that trains all weights", Code::unimplemented,
            "{} has moving averages of an adapter, {}, and only averages of networks are "
            "read",
            checkpoint_, name);
      }
      const ckpt::TensorInfo& info = file->info(name);
      if (info.shape == found->second && info.dtype == DType::f32) continue;
      fail(Code::data_loss, "{}: {} is {}{}, expected F32{}", checkpoint_, name, info.type,
           info.shape.text(), found->second.text());
    }
    if (has_any) return;
    fail_with_hint("train with ema = 0.999", Code::failed_precondition,
                   "{} has no moving averages of the weights", checkpoint_);
  }

  bool has(const std::string& logical) const override { return weights_->has(logical); }
  Shape shape(const std::string& logical) const override { return weights_->shape(logical); }
  DType dtype(const std::string& logical) const override {
    return file_of(logical) != nullptr ? DType::f32 : weights_->dtype(logical);
  }
  bool quantized() const override { return weights_->quantized(); }
  int64_t file_bytes(const std::string& logical) const override {
    const ckpt::SafetensorsFile* file = file_of(logical);
    if (file == nullptr) return weights_->file_bytes(logical);
    const ckpt::TensorInfo& info = file->info(average_of(logical));
    return info.end - info.begin;
  }
  Tensor read(const std::string& logical, const Task* task) const override {
    const ckpt::SafetensorsFile* file = file_of(logical);
    if (file == nullptr) return weights_->read(logical, task);
    const std::string name = average_of(logical);
    return task == nullptr ? file->tensor(name) : file->tensor_copy(name, task);
  }
  Tensor read_part(const std::string& logical, const Box& box, const Task* task) const override {
    const ckpt::SafetensorsFile* file = file_of(logical);
    return file == nullptr ? weights_->read_part(logical, box, task)
                           : file->part_copy(average_of(logical), box, task);
  }
  Tensor read_part_to(const std::string& logical, const Box& box, std::byte* to,
                      const Task* task) const override {
    const ckpt::SafetensorsFile* file = file_of(logical);
    return file == nullptr ? weights_->read_part_to(logical, box, to, task)
                           : file->part_to(average_of(logical), box, to, task);
  }
  const WeightFormat* format(const std::string& logical) const override {
    return file_of(logical) == nullptr ? weights_->format(logical)
                                       : find_weight_format(dtype_name(DType::f32));
  }
  Tensor read_blocks(const std::string& logical, const Box& box, std::byte* to,
                     const Task* task) const override {
    return weights_->read_blocks(logical, box, to, task); // averages are f32
  }
  ScaledRows read_rows(const std::string& logical, const Box& box,
                       const Task* task) const override {
    return weights_->read_rows(logical, box, task); // averages are f32
  }

private:
  std::string average_of(const std::string& logical) const {
    return fmt::format("{}.{}", ckpt::kAverage, qualified_name(network_, logical));
  }
  // Returns the file of the average of a tensor; null for one that was not trained.
  const ckpt::SafetensorsFile* file_of(const std::string& logical) const {
    return state_.find(average_of(logical));
  }

  std::unique_ptr<WeightSource> weights_;
  ckpt::StateFiles state_;
  std::string checkpoint_, network_;
};

} // namespace

OptionSpec weights_option() {
  return option_choice("weights", "live", {"live", "ema"},
                       "ema: the moving averages of the weights that a run with option ema keeps "
                       "in its checkpoints.");
}

std::unique_ptr<WeightSource> chosen_weights(const std::string& choice,
                                             std::unique_ptr<WeightSource> weights,
                                             const std::string& checkpoint,
                                             const std::string& network) {
  if (choice == "live") return weights;
  if (checkpoint.empty()) {
    fail_with_hint("load a run or a checkpoint", Code::failed_precondition,
                   "the path names no checkpoint, and only a checkpoint has moving averages");
  }
  return std::make_unique<AveragedWeights>(std::move(weights), checkpoint, network);
}

} // namespace dllm::model
