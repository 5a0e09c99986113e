// bench_checkpoint_stall FOLDER [saves] [threads]: how long training stands still for a checkpoint
// of 100 M parameters, in both ways of saving, and what the next step takes. FOLDER gets the
// checkpoints.

#include "base/files.h"
#include "cpu/engine.h"
#include "graph/engine.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/state_file.h"
#include "train/trainer.h"
#include "training_model.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace {

using namespace dllm;

double seconds_of(const auto& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void measure(train::Trainer& trainer, const bench::TrainingSizes& sizes, const std::string& root,
             bool wait) {
  Options options(train::checkpoint_schema());
  options.set_json(Json{{"wait", wait}, {"keep_last", 1}});
  const auto step = [&] { trainer.step(bench::batch_of(sizes, trainer.steps_done())); };
  step();
  const double alone = seconds_of(step);
  const double stall = seconds_of([&] { train::save_checkpoint(trainer, nullptr, root, options); });
  const double next = seconds_of(step);
  const double rest = seconds_of([&] { trainer.sync(); });
  const double share =
      stall / (stall + (wait ? 0 : next + rest)); // of the time until it is on disk
  std::printf("wait=%s  stood still %.3f s (%.0f %% of the save);  a step before %.3f s, the next "
              "%.3f s;  written after %.3f s more\n",
              wait ? "true " : "false", stall, 100 * share, alone, next, rest);
}

// The other way to keep a moment: hold the arrays, so that the engine copies them in the next step.
void measure_held(train::Trainer& trainer, const bench::TrainingSizes& sizes) {
  const auto step = [&] { trainer.step(bench::batch_of(sizes, trainer.steps_done())); };
  step();
  const double alone = seconds_of(step);
  model::WriterShares shares(1);
  const auto mode = model::SnapshotMode::keep_shared;
  const model::ModelSnapshot model(trainer.trained_model(), model::kBasePart, mode, shares,
                                   nullptr);
  const train::StateSnapshot state = train::snapshot_state(trainer, mode, shares, nullptr);
  std::printf("held        a step before %.3f s, the next %.3f s\n", alone, seconds_of(step));
}

} // namespace

int main(int count, char** words) {
  if (count < 2) return 2;
  const std::string root = words[1];
  const int64_t saves = count > 2 ? std::atoll(words[2]) : 3;
  Options engine_options(graph::engine_schema());
  engine_options.set_i64("threads", count > 3 ? std::atoll(words[3]) : 2);
  const auto engine = cpu::make_engine(engine_options);
  const bench::TrainingSizes sizes{12, 768, 12, 2048, 20480, 1, 64};
  const auto model =
      model::new_model(engine, bench::qwen3_config(sizes), Options(model::model_schema()));
  train::Trainer trainer(model, noise::make_objective("mdlm"), Options(train::trainer_schema()));
  std::printf("%.1f M parameters\n", static_cast<double>(model->i64("params")) * 1e-6);
  for (int64_t turn = 0; turn < saves; ++turn) {
    for (const bool wait : {true, false})
      measure(trainer, sizes, join_path(root, wait ? "waits" : "background"), wait);
    measure_held(trainer, sizes);
  }
  std::printf("checkpoint_stall_seconds %.3f\n", trainer.metric("checkpoint_stall_seconds"));
}
