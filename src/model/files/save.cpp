#include "model/files/save.h"

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "ckpt/checkpoint/checkpoint_folder.h"
#include "ckpt/safetensors/safetensors_writer.h"
#include "model/params/number_range.h"
#include "model/params/param_map.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace dllm::model {

namespace {

// Returns true when reads may share the buffer's memory. A read from an engine that runs ahead is a
// transfer, and a read of a cut array joins its parts; such results have no other owner.
bool reads_are_shared(const graph::Buffer& buffer, const graph::Engine& engine) {
  return !engine.runs_ahead() && buffer.layout().is_whole();
}

} // namespace

Tensor read_copy(const graph::Buffer& buffer, const graph::Engine& engine, const Task* task,
                 CopyPool* pool) {
  Tensor read = buffer.read(task);
  if (!reads_are_shared(buffer, engine) || !read.defined()) return read;
  const std::shared_ptr<ThreadPool> threads = engine.threads();
  return copy_of(read, {threads.get(), task}, pool);
}

std::vector<Tensor> read_dealt_copies(const graph::Buffer& buffer, const graph::Engine& engine,
                                      std::span<const int64_t> owners, const Task* task,
                                      CopyPool* pool) {
  std::vector<Tensor> rows = buffer.read_dealt(owners, task);
  if (!reads_are_shared(buffer, engine)) return rows;
  const std::shared_ptr<ThreadPool> threads = engine.threads();
  for (Tensor& row : rows) {
    if (row.defined()) row = copy_of(row, {threads.get(), task}, pool);
  }
  return rows;
}

Tensor read_piece_of(const ParamSpec& spec, size_t piece, int64_t layer, const Tensor& rows,
                     const Task* task) {
  if (rows.shape() == spec.shape()) return read_piece(spec, piece, layer, rows, task);
  ParamSpec one = spec;
  one.layers = 1;
  return read_piece(one, piece, 0, rows, task);
}

int64_t WriterShares::writer_of(int64_t bytes) {
  const auto least = std::min_element(bytes_.begin(), bytes_.end());
  *least += bytes;
  return least - bytes_.begin();
}

std::vector<int64_t> WriterShares::writers_of(const ParamSpec& spec) {
  std::vector<int64_t> made;
  for (int64_t layer = 0; layer < spec.copies(); ++layer)
    made.push_back(writer_of(spec.element.count() * dtype_size(DType::f32)));
  return made;
}

ModelSnapshot::ModelSnapshot(const Model& model, const std::string& part, SnapshotMode mode,
                             WriterShares& shares, const Task* task, CopyPool* pool,
                             const std::vector<std::string>& merged)
    : process_(model.engine().process()), part_(*model.parts().find(part)) {
  if (part == kBasePart) {
    part_.config = model.config_now();
    side_files_ = model.side_files();
  }
  for (const std::string& name : model.params().names(part))
    names_.push_back(split_name(name).second);
  const bool in_processes = model.engine().processes() > 1;
  const std::vector<ParamStore::Physical> entries = model.params().entries(task);
  sums_ = AdapterSums(model, entries, merged, task);
  const ParamStore::Test trained = model.trained();
  for (size_t i = 0; i < entries.size(); ++i) {
    const ParamStore::Physical& entry = entries[i];
    if (entry.scale_of >= 0 || entry.spec.part != part) continue;
    check_task(task);
    Stack stack;
    stack.spec = entry.spec;
    stack.is_quantized = entry.is_quantized();
    const bool is_half = entry.format == &weight_format("f16"); // an array of bytes on the engine
    stack.dtype = is_half ? DType::f16 : stack.is_quantized ? DType::f32 : entry.buffer->dtype();
    const bool may_change = trained(entry) && !stack.is_quantized;
    const bool has_scale = entry.format->has_table();
    if (has_scale) stack.scale = entries[i + 1].buffer;
    if (in_processes) {
      deal(stack, entry.buffer, model.engine(), shares, task, pool);
    } else {
      Piece& all = stack.parts.emplace_back();
      if (!may_change)
        stack.frozen = entry.buffer;
      else if (mode == SnapshotMode::copied)
        all.values = read_copy(*entry.buffer, model.engine(), task, pool);
      else
        all.values = entry.buffer->read(task);
    }
    for (int64_t layer = 0; layer < stack.spec.copies(); ++layer) {
      for (size_t piece = 0; piece < stack.spec.pieces.size(); ++piece) {
        ++stack.part(layer).left;
        places_[stack.spec.file_name(stack.spec.pieces[piece], layer)] = {stacks_.size(), piece,
                                                                          layer};
      }
    }
    stacks_.push_back(std::move(stack));
  }
}

