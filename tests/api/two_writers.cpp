// Two processes save checkpoints and models into the same folders at once: one save waits for the
// other, and every one works. A writer that comes alone afterwards saves and goes on in the same
// folder.

#include "world.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

namespace {

namespace fs = std::filesystem;

// The number of saves that failed.
int write_runs(int number, const std::string& root) {
  world w{};
  open_world(&w, 1);
  dllm_trainer* trainer = make_trainer(w.model, nullptr, w.err);
  dllm_loader* loader = make_loader(w.data, "{\"batch\": 2, \"length\": 16, \"epochs\": 0}", w.err);
  dllm_options* checkpoint =
      make_options("checkpoint", "{\"overwrite\": true, \"keep_last\": 2}", w.err);
  dllm_options* save = make_options("save", "{\"overwrite\": true}", w.err);
  int wrong = 0;
  const auto judge = [&](dllm_status status) {
    if (status == DLLM_OK) return;
    ++wrong;
    std::printf("# writer %d: %s: %s\n", number, dllm_status_name(status),
                dllm_error_message(w.err));
  };
  for (int round = 0; round < 12; ++round) {
    NEED(dllm_trainer_run(trainer, loader, 1, nullptr, nullptr, nullptr, w.err), w.err);
    judge(dllm_checkpoint_save(trainer, loader, (root + "/run").c_str(), checkpoint, nullptr,
                               nullptr, w.err));
    judge(dllm_model_save(w.model, (root + "/model").c_str(), save, nullptr, w.err));
  }
  dllm_options_release(save);
  dllm_options_release(checkpoint);
  dllm_loader_release(loader);
  dllm_trainer_release(trainer);
  close_world(&w);
  std::fflush(stdout);
  return wrong;
}

int run_writers(const std::string& root) {
  pid_t children[2];
  for (int number = 0; number < 2; ++number) {
    children[number] = ::fork();
    if (children[number] == 0) ::_exit(write_runs(number, root));
  }
  int wrong = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    wrong += status;
  }
  return wrong;
}

} // namespace

int main() {
  std::string pattern = "/tmp/dllm_writers_XXXXXX";
  const std::string root = ::mkdtemp(pattern.data());
  CHECK(run_writers(root) == 0);

  // Alone from here on: train past the steps that are there, save, restore.
  world w{};
  open_world(&w, 1);
  dllm_trainer* trainer = make_trainer(w.model, nullptr, w.err);
  dllm_loader* loader = make_loader(w.data, "{\"batch\": 2, \"length\": 16, \"epochs\": 0}", w.err);
  dllm_buffer *saved = dllm_buffer_new(), *latest = dllm_buffer_new();
  const std::string run = root + "/run";
  NEED(dllm_trainer_run(trainer, loader, 20, nullptr, nullptr, nullptr, w.err), w.err);
  NEED(dllm_checkpoint_save(trainer, loader, run.c_str(), nullptr, nullptr, saved, w.err), w.err);
  NEED(dllm_checkpoint_latest(run.c_str(), latest, w.err), w.err);
  const std::string dir = static_cast<const char*>(dllm_buffer_data(latest));
  CHECK(dir == static_cast<const char*>(dllm_buffer_data(saved)));
  dllm_checkpoint* checkpoint = nullptr;
  NEED(dllm_checkpoint_open(dir.c_str(), &checkpoint, w.err), w.err);
  NEED(dllm_checkpoint_verify(checkpoint, nullptr, w.err), w.err);
  dllm_checkpoint_release(checkpoint);
  NEED(dllm_checkpoint_restore(trainer, loader, dir.c_str(), nullptr, w.err), w.err);
  NEED(dllm_trainer_run(trainer, loader, 1, nullptr, nullptr, nullptr, w.err), w.err);
  dllm_buffer_release(latest);
  dllm_buffer_release(saved);
  dllm_loader_release(loader);
  dllm_trainer_release(trainer);
  close_world(&w);
  fs::remove_all(root);
  std::printf("# %d failures\n", failures);
  return failures != 0;
}
