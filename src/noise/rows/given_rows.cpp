#include "noise/rows/given_rows.h"

#include "base/error.h"

#include <algorithm>

namespace dllm::noise {
namespace {

constexpr const char* kEveryObjectiveReads[] = {"ids",    "keep",     "prompt_length",
                                                "labels", "segments", "rows"};
// Arrays that prepare() makes. A caller who gives one of them chooses all of them.
constexpr const char* kMade[] = {"targets", "weights", "normalizer"};
// Arrays of model inputs that are not reserved. Some objectives make their own.
constexpr const char* kModelInputs[] = {"mask", "keys"};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

void need_all_made(const Batch& batch, const GivenRules& rules, std::string_view given) {
  std::vector<std::string> needed{"targets", "weights"};
  needed.insert(needed.end(), rules.prepared.begin(), rules.prepared.end());
  for (const std::string& name : needed) {
    if (batch.has(name)) continue;
    fail_with_hint(
        fmt::format("give {} together, or leave {} out; dllm_objective_prepare makes all of them",
                    joined(needed), given),
        Code::invalid_argument, "the batch has array {} and no array {}: objective {} needs both",
        given, name, rules.objective);
  }
}

void refuse_unread(const GivenRules& rules, std::string_view name) {
  fail_with_hint(fmt::format("leave {} out", name), Code::invalid_argument,
                 "objective {} does not read array {}", rules.objective, name);
}

// Fails where a given token of prepared rows has a target that counts.
void check_given(const Batch& batch) {
  const Tensor* keep = batch.find("keep");
  const Tensor &targets = batch.at("targets"), &weights = batch.at("weights");
  if (keep == nullptr || keep->shape() != targets.shape() || keep->shape() != weights.shape())
    return;
  const Tensor given = keep->to(DType::u8), wanted = targets.to(DType::i32),
               weight = weights.to(DType::f32);
  for (int64_t i = 0; i < given.count(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (given.as<uint8_t>()[at] == 0 || wanted.as<int32_t>()[at] < 0) continue;
    if (weight.as<float>()[at] == 0.0f) continue;
    const std::string place = place_text(given.shape(), i);
    fail_with_hint("set this target to -1, or keep to 0", Code::invalid_argument,
                   "keep{} is 1, and targets{} = {} counts", place, place,
                   wanted.as<int32_t>()[at]);
  }
}

// Returns keep with the first prompt_length tokens of each row.
Tensor keep_with_prompts(const Batch& batch, const Tensor& given) {
  const Shape shape = batch.at("ids").shape();
  if (shape.rank() != 2 || given.shape() != Shape{shape[0]} || is_float(given.dtype())) {
    fail(Code::invalid_argument,
         "array prompt_length is {}{}, expected i32 with a number for each row",
         dtype_name(given.dtype()), given.shape().text());
  }
  const Tensor lengths = given.to(DType::i32);
  check_between("prompt_length", lengths, 0, shape[1], "the length of a row");
  const Tensor* old = batch.find("keep");
  if (old != nullptr && old->shape() != shape) return *old; // the parser names its shape
  Tensor keep = old != nullptr ? old->to(DType::u8).clone() : Tensor(DType::u8, shape);
  const auto seq = static_cast<size_t>(shape[1]);
  for (size_t b = 0; b < static_cast<size_t>(shape[0]); ++b) {
    const auto prompt = static_cast<size_t>(lengths.as<int32_t>()[b]);
    std::ranges::fill(keep.mutable_as<uint8_t>().subspan(b * seq, prompt), uint8_t{1});
  }
  return keep;
}

} // namespace

bool holds_loss_arrays(const Batch& batch, const GivenRules& rules) {
  const auto given = std::ranges::find_if(kMade, [&](const char* name) { return batch.has(name); });
  if (given == std::end(kMade)) return false;
  need_all_made(batch, rules, *given);
  for (const char* name : {"sample", "embeddings", "prompt_length"})
    if (batch.has(name)) refuse_unread(rules, name);
  if (rules.given_is_left_out) check_given(batch);
  return true;
}

Batch raw_rows(const Batch& batch, const GivenRules& rules) {
  const auto is_read = [&](std::string_view name) {
    return std::ranges::find(kEveryObjectiveReads, name) != std::end(kEveryObjectiveReads) ||
           std::ranges::find(rules.raw, name) != rules.raw.end();
  };
  for (const ReservedArray& array : reserved_arrays())
    if (batch.has(array.name) && !is_read(array.name)) refuse_unread(rules, array.name);
  for (const char* name : kModelInputs)
    if (batch.has(name) && !is_read(name)) refuse_unread(rules, name);
  const Tensor* prompts = batch.find("prompt_length");
  if (prompts == nullptr) return batch;
  Batch rows = batch;
  rows.set("keep", keep_with_prompts(batch, *prompts));
  rows.remove("prompt_length");
  return rows;
}

} // namespace dllm::noise
