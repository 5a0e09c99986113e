// Two processes save checkpoints and models into the same folders at once. A save works or fails with a documented status;
// what has a COMMIT is whole, and a third run goes on from it.

#include "world.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

namespace {

namespace fs = std::filesystem;

// 0: every call had a status that its block names.
int write_runs(int number, const std::string& root) {
  world w{};
  open_world(&w, 1);
  dllm_trainer* trainer = make_trainer(w.model, nullptr, w.err);
  dllm_loader* loader = make_loader(w.data, "{\"batch\": 2, \"length\": 16, \"epochs\": 0}", w.err);
  dllm_options* checkpoint = make_options("checkpoint", "{\"overwrite\": true, \"keep_last\": 2}", w.err);
  dllm_options* save = make_options("save", "{\"overwrite\": true}", w.err);
  int wrong = 0, saved = 0;
  for (int round = 0; round < 12; ++round) {
    NEED(dllm_trainer_run(trainer, loader, 1, nullptr, nullptr, nullptr, w.err), w.err);
    const dllm_status statuses[] = {
        dllm_checkpoint_save(trainer, loader, (root + "/run").c_str(), checkpoint, nullptr, nullptr, w.err),
        dllm_model_save(w.model, (root + "/model").c_str(), save, nullptr, w.err)};
    for (const dllm_status status : statuses) {
      saved += status == DLLM_OK ? 1 : 0;
      const bool known = status == DLLM_OK || status == DLLM_ALREADY_EXISTS || status == DLLM_NOT_FOUND ||
                         status == DLLM_PERMISSION_DENIED || status == DLLM_RESOURCE_EXHAUSTED ||
                         status == DLLM_UNAVAILABLE || status == DLLM_FAILED_PRECONDITION || status == DLLM_ABORTED;
      if (known && (status == DLLM_OK || std::strlen(dllm_error_message(w.err)) > 0)) continue;
      ++wrong;
      std::printf("# writer %d: %s: %s\n", number, dllm_status_name(status), dllm_error_message(w.err));
    }
  }
  std::printf("# writer %d: %d of 24 saves worked\n", number, saved);
  dllm_options_release(save);
  dllm_options_release(checkpoint);
  dllm_loader_release(loader);
  dllm_trainer_release(trainer);
  close_world(&w);
  std::fflush(stdout);
  return wrong > 0 || saved == 0 ? 1 : 0;
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

  world w{};
  open_world(&w, 1);
  int whole = 0;
  for (const auto& entry : fs::directory_iterator(root + "/run")) {
    if (!fs::exists(entry.path() / "COMMIT") || entry.path().filename().string().find('.') != std::string::npos) continue;
    dllm_checkpoint* checkpoint = nullptr;
    NEED(dllm_checkpoint_open(entry.path().c_str(), &checkpoint, w.err), w.err);
    NEED(dllm_checkpoint_verify(checkpoint, nullptr, w.err), w.err);
    dllm_checkpoint_release(checkpoint);
    ++whole;
  }
  std::printf("# %d checkpoints are whole\n", whole);
  CHECK(whole >= 1);
  dllm_trainer* trainer = make_trainer(w.model, nullptr, w.err);
  dllm_loader* loader = make_loader(w.data, "{\"batch\": 2, \"length\": 16, \"epochs\": 0}", w.err);
  dllm_buffer* dir = dllm_buffer_new();
  NEED(dllm_checkpoint_latest((root + "/run").c_str(), dir, w.err), w.err);
  NEED(dllm_checkpoint_restore(trainer, loader, static_cast<const char*>(dllm_buffer_data(dir)), nullptr, w.err), w.err);
  NEED(dllm_trainer_run(trainer, loader, 1, nullptr, nullptr, nullptr, w.err), w.err);
  dllm_model* model = nullptr;
  NEED(dllm_model_load(w.engine, (root + "/model").c_str(), nullptr, nullptr, &model, w.err), w.err);
  dllm_model_release(model);
  dllm_buffer_release(dir);
  dllm_loader_release(loader);
  dllm_trainer_release(trainer);
  close_world(&w);
  fs::remove_all(root);
  std::printf("# %d failures\n", failures);
  return failures != 0;
}
