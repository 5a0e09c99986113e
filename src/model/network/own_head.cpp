// Finds a head in a file whose config ties head and table. Fine-tuning with a trained head writes
// such files.

#include "base/error.h"
#include "base/log.h"
#include "model/families/family.h"
#include "model/files/weights.h"

#include <algorithm>
#include <cstring>

namespace dllm::model {
namespace {

// Returns the tensor of a stack that is one matrix of the whole model; "": the family has none.
std::string tensor_of(const std::vector<ParamSpec>& specs, const char* stack) {
  const auto found = std::ranges::find(specs, stack, &ParamSpec::name);
  return found == specs.end() ? std::string() : found->logical_name(found->pieces.front(), 0);
}

bool same_numbers(const WeightSource& weights, const std::string& a, const std::string& b,
                  const Shape& shape, const Task* task) {
  // Numbers that are compared at one time. Most heads differ in their first rows.
  constexpr int64_t kNumbers = int64_t{1} << 20;
  const int64_t rows = shape[0], step = std::max<int64_t>(1, kNumbers / shape[1]);
  for (int64_t row = 0; row < rows; row += step) {
    check_task(task);
    const Box box{{row, 0}, {std::min(step, rows - row), shape[1]}};
    const Tensor left = weights.read_part(a, box, task).to(DType::f32),
                 right = weights.read_part(b, box, task).to(DType::f32);
    if (std::memcmp(left.bytes(), right.bytes(), static_cast<size_t>(left.byte_size())) != 0)
      return false;
  }
  return true;
}

} // namespace

std::string own_head_name(const ModelConfig& config) {
  if (!config.tie_embeddings) return {};
  ModelConfig untied = config;
  untied.tie_embeddings = false;
  return tensor_of(find_family(config.family).params(untied), "head");
}

void untie_own_head(ModelConfig& config, const WeightSource& weights, const std::string& file,
                    const Task* task) {
  const std::string head = own_head_name(config);
  if (head.empty() || !weights.has(head)) return;
  const std::string table = tensor_of(find_family(config.family).params(config), "embedding");
  const Shape shape{config.vocab_size, config.hidden_size};
  const bool comparable = weights.has(table) && weights.shape(table) == shape;
  if (!comparable) return; // WeightSource::check reports the table
  if (weights.shape(head) == shape && same_numbers(weights, head, table, shape, task)) return;
  log(LogLevel::warn,
      "{}: {} differs from {}: the head of the file is used, although the config ties the two",
      file, head, table);
  config.tie_embeddings = false;
}

} // namespace dllm::model
