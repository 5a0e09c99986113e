#include "train/state.h"

#include "base/error.h"
#include "base/files.h"
#include "ckpt/safetensors.h"
#include "ckpt/safetensors_writer.h"

#include <nlohmann/json.hpp>

#include <map>
#include <utility>

namespace dllm::train {
namespace {

bool is_saved(const StateEntry& entry, bool with_sums) {
  return entry.use != StateUse::sum || with_sums;
}

void check_state_tensor(const ckpt::SafetensorsFile& file, const StateTensor& tensor) {
  if (!file.has(tensor.name)) {
    fail_with_hint("were other tensors frozen, or was ema set otherwise?",
                   Code::failed_precondition, "the checkpoint has no {}, which this trainer needs",
                   tensor.name);
  }
  const ckpt::TensorInfo& info = file.info(tensor.name);
  if (info.shape != tensor.shape || info.dtype != DType::f32) {
    fail(Code::failed_precondition, "{} is {}{} in the checkpoint, expected f32{}", tensor.name,
         info.type, info.shape.text(), tensor.shape.text());
  }
}

} // namespace

std::vector<StateTensor> state_tensors(const ProgramSpec& spec, bool with_sums) {
  std::vector<StateTensor> made;
  for (size_t i = 0; i < spec.state.size(); ++i) {
    const StateEntry& entry = spec.state[i];
    if (!is_saved(entry, with_sums)) continue;
    const model::ParamSpec& layout = entry.layout;
    for (int64_t layer = 0; layer < layout.copies(); ++layer) {
      for (size_t piece = 0; piece < layout.pieces.size(); ++piece) {
        made.push_back({entry.name + "." + layout.logical_name(layout.pieces[piece], layer), i,
                        piece, layer, layout.logical_shape(layout.pieces[piece])});
      }
    }
  }
  return made;
}

StateSnapshot snapshot_state(const StepRunner& runner, model::SnapshotMode mode, const Task* task) {
  StateSnapshot made;
  const bool with_sums = runner.accumulated().batches > 0;
  made.tensors = state_tensors(runner.spec(), with_sums);
  made.entries = runner.spec().state;
  made.buffers.resize(made.entries.size());
  made.copies.resize(made.entries.size());
  for (size_t i = 0; i < made.entries.size(); ++i) {
    if (!is_saved(made.entries[i], with_sums)) continue;
    const graph::BufferRef& buffer = runner.arrays()[i];
    if (mode == model::SnapshotMode::copied)
      made.copies[i] = model::read_copy(*buffer, runner.engine(), task);
    else
      made.buffers[i] = buffer;
  }
  return made;
}

void write_state(StateSnapshot& snapshot, const std::string& path, Task* task) {
  std::map<std::string, StateTensor> by_name;
  std::vector<ckpt::TensorSpec> specs;
  for (const StateTensor& tensor : snapshot.tensors) {
    specs.push_back({tensor.name, DType::f32, tensor.shape});
    by_name[tensor.name] = tensor;
  }
  ckpt::SafetensorsWriter writer(path, specs);
  // Each stack is read once: the tensors of a name stand together in the file, those of a stack do not, so the host
  // holds the stacks of one name.
  std::map<size_t, Tensor> stacks; // by entry
  std::string name;
  for (const ckpt::TensorSpec& next : writer.order()) {
    check_task(task);
    const StateTensor& tensor = by_name.at(next.name);
    const StateEntry& entry = snapshot.entries[tensor.entry];
    if (entry.name != name) stacks.clear();
    name = entry.name;
    Tensor& stack = stacks[tensor.entry];
    if (!stack.defined()) {
      const graph::BufferRef& buffer = snapshot.buffers[tensor.entry];
      stack = buffer == nullptr ? std::exchange(snapshot.copies[tensor.entry], Tensor())
                                : buffer->read(task);
    }
    writer.write(next.name,
                 model::read_piece(entry.layout, tensor.piece, tensor.layer, stack, task), task);
  }
  writer.close();
}

std::string layout_text(const StateSnapshot& snapshot) {
  Json tensors = Json::object();
  for (const StateTensor& tensor : snapshot.tensors) {
    tensors[tensor.name] = {
        {"shape", tensor.shape.dims()},
        {"slices", {{{"rank", 0}, {"begin", 0}, {"end", tensor.shape.dim(0)}}}}};
  }
  return Json{{"format", 1}, {"ranks", 1}, {"axes", Json::object()}, {"tensors", tensors}}.dump(1) +
         "\n";
}

std::vector<graph::BufferRef> read_state(const StepRunner& runner, const std::string& path,
                                         bool with_sums, const Task* task) {
  const ckpt::SafetensorsFile file(open_content(path), file_name(path));
  const std::vector<StateTensor> expected = state_tensors(runner.spec(), with_sums);
  for (const StateTensor& tensor : expected) check_state_tensor(file, tensor);
  if (file.tensors().size() != expected.size()) {
    fail_with_hint("were other tensors frozen, or was ema set otherwise?",
                   Code::failed_precondition,
                   "the checkpoint has {} tensors of state, this trainer {}", file.tensors().size(),
                   expected.size());
  }
  std::vector<graph::BufferRef> arrays;
  for (const StateEntry& entry : runner.spec().state) {
    arrays.push_back(nullptr);
    if (!is_saved(entry, with_sums)) continue;
    check_task(task);
    const auto read = [&](const std::string& name) {
      return file.tensor_copy(entry.name + "." + name, task);
    };
    arrays.back() = runner.engine().upload_cut(
        model::join_logical(entry.layout, DType::f32, read, task), false, entry.layout.layout());
  }
  return arrays;
}

} // namespace dllm::train
