// What compiling costs: against the number of layers, and at the second start.

#include "bed.h"

#include "base/files.h"
#include "decode/method/setup.h"

namespace dllm::bench {
namespace {

// Of the processor: others are at work on a shared machine.
double compile_seconds(const std::shared_ptr<graph::Engine>& engine, const model::Job& job) {
  return timed([&] { engine->compile(job.graph); }).cpu;
}

// The first step of a process: how long, and how many programs came from where.
void start(const Args& args, const std::string& folder, const char* which) {
  const TrainingSizes shape = shape_named(args.shape);
  const auto engine = engine_on(args.plugin, folder);
  const auto model = model::new_model(engine, qwen3_config(shape), Options(model::model_schema()));
  train::Trainer trainer(model, noise::make_objective("mdlm"), Options(train::trainer_schema()));
  const int64_t compiles = engine->i64("compiles"), hits = engine->i64("cache_hits");
  const Seconds taken = timed([&] { trainer.start_step(batch_of(shape, 0)); });
  const int64_t made = engine->i64("compiles") - compiles;
  const int64_t loaded = engine->i64("cache_hits") - hits;
  trainer.sync();
  fmt::print("{} start: the first step begins after {:.2f} s, {} programs compiled, {} loaded\n",
             which, taken.wall, made, loaded);
}

} // namespace

void bench_layers(const Args& args) {
  print_machine(0);
  const auto engine = engine_on(args.plugin, "off");
  TrainingSizes shape = shape_named(args.shape);
  const auto seconds = [&](const Json& values, const auto& job_of) {
    std::vector<double> taken;
    for (int64_t turn = 0; turn < std::min<int64_t>(args.turns, 3); ++turn) {
      const auto config = model::config_from_json(qwen3_config(shape), "bench");
      taken.push_back(
          compile_seconds(engine, job_of(engine, config, plan_options(shape, values), nullptr)));
    }
    return middle(taken);
  };
  double first[3] = {0, 0, 0};
  fmt::print("{:>8} {:>10} {:>8} {:>12} {:>8} {:>10} {:>8}\n", "layers", "train s", "growth",
             "remat s", "growth", "decode s", "growth");
  for (const int64_t layers : {4, 16, 64}) {
    shape.layers = layers;
    const double taken[3] = {seconds(Json::object(), train::training_job),
                             seconds({{"remat", true}}, train::training_job),
                             seconds({{"what", "decode"}, {"window", 32}}, decode::decoding_job)};
    for (int i = 0; i < 3; ++i) first[i] = first[i] > 0 ? first[i] : taken[i];
    fmt::print("{:>8} {:>10.2f} {:>8.2f} {:>12.2f} {:>8.2f} {:>10.2f} {:>8.2f}\n", layers, taken[0],
               taken[0] / first[0], taken[1], taken[1] / first[1], taken[2], taken[2] / first[2]);
    std::fflush(stdout);
  }
  fmt::print("seconds of the processor; goal: growth at most 1.20\n");
}

void bench_start(const Args& args) {
  const std::string folder = scratch_folder("cache");
  print_machine(0);
  start(args, folder, "first ");
  start(args, folder, "second");
  remove_all(folder);
}

} // namespace dllm::bench
