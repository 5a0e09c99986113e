// A process that used the library with two threads forks: child and parent go on with the objects
// they have, and get the numbers of a process that never forked.

#include "world.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Objects {
  world w;
  dllm_trainer* trainer;
  dllm_loader* loader;
};

Objects open_objects() {
  Objects made{};
  open_world(&made.w, 2);
  made.trainer = make_trainer(made.w.model, nullptr, made.w.err);
  made.loader =
      make_loader(made.w.data, "{\"batch\": 4, \"length\": 32, \"epochs\": 0}", made.w.err);
  return made;
}

void close_objects(Objects& objects) {
  dllm_loader_release(objects.loader);
  dllm_trainer_release(objects.trainer);
  close_world(&objects.w);
}

// Two training steps and an answer: the loss, then the ids.
std::vector<double> work(Objects& objects) {
  dllm_error* err = objects.w.err;
  NEED(dllm_trainer_run(objects.trainer, objects.loader, 2, nullptr, nullptr, nullptr, err), err);
  std::vector<double> numbers(1);
  NEED(dllm_trainer_metric(objects.trainer, "loss", numbers.data(), err), err);
  dllm_options* opts = make_options("decoder", "{\"steps\": 4, \"gen_length\": 12}", err);
  dllm_decoder* decoder = nullptr;
  NEED(dllm_decoder_new(objects.w.model, opts, &decoder, err), err);
  NEED(dllm_decoder_start(decoder, nullptr, 0, 3, err), err);
  NEED(dllm_decoder_run(decoder, nullptr, nullptr, nullptr, err), err);
  int32_t ids[64];
  int64_t count = 0;
  NEED(dllm_decoder_ids(decoder, 0, ids, 64, &count, err), err);
  numbers.insert(numbers.end(), ids, ids + count);
  dllm_decoder_release(decoder);
  dllm_options_release(opts);
  return numbers;
}

// What a child that forks off right now gets from `work`; it releases everything and leaves.
std::vector<double> work_in_child(Objects& objects) {
  int ends[2];
  if (::pipe(ends) != 0) return {};
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::vector<double> numbers = work(objects);
    close_objects(objects);
    const ssize_t size = static_cast<ssize_t>(numbers.size() * sizeof(double));
    ::_exit(::write(ends[1], numbers.data(), static_cast<size_t>(size)) == size ? 0 : 1);
  }
  ::close(ends[1]);
  std::vector<double> numbers(256);
  const ssize_t size = ::read(ends[0], numbers.data(), numbers.size() * sizeof(double));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  numbers.resize(size > 0 ? static_cast<size_t>(size) / sizeof(double) : 0);
  return numbers;
}

// A child that forks off while another thread trains: every call is refused in words, and nothing
// hangs.
int refused_in_child(const Objects& objects) {
  dllm_error* err = dllm_error_new();
  dllm_tensor* tensor = nullptr;
  int problems = 0;
  const auto expect = [&](dllm_status status) {
    const std::string message = dllm_error_message(err);
    problems += status != DLLM_FAILED_PRECONDITION || message.find("forked") == message.npos;
  };
  expect(
      dllm_model_param(objects.w.model, dllm_model_param_name(objects.w.model, 0), &tensor, err));
  expect(dllm_model_param(objects.w.model, "lm_head.weight", &tensor, err));
  expect(dllm_trainer_step(objects.trainer, nullptr, nullptr, nullptr, err));
  dllm_engine* engine = nullptr;
  dllm_options* options = nullptr;
  dllm_options_new("engine", &options, nullptr); // needs no handle
  expect(dllm_engine_new(options, &engine, err));
  dllm_engine_release(engine);
  dllm_trainer_release(objects.trainer);
  dllm_model_release(objects.w.model);
  dllm_error_release(err);
  return problems;
}

int32_t count(const dllm_event*, void* steps) {
  static_cast<std::atomic<int>*>(steps)->fetch_add(1);
  return DLLM_CONTINUE;
}

void test_fork_inside_a_call(Objects& objects) {
  dllm_task* task = dllm_task_new();
  std::atomic<int> steps{0};
  std::thread training([&] {
    dllm_trainer_run(objects.trainer, objects.loader, 1 << 30, count, &steps, task, nullptr);
  });
  for (int i = 0; i < 10; ++i) { // at ten moments of a step
    const int before = steps;
    while (steps == before) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(137 * i));
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20); // a call that hangs ends the child by a signal
      ::_exit(refused_in_child(objects));
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  dllm_task_cancel(task);
  training.join();
  dllm_task_release(task);
}

} // namespace

int main() {
  Objects alone = open_objects();
  work(alone);
  const std::vector<double> want = work(alone), then = work(alone);
  close_objects(alone);

  Objects objects = open_objects();
  work(objects);
  CHECK(work_in_child(objects) == want);
  CHECK(work(objects) == want);
  CHECK(work_in_child(objects) == then);
  CHECK(work(objects) == then);
  CHECK(want != then);
  test_fork_inside_a_call(objects);
  close_objects(objects);
  std::printf("# %d failures\n", failures);
  return failures != 0;
}
