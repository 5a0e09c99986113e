// Ranks of one process, through the C ABI: a mesh trains and decodes as one rank does, a cancel
// from another thread ends all ranks, and readers look on meanwhile.

#include "world.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace {

dllm_engine* mesh_engine(const char* mesh, dllm_error* err) {
  dllm_engine* engine = nullptr;
  dllm_options* options = make_options("engine", nullptr, err);
  NEED(dllm_options_set_i64(options, "threads", 1, err), err);
  NEED(dllm_options_set_str(options, "mesh", mesh, err), err);
  NEED(dllm_engine_new(options, &engine, err), err);
  dllm_options_release(options);
  return engine;
}

struct Run {
  Run(const world& w, const char* mesh) : err(w.err), engine(mesh_engine(mesh, w.err)) {
    model = make_model(engine, w.tok, 32, 2, err);
    trainer = make_trainer(model, R"({"lr": 0.01, "warmup": 0})", err);
    loader = make_loader(w.data, R"({"batch": 4, "length": 16, "epochs": 0, "seed": 3})", err);
  }
  ~Run() {
    dllm_trainer_release(trainer);
    dllm_loader_release(loader);
    dllm_model_release(model);
    dllm_engine_release(engine);
  }
  double loss_after(int64_t steps) {
    NEED(dllm_trainer_run(trainer, loader, steps, nullptr, nullptr, nullptr, err), err);
    double loss = 0;
    NEED(dllm_trainer_metric(trainer, "loss", &loss, err), err);
    return loss;
  }
  std::vector<int32_t> decoded() {
    dllm_decoder* decoder = nullptr;
    dllm_options* options = make_options("decoder", R"({"policy": "threshold"})", err);
    NEED(dllm_decoder_new(model, options, &decoder, err), err);
    dllm_options_release(options);
    options = make_options("slot", R"({"seed": 3, "gen_length": 12})", err);
    const int32_t prompt[] = {5, 6, 7};
    int64_t slot = -1, count = 0;
    NEED(dllm_decoder_add(decoder, prompt, nullptr, 3, options, &slot, err), err);
    dllm_options_release(options);
    NEED(dllm_decoder_run(decoder, nullptr, nullptr, nullptr, err), err);
    std::vector<int32_t> ids(32);
    NEED(dllm_decoder_ids(decoder, slot, ids.data(), 32, &count, err), err);
    ids.resize(static_cast<size_t>(count));
    dllm_decoder_release(decoder);
    return ids;
  }

  dllm_error* err;
  dllm_engine* engine;
  dllm_model* model = nullptr;
  dllm_trainer* trainer = nullptr;
  dllm_loader* loader = nullptr;
};

void cancels_all_ranks(Run& run) {
  dllm_task* task = dllm_task_new();
  std::atomic<bool> over{false};
  std::thread watcher([&] {
    dllm_error* err = dllm_error_new();
    double step = 0;
    int64_t least = INT64_MAX;
    while (!over && step < 9) {
      int64_t used = 0;
      if (dllm_trainer_metric(run.trainer, "step", &step, err) != DLLM_OK) break;
      if (dllm_engine_i64(run.engine, "memory_used", &used, err) != DLLM_OK) break;
      least = std::min(least, used);
      std::this_thread::yield();
    }
    CHECK(step >= 9);
    CHECK(least > 0);
    dllm_task_cancel(task);
    dllm_error_release(err);
  });
  const dllm_status status =
      dllm_trainer_run(run.trainer, run.loader, 1000000, nullptr, nullptr, task, run.err);
  over = true;
  watcher.join();
  CHECK(status == DLLM_CANCELLED);
  dllm_task_release(task);
}

} // namespace

int main() {
  world w{};
  open_world(&w, 1);
  std::vector<int32_t> wanted;
  double loss = 0;
  {
    Run one(w, "");
    loss = one.loss_after(6);
    wanted = one.decoded();
  }
  for (const char* mesh : {"data=2", "fsdp=2", "tensor=2", "fsdp=2,tensor=2"}) {
    Run many(w, mesh);
    int64_t ranks = 0;
    NEED(dllm_engine_i64(many.engine, "ranks", &ranks, w.err), w.err);
    CHECK(ranks == dllm_engine_device_count(many.engine));
    const double own = many.loss_after(6);
    CHECK(std::fabs(own - loss) < 1e-5 * loss);
    CHECK(many.decoded() == wanted);
    cancels_all_ranks(many);
    CHECK(many.loss_after(2) > 0);
  }
  dllm_engine* engine = nullptr;
  dllm_options* options = make_options("engine", R"({"mesh": "rows=2"})", w.err);
  CHECK(dllm_engine_new(options, &engine, w.err) == DLLM_INVALID_ARGUMENT);
  dllm_options_release(options);
  close_world(&w);
  return 0;
}
