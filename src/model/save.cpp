#include "base/error.h"
#include "base/files.h"
#include "ckpt/checkpoint_folder.h"
#include "ckpt/safetensors_writer.h"
#include "model/model.h"
#include "model/saved_folder.h"

#include <nlohmann/json.hpp>

#include <map>

namespace dllm::model {
namespace {

// Host copies of the stacks that tensors are cut from, each fetched once.
class Stacks {
public:
  explicit Stacks(const ParamStore& params) : params_(params) {}

  void fetch(const Task* task) {
    const auto keep = [&](const ParamStore::Stack& stack) {
      const auto spec = std::make_shared<const ParamSpec>(stack.spec);
      for (int64_t layer = 0; layer < spec->copies(); ++layer) {
        for (size_t piece = 0; piece < spec->pieces.size(); ++piece) {
          places_[spec->logical_name(spec->pieces[piece], layer)] = {spec, piece, layer,
                                                                     stack.values};
        }
      }
    };
    params_.visit(keep, task);
  }
  Tensor tensor(const std::string& name, const Task* task) const {
    const Place& place = places_.at(name);
    return read_piece(*place.spec, place.piece, place.layer, place.values, task);
  }
  DType dtype(const std::string& name) const { return places_.at(name).values.dtype(); }
  Shape shape(const std::string& name) const {
    const Place& place = places_.at(name);
    return place.spec->logical_shape(place.spec->pieces[place.piece]);
  }

private:
  struct Place {
    std::shared_ptr<const ParamSpec> spec;
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
    const Shape shape = stacks.shape(name);
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

void save_model(const Model& model, const std::string& path, const Options& options, Task* task) {
  check_task(task);
  if (model.params().has_adapters()) {
    fail_with_hint("merge them into the weights first", Code::unimplemented,
                   "the model has adapters, which a Hugging Face folder of a whole model does not hold");
  }
  FolderSave place(path, options.boolean("overwrite"), task);
  Json config = config_to_json(model.config_now());
  write_weights(model, place.partial(), options, config, task);
  for (const auto& [name, content] : model.side_files()) {
    if (ckpt::is_safe_name(name))
      write_file_atomic(join_path(place.partial(), name), content.text());
  }
  place.move_into_place(config.dump(2) + "\n");
}

} // namespace dllm::model