// Processes take their tensors later without the others, so frozen stacks are read now too.
void ModelSnapshot::deal(Stack& stack, const graph::BufferRef& values, const graph::Engine& engine,
                         WriterShares& shares, const Task* task, CopyPool* pool) {
  const std::vector<int64_t> writers = shares.writers_of(stack.spec);
  std::vector<Tensor> rows = read_dealt_copies(*values, engine, writers, task, pool),
                      scales(rows.size());
  if (stack.scale != nullptr) scales = stack.scale->read_dealt(writers, task);
  for (size_t layer = 0; layer < rows.size(); ++layer) {
    if (stack.is_quantized && rows[layer].defined())
      rows[layer] = dequantize(rows[layer], scales[layer], task);
    stack.parts.push_back({std::move(rows[layer]), writers[layer]});
  }
  stack.scale = nullptr;
}

const std::string& ModelSnapshot::name_in(const std::string& stack) const {
  return std::ranges::find_if(
             places_,
             [&](const auto& place) { return stacks_[place.second.stack].spec.name == stack; })
      ->first;
}

DType ModelSnapshot::dtype(const std::string& name) const {
  return stacks_[places_.at(name).stack].dtype;
}

Shape ModelSnapshot::shape(const std::string& name) const {
  const Place& place = places_.at(name);
  const ParamSpec& spec = stacks_[place.stack].spec;
  return spec.logical_shape(spec.pieces[place.piece]);
}

int64_t ModelSnapshot::writer(const std::string& name) const {
  const Place& place = places_.at(name);
  const Stack& stack = stacks_[place.stack];
  return stack.parts[stack.index(place.layer)].writer;
}

Tensor ModelSnapshot::take(const std::string& name, const Task* task) {
  const Place& place = places_.at(name);
  Stack& stack = stacks_[place.stack];
  Piece& part = stack.part(place.layer);
  if (!part.values.defined()) {
    part.values = stack.frozen->read(task);
    if (stack.is_quantized)
      part.values = dequantize(part.values, stack.scale ? stack.scale->read(task) : Tensor(), task);
  }
  Tensor taken = read_piece_of(stack.spec, place.piece, place.layer, part.values, task);
  if (sums_.has(stack.spec.name))
    taken = sums_.sum(stack.spec, place.piece, place.layer, taken, task);
  if (--part.left == 0) {
    part.values = Tensor();
    stack.frozen = stack.scale = nullptr;
  }
  return taken;
}

namespace {

// Returns torch's name of the type of most numbers, for config.json.
const char* torch_name(DType dtype) {
  switch (dtype) {
  case DType::bf16: return "bfloat16";
  case DType::f16: return "float16";
  default: return "float32";
  }
}

// Returns the names of the files. `config` gets the type of most numbers. Names of another network
// than the base begin with its part.
std::vector<std::string> write_weights(Snapshots snapshots, const std::string& folder,
                                       const Options& options, Json& config, Task* task) {
  const std::string& wanted = options.str("dtype");
  std::vector<ckpt::TensorSpec> specs;
  std::map<std::string, ModelSnapshot*> owners;
  int64_t total = 0, done = 0;
  std::map<DType, int64_t> counts;
  const int64_t process = snapshots.front().process();
  for (ModelSnapshot& snapshot : snapshots) {
    const bool is_base =
        snapshot.part().kind == PartKind::adapter || &snapshot == &snapshots.front();
    for (const std::string& name : snapshot.names()) {
      const DType dtype = wanted == "auto" ? snapshot.dtype(name) : dtype_from_name(wanted);
      const Shape shape = snapshot.shape(name);
      const std::string own = is_base ? name : qualified_name(snapshot.part().name, name);
      owners[own] = &snapshot;
      specs.push_back({own, dtype, shape, snapshot.writer(name)});
      counts[dtype] += shape.count();
      if (specs.back().writer == process) total += shape.count() * dtype_size(dtype);
    }
  }
  DType most = DType::f32;
  for (const auto& [dtype, count] : counts) {
    if (count > counts[most]) most = dtype;
  }
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (config.contains(key)) config[key] = torch_name(most);
  }
  ckpt::WeightWriter writer(folder, "model", specs, options.i64("max_shard_bytes"),
                            {{"format", "pt"}}, process);
  for (const ckpt::TensorSpec& spec : writer.order()) {
    check_task(task);
    ModelSnapshot& snapshot = *owners.at(spec.name);
    const bool is_first = &snapshot == &snapshots.front();
    const Tensor numbers = snapshot.take(is_first ? spec.name : split_name(spec.name).second, task);
    const WeightFormat* kept = find_weight_format(dtype_name(spec.dtype)); // f16 is one in blocks
    if (kept != nullptr && numbers.dtype() != spec.dtype)
      check_number_range(spec.name, numbers, *kept, task);
    const Tensor tensor = numbers.to(spec.dtype, task);
    writer.write(spec.name, tensor, task);
    done += tensor.byte_size();
    if (task != nullptr) task->set_progress(done, total);
  }
  writer.close();
  return writer.files();
}

} // namespace

