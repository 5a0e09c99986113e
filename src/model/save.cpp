#include "base/error.h"
#include "base/files.h"
#include "ckpt/safe_path.h"
#include "ckpt/safetensors_writer.h"
#include "model/model.h"

#include <nlohmann/json.hpp>

#include <map>

namespace dllm::model {
namespace {

// Host copies of the stacks that tensors are cut from, each fetched once.
class Stacks {
public:
  explicit Stacks(const ParamStore& params) : params_(params) {}

  void fetch(const Task* task) {
    const std::vector<graph::BufferRef> buffers = params_.snapshot();
    for (size_t i = 0; i < buffers.size(); ++i) {
      const ParamStore::Physical& entry = params_.physical()[i];
      if (entry.scale_of >= 0) continue;
      const Tensor values =
          entry.dtype == DType::i8 ? params_.widened(i, task) : buffers[i]->read(task);
      for (int64_t layer = 0; layer < entry.spec.copies(); ++layer) {
        for (size_t piece = 0; piece < entry.spec.pieces.size(); ++piece) {
          places_[entry.spec.logical_name(entry.spec.pieces[piece], layer)] = {&entry.spec, piece,
                                                                               layer, values};
        }
      }
    }
  }
  Tensor tensor(const std::string& name, const Task* task) const {
    const Place& place = places_.at(name);
    return read_piece(*place.spec, place.piece, place.layer, place.values, task);
  }
  DType dtype(const std::string& name) const { return places_.at(name).values.dtype(); }

private:
  struct Place {
    const ParamSpec* spec = nullptr;
    size_t piece = 0;
    int64_t layer = 0;
    Tensor values;
  };
  const ParamStore& params_;
  std::map<std::string, Place> places_;
};

// torch's name of the type most numbers have, as config.json says it.
const char* torch_name(DType dtype) {
  switch (dtype) {
  case DType::bf16: return "bfloat16";
  case DType::f16: return "float16";
  default: return "float32";
  }
}

void write_weights(const Model& model, const std::string& folder, const Options& options,
                   Json& config, Task* task) {
  Stacks stacks(model.params());
  stacks.fetch(task);
  const std::string& wanted = options.str("dtype");
  std::vector<ckpt::TensorSpec> specs;
  int64_t total = 0, done = 0;
  std::map<DType, int64_t> counts;
  for (const std::string& name : model.params().names()) {
    const DType dtype = wanted == "auto" ? stacks.dtype(name) : dtype_from_name(wanted);
    const Shape shape = model.params().shape(name);
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
    const Tensor tensor = stacks.tensor(spec.name, task).to(spec.dtype, task);
    writer.write(spec.name, tensor, task);
    done += tensor.byte_size();
    if (task != nullptr) task->set_progress(done, total);
  }
  writer.close();
}

// Puts the finished folder in its place; what was there is gone only when the new one stands.
void move_into_place(const std::string& partial, const std::string& folder) {
  if (!file_exists(folder)) return rename_path(partial, folder);
  if (swap_paths(partial, folder)) return remove_all(partial);
  const std::string old = folder + ".old";
  remove_all(old);
  rename_path(folder, old);
  rename_path(partial, folder);
  remove_all(old);
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

} // namespace

const Schema& save_schema() {
  static const Schema schema(
      "save", {option_choice("dtype", "auto", {"auto", "f32", "bf16", "f16"},
                             "Type of the numbers; auto: as they are kept, int8 as f32."),
               option_i64("max_shard_bytes", int64_t{5} << 30, 1 << 10, int64_t{1} << 50,
                          "Larger weights are cut into several files with an index."),
               option_bool("overwrite", false, "A folder of that name may be replaced.")});
  return schema;
}

void save_model(const Model& model, const std::string& path, const Options& options, Task* task) {
  check_task(task);
  const std::string folder = without_slash(path);
  if (folder.empty()) fail(Code::invalid_argument, "the path of the folder to save is empty");
  if ((file_exists(folder) || is_directory(folder)) && !options.boolean("overwrite")) {
    fail_with_hint("choose another path, or set overwrite", Code::already_exists,
                   "{} is there already", folder);
  }
  const std::string partial = folder + ".partial";
  remove_all(partial);
  make_directories(partial);
  try {
    Json config = config_to_json(model.config());
    write_weights(model, partial, options, config, task);
    write_file_atomic(join_path(partial, "config.json"), config.dump(2) + "\n");
    for (const auto& [name, content] : model.side_files()) {
      if (ckpt::is_safe_path(name)) write_file_atomic(join_path(partial, name), content.text());
    }
    sync_path(partial);
    move_into_place(partial, folder);
  } catch (...) {
    remove_all(partial);
    throw;
  }
}

} // namespace dllm::model
