// A process that used the library with two threads forks: child and parent go on with the objects they have, and get the
// numbers of a process that never forked.

#include "world.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
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
  close_objects(objects);
  std::printf("# %d failures\n", failures);
  return failures != 0;
}
