#include "model/save.h"

#include "base/error.h"
#include "base/files.h"
#include "ckpt/checkpoint_folder.h"
#include "ckpt/safetensors_writer.h"
#include "model/param_map.h"

#include <nlohmann/json.hpp>

#include <map>

namespace dllm::model {

// A read of an engine that runs ahead is a transfer, and no other caller has its result.
Tensor read_copy(const graph::Buffer& buffer, const graph::Engine& engine, const Task* task) {
  const Tensor shared = buffer.read_on_first(task);
  if (engine.runs_ahead() || !shared.defined()) return shared;
  Tensor copy(shared.dtype(), shared.shape());
  copy.set_format(shared.format());
  copy_in_pieces(copy.mutable_bytes(), shared.bytes(), shared.byte_size(), task);
  return copy;
}

ModelSnapshot::ModelSnapshot(const Model& model, SnapshotMode mode, const Task* task)
    : config_(model.config_now()), side_files_(model.side_files()), names_(model.params().names()) {
  if (model.params().has_adapters()) {
    fail_with_hint(
        "merge them into the weights first", Code::unimplemented,
        "the model has adapters, which a Hugging Face folder of a whole model does not hold");
  }
  const std::vector<ParamStore::Physical> entries = model.params().entries(task);
  for (size_t i = 0; i < entries.size(); ++i) {
    const ParamStore::Physical& entry = entries[i];
    if (entry.scale_of >= 0) continue;
    check_task(task);
    Stack stack;
    stack.spec = entry.spec;
    stack.is_quantized = entry.is_quantized();
    stack.dtype = stack.is_quantized ? DType::f32 : entry.buffer->dtype();
    stack.left = entry.spec.copies() * static_cast<int64_t>(entry.spec.pieces.size());
    const bool may_change = entry.trainable && !stack.is_quantized;
    if (may_change && mode == SnapshotMode::copied)
      stack.values = read_copy(*entry.buffer, model.engine(), task);
    else if (may_change)
      stack.values = entry.buffer->read(task);
    else
      stack.frozen = entry.buffer;
    if (entry.format->scales == ScalePlace::row_array) stack.scale = entries[i + 1].buffer;
    if (model.engine().processes() > 1 && stack.frozen != nullptr) read_frozen(stack, task);
    for (int64_t layer = 0; layer < stack.spec.copies(); ++layer) {
      for (size_t piece = 0; piece < stack.spec.pieces.size(); ++piece)
        places_[stack.spec.logical_name(stack.spec.pieces[piece], layer)] = {stacks_.size(), piece,
                                                                             layer};
    }
    stacks_.push_back(std::move(stack));
  }
}

// Of several processes the first takes the tensors later, by itself.
void ModelSnapshot::read_frozen(Stack& stack, const Task* task) {
  stack.values = stack.frozen->read_on_first(task);
  const Tensor scale = stack.scale ? stack.scale->read_on_first(task) : Tensor();
  if (stack.is_quantized && stack.values.defined())
    stack.values = dequantize(stack.values, scale, task);
}

DType ModelSnapshot::dtype(const std::string& name) const {
  return stacks_[places_.at(name).stack].dtype;
}

Shape ModelSnapshot::shape(const std::string& name) const {
  const Place& place = places_.at(name);
  const ParamSpec& spec = stacks_[place.stack].spec;
  return spec.logical_shape(spec.pieces[place.piece]);
}

Tensor ModelSnapshot::take(const std::string& name, const Task* task) {
  const Place& place = places_.at(name);
  Stack& stack = stacks_[place.stack];
  if (!stack.values.defined()) {
    stack.values = stack.frozen->read(task);
    if (stack.is_quantized)
      stack.values =
          dequantize(stack.values, stack.scale ? stack.scale->read(task) : Tensor(), task);
  }
  Tensor taken = read_piece(stack.spec, place.piece, place.layer, stack.values, task);
  if (--stack.left == 0) {
    stack.values = Tensor();
    stack.frozen = stack.scale = nullptr;
  }
  return taken;
}

namespace {

// torch's name of the type most numbers have, as config.json says it.
const char* torch_name(DType dtype) {
  switch (dtype) {
  case DType::bf16: return "bfloat16";
  case DType::f16: return "float16";
  default: return "float32";
  }
}

void write_weights(ModelSnapshot& snapshot, const std::string& folder, const Options& options,
                   Json& config, Task* task) {
  const std::string& wanted = options.str("dtype");
  std::vector<ckpt::TensorSpec> specs;
  int64_t total = 0, done = 0;
  std::map<DType, int64_t> counts;
  for (const std::string& name : snapshot.names()) {
    const DType dtype = wanted == "auto" ? snapshot.dtype(name) : dtype_from_name(wanted);
    const Shape shape = snapshot.shape(name);
    specs.push_back({name, dtype, shape});
    counts[dtype] += shape.count();
    total += shape.count() * dtype_size(dtype);
  }
  DType most = DType::f32;
  for (const auto& [dtype, count] : counts) {
    if (count > counts[most]) most = dtype;
  }
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (config.contains(key)) config[key] = torch_name(most);
  }
  ckpt::WeightWriter writer(folder, "model", specs, options.i64("max_shard_bytes"),
                            {{"format", "pt"}});
  for (const ckpt::TensorSpec& spec : writer.order()) {
    check_task(task);
    const Tensor tensor = snapshot.take(spec.name, task).to(spec.dtype, task);
    writer.write(spec.name, tensor, task);
    done += tensor.byte_size();
    if (task != nullptr) task->set_progress(done, total);
  }
  writer.close();
}

} // namespace

const Schema& save_schema() {
  static const Schema schema(
      "save", {option_choice("dtype", "auto", {"auto", "f32", "bf16", "f16"},
                             "Type of the numbers; auto: as they are kept, int8 as f32."),
               option_i64("max_shard_bytes", int64_t{5} << 30, 1 << 10, int64_t{1} << 50,
                          "Larger weights are cut into several files with an index."),
               option_bool("overwrite", false, "A folder that a save wrote may be replaced.")});
  return schema;
}

namespace {

void fill(FolderSave& place, ModelSnapshot& snapshot, const Options& options, Task* task) {
  Json config = config_to_json(snapshot.config());
  write_weights(snapshot, place.partial(), options, config, task);
  for (const auto& [name, content] : snapshot.side_files()) {
    if (ckpt::is_safe_name(name))
      write_file_atomic(join_path(place.partial(), name), content.text());
  }
  place.move_into_place(config.dump(2) + "\n");
}

} // namespace

void save_model(ModelSnapshot& snapshot, const std::string& path, const Options& options,
                Task* task) {
  FolderSave place(path, options.boolean("overwrite"), task);
  fill(place, snapshot, options, task);
}

void save_model(const Model& model, const std::string& path, const Options& options, Task* task) {
  check_task(task);
  if (model.engine().processes() > 1) {
    ModelSnapshot snapshot(model, SnapshotMode::copied, task);
    graph::run_on_first(model.engine(), [&] { save_model(snapshot, path, options, task); });
    return;
  }
  FolderSave place(path, options.boolean("overwrite"), task);
  ModelSnapshot snapshot(model, SnapshotMode::keep_shared, task);
  fill(place, snapshot, options, task);
}

} // namespace dllm::model
