// A frame loop: dllm_decoder_step_for with a budget per frame. The tokens are those of whole steps;
// how far slices go over their budget is measured and printed, never asserted.

#include "world.h"

#include "dllm/dllm.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

const std::vector<int32_t> kPrompt = {5, 6, 7};

dllm::Decoder decoder_of(const dllm::Model& model) {
  dllm::Decoder decoder(model, {{"steps", 8}, {"gen_length", 200}, {"temperature", 0.5}});
  decoder.start(kPrompt, 11);
  return decoder;
}

void test_frames(const dllm::Model& model) {
  dllm::Decoder whole = decoder_of(model);
  std::vector<double> steps;
  for (bool more = true; more;) {
    const auto begin = Clock::now();
    more = whole.step() > 0;
    steps.push_back(Milliseconds(Clock::now() - begin).count());
  }
  for (const double budget : {0.0, 1.0, 4.0}) {
    dllm::Decoder sliced = decoder_of(model);
    std::vector<double> frames;
    int64_t events = 0, active = 1;
    while (active > 0) {
      const auto begin = Clock::now();
      active = sliced.step_for(Milliseconds(budget), [&](const dllm::Event& event) {
        events += event.kind() == DLLM_EVENT_DECODE_STEP ? 1 : 0;
        CHECK(event.i32s("changed").data() != nullptr || event.kind() == DLLM_EVENT_BLOCK);
      });
      frames.push_back(Milliseconds(Clock::now() - begin).count());
    }
    CHECK(events == 8);
    CHECK(sliced.ids() == whole.ids() && sliced.confidence() == whole.confidence());
    CHECK(frames.size() > 8 || budget > 0);
    std::sort(frames.begin(), frames.end());
    std::printf("# budget %.0f ms: %zu slices, median %.2f ms, longest %.2f ms (with compilation); "
                "a step is %.2f ms\n",
                budget, frames.size(), frames[frames.size() / 2], frames.back(), steps.back());
  }
}

void test_bounds(const dllm::Model& model) {
  dllm::Decoder decoder = decoder_of(model);
  int64_t active = -1;
  for (const double budget : {-1.0, std::nan(""), -double{INFINITY}, double{INFINITY}})
    CHECK(dllm_decoder_step_for(decoder.get(), budget, nullptr, nullptr, nullptr, &active,
                                nullptr) == DLLM_INVALID_ARGUMENT);
  CHECK(active == -1);
  CHECK(dllm_decoder_step_for(decoder.get(), 1e300, nullptr, nullptr, nullptr, &active, nullptr) ==
        DLLM_OK);
  CHECK(active == 0);
  dllm::Decoder empty(model);
  CHECK(dllm_decoder_step_for(empty.get(), 1, nullptr, nullptr, nullptr, nullptr, nullptr) ==
        DLLM_FAILED_PRECONDITION);
}

// Training goes on between the slices, in the same thread and in another one.
void test_training_between(const world& w, const dllm::Model& model) {
  dllm::Loader loader(make_loader(w.data, R"({"batch": 2, "length": 16, "epochs": 0})", w.err));
  dllm::Trainer trainer(make_trainer(model.get(), nullptr, w.err));
  dllm::Decoder decoder = decoder_of(model);
  for (int i = 0; i < 5; ++i) decoder.step_for(Milliseconds(0));
  CHECK(decoder.is_suspended());
  trainer.step(*loader.next());
  std::thread other([&] { trainer.step(*loader.next()); });
  int64_t active = 1;
  while (active > 0) active = decoder.step_for(Milliseconds(1));
  other.join();
  CHECK(decoder.metric("open") == 0);
}

void test_release(const dllm::Model& model) {
  for (int i = 0; i < 20; ++i) {
    dllm::Decoder decoder = decoder_of(model);
    for (int slice = 0; slice <= i; ++slice) decoder.step_for(Milliseconds(0));
  }
  dllm::Decoder decoder = decoder_of(model);
  const dllm::Task task;
  decoder.step_for(Milliseconds(0), &task);
  const std::vector<int32_t> before = decoder.ids();
  task.cancel();
  CHECK(dllm::attempt([&] { decoder.step_for(Milliseconds(0), &task); }).error().status() ==
        DLLM_CANCELLED);
  CHECK(!decoder.is_suspended() && decoder.ids() == before);
  // A callback that throws, between two slices.
  int thrown = 0;
  try {
    while (true) decoder.step_for(Milliseconds(2), [](const dllm::Event&) { throw 7; });
  } catch (int seven) {
    thrown = seven;
  }
  CHECK(thrown == 7);
  decoder.run();
  CHECK(decoder.metric("open") == 0);
}

#if !defined(DLLM_SANITIZES_THREAD) // it does not follow threads over a fork
// A child of a fork begins the suspended step anew; the parent goes on with it.
void test_fork(const dllm::Model& model) {
  dllm::Decoder whole = decoder_of(model), sliced = decoder_of(model);
  whole.run();
  for (int i = 0; i < 5; ++i) sliced.step_for(Milliseconds(0));
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    while (sliced.step_for(Milliseconds(5)) > 0) {
    }
    _exit(sliced.ids() == whole.ids() ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  while (sliced.step_for(Milliseconds(5)) > 0) {
  }
  CHECK(sliced.ids() == whole.ids());
}
#endif

} // namespace

int main() {
  world w{};
  open_world(&w, 2);
  dllm::Model model(make_model(w.engine, w.tok, 256, 6, w.err));
  test_frames(model);
  test_bounds(model);
  test_release(model);
#if !defined(DLLM_SANITIZES_THREAD)
  test_fork(model);
#endif
  test_training_between(w, model);
  model.reset();
  close_world(&w);
  std::printf("# %d failures\n", failures);
  return failures != 0;
}