const Schema& save_schema() {
  static const Schema schema(
      "save",
      {option_choice("dtype", "auto", {"auto", "f32", "bf16", "f16"},
                     "Type of the numbers; auto: as they are kept, those in blocks and int8 as "
                     "f32."),
       option_i64("max_shard_bytes", int64_t{5} << 30, 1 << 10, int64_t{1} << 50,
                  "Larger weights are cut into several files with an index."),
       option_bool("overwrite", false, "A folder that a save wrote may be replaced."),
       option_bool("merge", false,
                   "The weights of a model with adapters are saved with the products of the "
                   "adapters added. The model keeps its adapters.")});
  return schema;
}

void warn_of_left_out(const std::string& path, std::vector<std::string> networks) {
  std::erase(networks, kTeacherPart);
  if (networks.empty()) return;
  log(LogLevel::warn,
      "{} holds the base alone, without the networks of the model: {}. A checkpoint of a trainer "
      "holds all of them",
      path, fmt::join(networks, ", "));
}

std::vector<std::string> write_side_files(const Model::SideFiles& files,
                                          const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& [name, content] : files) {
    if (!ckpt::is_safe_name(name)) continue;
    write_file_atomic(join_path(folder, name), content.text());
    names.push_back(name);
  }
  return names;
}

void save_model(Snapshots snapshots, const std::string& path, const Options& options, Task* task) {
  FolderSave place(path, options.boolean("overwrite"), task);
  Json config = config_to_json(snapshots.front().config());
  for (const ModelSnapshot& other : snapshots.subspan(1))
    config["dllm"]["parts"][other.part().name] = config_to_json(other.config());
  write_weights(snapshots, place.partial(), options, config, task);
  write_side_files(snapshots.front().side_files(), place.partial());
  place.move_into_place(config.dump(2) + "\n");
}

std::vector<std::string> write_model_files(ModelSnapshot& snapshot, const std::string& folder,
                                           const Options& options, Task* task) {
  Json config = config_to_json(snapshot.config());
  std::vector<std::string> names =
      write_weights(Snapshots(&snapshot, 1), folder, options, config, task);
  if (snapshot.process() > 0) return names;
  for (const std::string& name : write_side_files(snapshot.side_files(), folder))
    names.push_back(name);
  write_file_atomic(join_path(folder, kConfigFile), config.dump(2) + "\n");
  names.emplace_back(kConfigFile);
  return names;
}

void save_model(const Model& model, const std::string& path, const Options& options, Task* task) {
  check_task(task);
  const bool merges = options.boolean("merge");
  const std::vector<std::string> adapters = model.parts().adapters();
  if (!adapters.empty() && !merges) {
    fail_with_hint(
        "option merge of the save adds the adapters to the weights that it writes, "
        "dllm_model_save_adapter saves one alone",
        Code::unimplemented,
        "the model has adapters, which a Hugging Face folder of a whole model does not hold");
  }
  std::vector<std::string> saved = {kBasePart}, left_out;
  for (const std::string& name : model.parts().networks()) {
    if (name == kBasePart) continue;
    const bool is_tower = model.parts().find(name)->config.tower.on;
    (is_tower ? saved : left_out).push_back(name);
  }
  WriterShares first(1);
  if (model.engine().process() == 0) warn_of_left_out(path, left_out);
  const bool is_job = model.engine().processes() > 1;
  std::vector<ModelSnapshot> snapshots;
  snapshots.reserve(saved.size());
  for (const std::string& name : saved)
    snapshots.emplace_back(model, name, is_job ? SnapshotMode::copied : SnapshotMode::keep_shared,
                           first, task, nullptr,
                           name == kBasePart ? adapters : std::vector<std::string>());
  if (is_job)
    graph::run_on_first(model.engine(), [&] { save_model(snapshots, path, options, task); });
  else
    save_model(snapshots, path, options, task);
}

} // namespace dllm::model
