// A release while calls use the handle: in another thread, or in a callback of the very call. The
// call ends as it would have, new calls are refused at once, and the last call that returns
// destroys the object.

#include "world.h"

#include <array>
#include <thread>

namespace {

constexpr int64_t kPrompt = 3;
const std::array<int32_t, kPrompt> prompt = {5, 6, 7};

dllm_decoder* make_decoder(dllm_model* model, dllm_error* err) {
  dllm_options* opts = make_options("decoder", R"({"steps": 6, "gen_length": 24})", err);
  dllm_decoder* decoder = nullptr;
  NEED(dllm_decoder_new(model, opts, &decoder, err), err);
  NEED(dllm_decoder_start(decoder, prompt.data(), kPrompt, 1, err), err);
  dllm_options_release(opts);
  return decoder;
}

dllm_status status_of(const dllm_decoder* decoder) {
  double open = 0;
  return dllm_decoder_metric(decoder, 0, "open", &open, nullptr);
}

struct Seen {
  dllm_decoder* decoder = nullptr;
  dllm_trainer* trainer = nullptr;
  dllm_loader* loader = nullptr;
  dllm_model* model = nullptr;
  dllm_task* task = nullptr;
  int events = 0;
  dllm_status before = -1, after = -1; // of a call during the release
  bool in_thread = false;
};

template <class F> void do_it(const Seen& seen, F&& f) {
  if (seen.in_thread)
    std::thread(f).join();
  else
    f();
}

int32_t release_decoder(const dllm_event*, void* data) {
  auto& seen = *static_cast<Seen*>(data);
  if (++seen.events != 2) return DLLM_CONTINUE;
  seen.before = status_of(seen.decoder);
  do_it(seen, [&] {
    dllm_decoder_release(seen.decoder);
    dllm_decoder_release(seen.decoder); // again: nothing
  });
  seen.after = status_of(seen.decoder); // its own run still holds it, so this call is allowed
  return DLLM_CONTINUE;
}

void test_decoder(const world& w, bool in_thread) {
  Seen seen;
  seen.in_thread = in_thread;
  seen.decoder = make_decoder(w.model, w.err);
  seen.task = dllm_task_new();
  const dllm_status status =
      dllm_decoder_run(seen.decoder, release_decoder, &seen, seen.task, w.err);
  CHECK(status == DLLM_OK);
  CHECK(seen.events == 7); // six steps and the end of the block
  CHECK(seen.before == DLLM_OK);
  CHECK(seen.after == DLLM_INVALID_ARGUMENT);
  dllm_task_release(seen.task);
}

// Everything a training run uses, in its first callback.
int32_t release_all(const dllm_event*, void* data) {
  auto& seen = *static_cast<Seen*>(data);
  if (++seen.events != 1) return DLLM_CONTINUE;
  do_it(seen, [&] {
    dllm_task_release(seen.task);
    dllm_loader_release(seen.loader);
    dllm_model_release(seen.model);
    dllm_trainer_release(seen.trainer);
  });
  double loss = 0;
  seen.after = dllm_trainer_metric(seen.trainer, "loss", &loss, nullptr);
  return DLLM_CONTINUE;
}

void test_training(const world& w, bool in_thread) {
  Seen seen;
  seen.in_thread = in_thread;
  seen.model = make_model(w.engine, w.tok, 32, 1, w.err);
  seen.trainer = make_trainer(seen.model, nullptr, w.err);
  seen.loader = make_loader(w.data, R"({"batch": 2, "length": 16, "epochs": 0})", w.err);
  seen.task = dllm_task_new();
  CHECK(dllm_trainer_run(seen.trainer, seen.loader, 5, release_all, &seen, seen.task, w.err) ==
        DLLM_OK);
  CHECK(seen.events == 5);
  CHECK(seen.after == DLLM_INVALID_ARGUMENT);
}

// The memory of what was released comes back.
int64_t memory_of(const world& w) {
  int64_t used = 0;
  NEED(dllm_engine_i64(w.engine, "memory_used", &used, w.err), w.err);
  return used;
}

} // namespace

int main() {
  world w{};
  open_world(&w, 2);
  std::array<int64_t, 2> used{}; // the first round leaves packed weights behind
  for (int64_t& bytes : used) {
    for (const bool in_thread : {false, true}) {
      test_decoder(w, in_thread);
      test_training(w, in_thread);
    }
    NEED(dllm_engine_trim(w.engine, w.err), w.err);
    bytes = memory_of(w);
  }
  CHECK(used[1] == used[0]);
  close_world(&w);
  std::printf("# %d failures\n", failures);
  return failures != 0;
}
