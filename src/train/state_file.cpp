#include "train/state_file.h"

#include "base/error.h"
#include "base/files.h"
#include "ckpt/safetensors.h"
#include "ckpt/safetensors_writer.h"

#include <nlohmann/json.hpp>

namespace dllm::train {
namespace {

struct KindEntry {
  const char* prefix;
  graph::BufferRef Slot::*member;
};
constexpr KindEntry kKinds[] = {{"first.", &Slot::first},
                                {"second.", &Slot::second},
                                {"ema.", &Slot::ema},
                                {"sums.", &Slot::sums}};

bool is_kept(const Trainer::State& state, const KindEntry& kind, bool with_sums) {
  if (kind.member == &Slot::ema) return state.spec.ema;
  return kind.member != &Slot::sums || with_sums;
}

const model::ParamSpec& spec_of(const Trainer::State& state, size_t slot) {
  return state.model->params().physical()[state.slots[slot].physical].spec;
}

} // namespace

std::vector<StateTensor> state_tensors(const Trainer::State& state, bool with_sums) {
  std::vector<StateTensor> made;
  for (const KindEntry& kind : kKinds) {
    if (!is_kept(state, kind, with_sums)) continue;
    for (size_t slot = 0; slot < state.slots.size(); ++slot) {
      const model::ParamSpec& spec = spec_of(state, slot);
      for (int64_t layer = 0; layer < spec.copies(); ++layer) {
        for (size_t piece = 0; piece < spec.pieces.size(); ++piece) {
          made.push_back({kind.prefix + spec.logical_name(spec.pieces[piece], layer), slot,
                          kind.member, piece, layer, spec.logical_shape(spec.pieces[piece])});
        }
      }
    }
  }
  return made;
}

void write_state(const Trainer::State& state, const std::string& path, Task* task) {
  std::map<std::string, StateTensor> by_name;
  std::vector<ckpt::TensorSpec> specs;
  for (StateTensor& tensor : state_tensors(state, state.accumulated.batches > 0)) {
    specs.push_back({tensor.name, DType::f32, tensor.shape});
    by_name[tensor.name] = std::move(tensor);
  }
  ckpt::SafetensorsWriter writer(path, specs);
  // Each stack is read once: the tensors of a kind stand together in the file, those of a stack do
  // not, so the host holds the stacks of one kind.
  std::map<size_t, Tensor> stacks; // by slot
  graph::BufferRef Slot::*kind = nullptr;
  for (const ckpt::TensorSpec& next : writer.order()) {
    check_task(task);
    const StateTensor& tensor = by_name.at(next.name);
    if (tensor.kind != kind) stacks.clear();
    kind = tensor.kind;
    Tensor& stack = stacks[tensor.slot];
    if (!stack.defined()) stack = (state.slots[tensor.slot].*kind)->read(task);
    writer.write(next.name,
                 model::read_piece(spec_of(state, tensor.slot), tensor.piece, tensor.layer, stack,
                                   task),
                 task);
  }
  writer.close();
}

std::string layout_text(const Trainer::State& state) {
  Json tensors;
  for (const StateTensor& tensor : state_tensors(state, state.accumulated.batches > 0)) {
    tensors[tensor.name] = {
        {"shape", tensor.shape.dims()},
        {"slices", {{{"rank", 0}, {"begin", 0}, {"end", tensor.shape.dim(0)}}}}};
  }
  return Json{{"format", 1}, {"ranks", 1}, {"axes", Json::object()}, {"tensors", tensors}}.dump(1) +
         "\n";
}

std::vector<Slot> read_state(const Trainer::State& state, const std::string& path, bool with_sums,
                             const Task* task) {
  const ckpt::SafetensorsFile file(open_content(path), file_name(path));
  const std::vector<StateTensor> wanted = state_tensors(state, with_sums);
  for (const StateTensor& tensor : wanted) {
    if (!file.has(tensor.name)) {
      fail_with_hint("were other tensors frozen, or was ema set otherwise?",
                     Code::failed_precondition,
                     "the checkpoint has no {}, which this trainer needs", tensor.name);
    }
    const ckpt::TensorInfo& info = file.info(tensor.name);
    if (info.shape != tensor.shape || info.dtype != DType::f32) {
      fail(Code::failed_precondition, "{} is {}{} in the checkpoint, expected f32{}", tensor.name,
           info.type, info.shape.text(), tensor.shape.text());
    }
  }
  if (file.tensors().size() != wanted.size()) {
    fail_with_hint("were other tensors frozen, or was ema set otherwise?",
                   Code::failed_precondition,
                   "the checkpoint has {} tensors of state, this trainer {}", file.tensors().size(),
                   wanted.size());
  }
  std::vector<Slot> slots = state.slots;
  for (size_t i = 0; i < slots.size(); ++i) {
    for (const KindEntry& kind : kKinds) {
      if (!is_kept(state, kind, with_sums)) continue;
      check_task(task);
      const auto read = [&](const std::string& name) {
        return file.tensor_copy(kind.prefix + name, task);
      };
      slots[i].*kind.member =
          state.engine().upload(model::join_logical(spec_of(state, i), DType::f32, read, task));
    }
    if (!with_sums) slots[i].sums = nullptr;
  }
  return slots;
}

} // namespace dllm::train
