#include "base/error.h"
#include "base/random.h"
#include "model/files/save.h"
#include "model/files/weights.h"
#include "model/model.h"
#include "model/network/edit_heads.h"
#include "model/params/partition.h"
#include "model/params/stack_part.h"
#include "model/plan.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::model {

namespace {

// Returns the middle of one of 2^24 equal steps of (0, 1), which is never 0 or 1.
double uniform_at(const Key& key, size_t i) {
  return (static_cast<double>(random_bits_at(key, i) >> 8) + 0.5) / 16777216.0;
}

// Returns the index in the whole array of a number of a part. Each number has its own random key.
class Numbering {
public:
  Numbering(const Shape& whole, const Box& box) : runs_(whole, box) {}
  size_t operator()(int64_t i) const {
    return static_cast<size_t>(runs_.begin(i / runs_.length()) + i % runs_.length());
  }

private:
  BoxRuns runs_;
};

// Returns uniform first values. For convolutions they are in +-1 / sqrt(width), as in PyTorch. For
// decay rates they are logarithms of uniform numbers from 0.01 to 16, as in Gated DeltaNet.
Tensor even_values(const ParamSpec& spec, Tensor values, const Numbering& number, const Key& key) {
  const bool is_rate = spec.role == ParamRole::decay_rate;
  const double reach = is_rate ? 0 : 1 / std::sqrt(static_cast<double>(spec.element[1]));
  const auto out = values.mutable_as<float>();
  for (size_t i = 0; i < out.size(); ++i) {
    const double uniform = uniform_at(key, number(static_cast<int64_t>(i)));
    out[i] =
        static_cast<float>(is_rate ? std::log(0.01 + 15.99 * uniform) : reach * (2 * uniform - 1));
  }
  return values;
}

} // namespace

Tensor first_values(const ParamSpec& spec, const std::string& name, const Shape& whole,
                    const Box& box, const ModelConfig& config, uint64_t seed, const Task* task) {
  constexpr int64_t kPiece = int64_t{1} << 17; // draws between two checks of the task: about 2 ms
  Tensor values(DType::f32, box.shape);
  const auto out = values.mutable_as<float>();
  if (spec.zero || spec.role == ParamRole::bias || spec.role == ParamRole::centered_norm)
    return values;
  if (spec.role == ParamRole::norm) {
    std::fill(out.begin(), out.end(), 1.0f);
    return values;
  }
  const Numbering number(whole, box);
  const Key key = stream_key(seed, Stream::init, name_number(name), 0);
  if (spec.role == ParamRole::convolution || spec.role == ParamRole::decay_rate)
    return even_values(spec, std::move(values), number, key);
  const double narrow =
      spec.residual_out ? std::sqrt(2.0 * static_cast<double>(config.layers)) : 1.0;
  const double deviation = config.init_std / narrow;
  in_pieces(values.count(), kPiece, task, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const double uniform = uniform_at(key, number(i));
      out[static_cast<size_t>(i)] = static_cast<float>(deviation * normal_quantile(uniform));
    }
  });
  return values;
}

namespace {

// Adds parameters with first values. Their parts are in the model.
void draw_weights(Model& model, const std::vector<ParamSpec>& specs, const WeightFormat& format,
                  uint64_t seed, Task* task) {
  const auto form_of = [&](const ParamSpec& spec) -> const WeightFormat& {
    return storage_format(spec, format);
  };
  check_memory(model.engine(), specs, form_of);
  int64_t total = 0, done = 0;
  const auto order = reserve_largest_first(model, specs, form_of);
  for (const auto& entry : order)
    total += own_part(model.params(), entry.first).spec.shape().count();
  const auto draw = [&](ParamForm& form, const StackPart& part) {
    const ParamSpec& spec = part.spec;
    const ModelConfig& config = model.parts().find(spec.part)->config;
    for (int64_t layer = 0; layer < spec.copies(); ++layer) {
      for (size_t piece = 0; piece < spec.pieces.size(); ++piece) {
        check_task(task);
        const std::string name = spec.logical_name(spec.pieces[piece], layer);
        const Tensor values =
            first_values(spec, name, part.whole[piece], part.boxes[piece], config, seed, task);
        form.put(spec, piece, layer, values, task);
        done += values.count();
        if (task != nullptr) task->set_progress(std::min(done, total), total);
      }
    }
  };
  graph::run_on_all(model.engine(), [&] { // each process makes its part
    for (const auto& entry : order) fill_stack(model.params(), entry.first, draw, task);
  });
}

} // namespace

std::shared_ptr<Model> new_model(std::shared_ptr<graph::Engine> engine, const Json& object,
                                 const Options& options, Task* task) {
  if (options.str("weights") != "live") {
    fail_with_hint("leave option weights out", Code::failed_precondition,
                   "a new model has no moving averages of its weights");
  }
  ModelConfig config = config_from_json(object, "config");
  config.next_token = false; // nothing has trained the weights
  apply_model_options(config, options);
  if (options.str("heads") == "edit") add_edit_heads(config);
  const std::string& wanted = options.str("dtype");
  const bool free = wanted == "auto" || wanted == "keep";
  const WeightFormat& format = free ? weight_format(DType::f32) : weight_format(wanted);

  const auto model = std::make_shared<Model>(std::move(engine), config);
  model->set_origin(chosen_by(options));
  model->params().set_checks(options.str("check") == "finite");
  draw_weights(*model, partitioned_params(config, model->engine().mesh()), format,
               static_cast<uint64_t>(options.i64("seed")), task);
  resolve_mask_token(*model, options.str("mask_token"), nullptr);
  return model;
}

void add_new_network(Model& model, const std::string& name, const Json& config, uint64_t seed,
                     Task* task) {
  Part part;
  part.name = name;
  part.config = config_from_json(config, "config of part " + name);
  std::vector<ParamSpec> specs = partitioned_params(part.config, model.engine().mesh());
  for (ParamSpec& spec : specs) spec.part = name;
  model.add_part(std::move(part),
                 [&] { draw_weights(model, specs, weight_format(DType::f32), seed, task); });
}

std::shared_ptr<Model>
sketch_model(std::shared_ptr<graph::Engine> engine, ModelConfig config,
             const std::function<const WeightFormat&(const ParamSpec&)>& form_of) {
  const std::vector<ParamSpec> specs = partitioned_params(config, engine->mesh());
  const auto model = std::make_shared<Model>(std::move(engine), std::move(config));
  for (const ParamSpec& spec : specs) model->params().add_sketch(spec, form_of(spec));
  return model;
}

std::shared_ptr<Model> sketch_model(std::shared_ptr<graph::Engine> engine, ModelConfig config,
                                    const WeightFormat& format) {
  return sketch_model(
      std::move(engine), std::move(config),
      [&](const ParamSpec& spec) -> const WeightFormat& { return storage_format(spec, format); });
}

} // namespace dllm::model
