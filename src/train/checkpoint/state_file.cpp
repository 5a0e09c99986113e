#include "train/checkpoint/state_file.h"

#include "base/error.h"
#include "base/files.h"
#include "ckpt/checkpoint/state_files.h"
#include "ckpt/safetensors/safetensors.h"
#include "ckpt/safetensors/safetensors_writer.h"
#include "model/params/stack_part.h"
#include "train/offload/offloaded_buffer.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <utility>

namespace dllm::train {
namespace {

constexpr const char* kOtherState =
    "give freeze and ema the values that the run had when it saved the checkpoint";

bool is_saved(const StateEntry& entry, bool with_sums) {
  return entry.use != StateUse::sum || with_sums;
}

const ckpt::SafetensorsFile& file_of(const ckpt::StateFiles& files, const std::string& name) {
  if (const ckpt::SafetensorsFile* found = files.find(name)) return *found;
  fail_with_hint(kOtherState, Code::failed_precondition,
                 "the checkpoint has no {}, which this trainer needs", name);
}

void check_state_tensor(const ckpt::StateFiles& files, const StateTensor& tensor) {
  const ckpt::TensorInfo& info = file_of(files, tensor.name).info(tensor.name);
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

StateSnapshot snapshot_state(const Trainer& trainer, model::SnapshotMode mode,
                             model::WriterShares& shares, const Task* task, CopyPool* pool) {
  StateSnapshot made;
  const bool with_sums = trainer.sums().batches > 0;
  graph::Engine& engine = trainer.engine();
  made.process = engine.process();
  made.writers = shares.writers();
  made.tensors = state_tensors(trainer.spec(), with_sums);
  made.entries = trainer.spec().state;
  made.buffers.resize(made.entries.size());
  made.copies.resize(made.entries.size());
  std::vector<std::vector<int64_t>> writers(made.entries.size());
  for (size_t i = 0; i < made.entries.size(); ++i) {
    if (!is_saved(made.entries[i], with_sums)) continue;
    const graph::BufferRef& buffer = trainer.arrays()[i];
    if (engine.processes() > 1) {
      writers[i] = shares.writers_of(made.entries[i].layout);
      made.copies[i] = model::read_dealt_copies(*buffer, engine, writers[i], task, pool);
    } else if (mode == model::SnapshotMode::copied) {
      made.copies[i] = {model::read_copy(*buffer, engine, task, pool)};
    } else {
      made.buffers[i] = buffer;
    }
  }
  for (StateTensor& tensor : made.tensors) {
    if (!writers[tensor.entry].empty())
      tensor.writer = writers[tensor.entry][static_cast<size_t>(tensor.layer)];
  }
  return made;
}

namespace {

// Writes a tensor of an array that a scratch store holds. Only a piece of it is in memory at a
// time, or one matrix that the file has transposed.
void write_stored(ckpt::SafetensorsWriter& writer, const OffloadedBuffer& array,
                  const StateTensor& tensor, const model::ParamSpec& layout, const Task* task) {
  constexpr int64_t kPiece = int64_t{1} << 20; // numbers
  const model::ParamPiece& piece = layout.pieces[tensor.piece];
  const int64_t begin = model::piece_begin(layout, tensor.piece, tensor.layer);
  if (piece.transpose) {
    model::ParamSpec one = layout;
    one.layers = 0;
    one.element = layout.element.with_dim(0, piece.rows);
    one.pieces = {piece};
    Tensor stored(DType::f32, one.element);
    array.read_numbers(begin, stored.mutable_as<float>());
    return writer.write(tensor.name, model::read_piece(one, 0, 0, stored, task), task);
  }
  const int64_t count = tensor.shape.count();
  std::vector<float> numbers(static_cast<size_t>(std::min(kPiece, count)));
  for (int64_t at = 0; at < count; at += kPiece) {
    const std::span<float> next(numbers.data(), static_cast<size_t>(std::min(kPiece, count - at)));
    array.read_numbers(begin + at, next);
    writer.write_part(tensor.name, std::as_bytes(next), task);
  }
}

} // namespace

void write_state(StateSnapshot& snapshot, const std::string& path, Task* task) {
  std::map<std::string, StateTensor> by_name;
  std::vector<ckpt::TensorSpec> specs;
  for (const StateTensor& tensor : snapshot.tensors) {
    if (tensor.writer != snapshot.process) continue;
    specs.push_back({tensor.name, DType::f32, tensor.shape});
    by_name[tensor.name] = tensor;
  }
  ckpt::SafetensorsWriter writer(path, specs);
  // Each stack is read once. In the file the tensors of a name are consecutive, but the tensors of
  // a stack are not. So the host holds the stacks of one name.
  std::map<size_t, std::vector<Tensor>> stacks; // by entry
  std::string name;
  for (const ckpt::TensorSpec& next : writer.order()) {
    check_task(task);
    const StateTensor& tensor = by_name.at(next.name);
    const StateEntry& entry = snapshot.entries[tensor.entry];
    const graph::BufferRef& array = snapshot.buffers[tensor.entry];
    if (const auto* stored = dynamic_cast<const OffloadedBuffer*>(array.get())) {
      write_stored(writer, *stored, tensor, entry.layout, task);
      continue;
    }
    if (entry.name != name) stacks.clear();
    name = entry.name;
    std::vector<Tensor>& parts = stacks[tensor.entry]; // all of the stack, or its layers
    if (parts.empty()) {
      if (array == nullptr)
        parts = std::exchange(snapshot.copies[tensor.entry], {});
      else
        parts = {array->read(task)};
    }
    const Tensor& part = parts.size() == 1 ? parts[0] : parts[static_cast<size_t>(tensor.layer)];
    writer.write(next.name,
                 model::read_piece_of(entry.layout, tensor.piece, tensor.layer, part, task), task);
  }
  writer.close();
}

namespace {

constexpr const char* kObjectiveFile = "state/objective.safetensors";

} // namespace

void write_objective_state(const noise::StateArrays& state, const std::string& checkpoint) {
  if (state.empty()) return;
  ckpt::write_safetensors(join_path(checkpoint, kObjectiveFile), {state.begin(), state.end()});
}

noise::StateArrays read_objective_state(const noise::Objective& objective,
                                        const std::string& checkpoint) {
  const noise::StateArrays expected = objective.first_state();
  noise::StateArrays read;
  const std::string path = join_path(checkpoint, kObjectiveFile);
  if (file_exists(path)) {
    const ckpt::SafetensorsFile file(open_content(path), kObjectiveFile);
    for (const auto& [name, info] : file.tensors()) read[name] = file.tensor(name).clone();
  }
  noise::check_state(objective.name(), read, expected);
  return read;
}

std::string layout_text(const StateSnapshot& snapshot) {
  Json tensors = Json::object();
  for (const StateTensor& tensor : snapshot.tensors) {
    tensors[tensor.name] = {
        {"shape", tensor.shape.dims()},
        {"slices", {{{"rank", tensor.writer}, {"begin", 0}, {"end", tensor.shape.dim(0)}}}}};
  }
  return Json{{"format", 1},
              {"ranks", snapshot.writers},
              {"axes", Json::object()},
              {"tensors", tensors}}
             .dump(1) +
         "\n";
}

std::vector<graph::BufferRef> read_state(const Trainer& trainer, const std::string& checkpoint,
                                         bool with_sums, const Task* task) {
  const ckpt::StateFiles files(checkpoint);
  const std::vector<StateTensor> expected = state_tensors(trainer.spec(), with_sums);
  for (const StateTensor& tensor : expected) check_state_tensor(files, tensor);
  if (files.count() != expected.size()) {
    fail_with_hint(kOtherState, Code::failed_precondition,
                   "the checkpoint has {} tensors of state, this trainer {}", files.count(),
                   expected.size());
  }
  std::vector<graph::BufferRef> arrays;
  const ProgramSpec& spec = trainer.spec();
  std::vector<std::shared_ptr<OffloadedBuffer>> offloaded(spec.state.size());
  if (spec.offloads()) offloaded = TrainerArrays::offloaded(spec, with_sums);
  for (const StateEntry& entry : spec.state) {
    const std::shared_ptr<OffloadedBuffer>& home = offloaded[arrays.size()];
    arrays.push_back(nullptr);
    if (!is_saved(entry, with_sums)) continue;
    check_task(task);
    const auto read = [&](const std::string& name, const Box& box) {
      const std::string saved = entry.name + "." + name;
      return file_of(files, saved).part_copy(saved, box, task);
    };
    if (home == nullptr) {
      arrays.back() = model::upload_joined(trainer.engine(), entry.layout, read, task);
      continue;
    }
    home->assign(model::joined_part(trainer.engine(), entry.layout, read, task));
    arrays.back() = home;
  }
  return arrays;
}

} // namespace dllm::train
