// Our training step against the same StableHLO text run by JAX on the same plugin, in turns.

#include "bed.h"

#include "base/files.h"
#include "train/optimizer.h"

namespace dllm::bench {
namespace {

// What the peer needs: the text, every argument's numbers, and which result takes whose place.
class Handover {
public:
  Handover(graph::Engine& engine, const model::Model& model, const TrainingSizes& shape)
      : folder_(scratch_folder("step")) {
    make_directories(folder_);
    const model::Job job =
        train::training_job(model.engine_ref(), model.config(), plan_options(shape));
    write_file_atomic(join_path(folder_, "step.mlir"),
                      engine.compile(job.graph)->text("stablehlo"));
    const Batch feed = feed_of(model, shape);
    Json arguments = Json::array(), results = Json::array();
    for (const graph::GraphInput& input : job.graph->inputs()) {
      const graph::ValueType& type = job.graph->type(input.value);
      const bool fed = input.name.starts_with("batch:") || input.name == "scalars";
      const std::string file = fmt::format("argument_{}.bin", arguments.size());
      const Tensor numbers = argument(model, feed, input.name, type);
      write_file_atomic(join_path(folder_, file),
                        std::string_view(reinterpret_cast<const char*>(numbers.bytes()),
                                         static_cast<size_t>(numbers.byte_size())));
      arguments.push_back({{"file", file},
                           {"dtype", dtype_name(type.dtype)},
                           {"shape", type.shape.dims()},
                           {"fed", fed}});
    }
    for (const graph::GraphOutput& output : job.graph->outputs())
      results.push_back({{"name", output.name}, {"replaces", output.donated_input}});
    write_file_atomic(join_path(folder_, "step.json"),
                      Json{{"arguments", arguments}, {"results", results}}.dump());
  }
  ~Handover() { remove_all(folder_); }
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  const std::string& folder() const { return folder_; }

private:
  static Batch feed_of(const model::Model& model, const TrainingSizes& shape) {
    const noise::ObjectiveRef objective = noise::make_objective("mdlm");
    const noise::PrepareContext context = noise::prepare_context(*objective, model.config());
    return objective->feed(objective->prepare(batch_of(shape, 1), 0, 1, context), model.config());
  }
  // Weights and feed as they are, moments and words of control 0.
  static Tensor argument(const model::Model& model, const Batch& feed, const std::string& name,
                         const graph::ValueType& type) {
    const std::string rest = name.substr(name.find(':') + 1);
    if (name.starts_with("batch:")) return feed.at(rest);
    if (name.starts_with("param:"))
      return model.params().physical()[model.params().index(rest)].buffer->read();
    if (name == "scalars") {
      const Options options(train::trainer_schema());
      const train::Optimizer& adamw = train::find_optimizer("adamw");
      std::vector<float> scalars;
      for (const double value : adamw.step_scalars(options, {options.f64("lr"), 0.0, 1}))
        scalars.push_back(static_cast<float>(value));
      scalars.resize(static_cast<size_t>(train::scalar_count(adamw)), 0.0f);
      scalars[adamw.scalars.size() + train::kClip] = 1.0f;
      return Tensor::from(type.shape, scalars);
    }
    return Tensor(type.dtype, type.shape);
  }

  std::string folder_;
};

} // namespace

void bench_step(const Args& args) {
  const TrainingSizes shape = shape_named(args.shape);
  const auto engine = engine_on(args.plugin, "off");
  const auto model = model::new_model(engine, qwen3_config(shape), Options(model::model_schema()));
  const Handover handover(*engine, *model, shape);
  train::Trainer trainer(model, noise::make_objective("mdlm"), Options(train::trainer_schema()));
  Peer peer(DLLM_JAX_STEP, {args.plugin, handover.folder()});
  for (int64_t i = 0; i < 3; ++i) trainer.step(batch_of(shape, i)); // compiles, warms up
  // A turn is a handful of steps, one behind the other as in a run; each side reads every loss.
  constexpr int64_t kSteps = 5;
  std::vector<double> own, other, ratios;
  for (int64_t turn = 0; turn < args.turns; ++turn) {
    const Seconds taken = timed([&] {
      for (int64_t i = 0; i < kSteps; ++i) trainer.start_step(batch_of(shape, turn + i));
      trainer.sync();
    });
    own.push_back(taken.wall / kSteps);
    if (!peer.ready()) continue;
    other.push_back(peer.repeat(std::to_string(kSteps).c_str()).wall / kSteps);
    ratios.push_back(own.back() / other.back());
  }
  print_machine(0);
  fmt::print("step of {}: {:.1f}M parameters, batch {} x {}\n", args.shape,
             static_cast<double>(model->params().parameter_count()) * 1e-6, shape.batch,
             shape.length);
  fmt::print("dllm {:.2f} ms\n", 1e3 * middle(own));
  if (other.empty()) {
    fmt::print("JAX: absent (set DLLM_PYTHON to a python3 that has jax)\n");
    return;
  }
  fmt::print("JAX  {:.2f} ms\n", 1e3 * middle(other));
  fmt::print("ratio over {} turns {:.3f} (goal at most 1.03; below 1: dllm is faster)\n",
             ratios.size(), middle(ratios));
}

} // namespace dllm::bench
