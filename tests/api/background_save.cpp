// A checkpoint is written in the background while the trainer takes steps and another thread reads
// its figures: what is on disk is what a save that waits has written, and the weights are those of
// a training without saves.

#include "world.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <unistd.h>

namespace {

namespace fs = std::filesystem;

std::string read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Training {
  explicit Training(const world& w) : err(w.err) {
    model = make_model(w.engine, w.tok, 32, 2, err);
    trainer = make_trainer(model, R"({"ema": 0.9, "lr": 0.01, "warmup": 0})", err);
    loader = make_loader(w.data, R"({"batch": 2, "length": 16, "epochs": 0, "seed": 3})", err);
  }
  ~Training() {
    dllm_trainer_release(trainer);
    dllm_loader_release(loader);
    dllm_model_release(model);
  }
  void steps(int64_t count) {
    NEED(dllm_trainer_run(trainer, loader, count, nullptr, nullptr, nullptr, err), err);
  }
  std::string save(const fs::path& root, bool wait) {
    dllm_options* options =
        make_options("checkpoint", wait ? R"({"wait": true})" : R"({"wait": false})", err);
    dllm_buffer* dir = dllm_buffer_new();
    NEED(dllm_checkpoint_save(trainer, loader, root.c_str(), options, nullptr, dir, err), err);
    std::string made = static_cast<const char*>(dllm_buffer_data(dir));
    dllm_buffer_release(dir);
    dllm_options_release(options);
    return made;
  }

  dllm_error* err;
  dllm_model* model = nullptr;
  dllm_trainer* trainer = nullptr;
  dllm_loader* loader = nullptr;
};

void expect_same(const fs::path& got, const fs::path& want) {
  for (const char* file :
       {"model/model.safetensors", "state/rank_000.safetensors", "trainer.json", "COMMIT"}) {
    CHECK(!read_bytes(want / file).empty());
    CHECK(read_bytes(got / file) == read_bytes(want / file));
  }
}

} // namespace

int main() {
  std::string pattern = "/tmp/dllm_background_XXXXXX";
  const fs::path work = ::mkdtemp(pattern.data());
  world w{};
  open_world(&w, 2);
  std::string waited, last;
  {
    Training plain(w);
    for (int save = 0; save < 3; ++save) {
      plain.steps(3);
      waited = plain.save(work / "waited", true);
    }
    plain.steps(2);
    last = plain.save(work / "waited", true);
  }
  {
    Training training(w);
    std::atomic<bool> done{false};
    bool was_read = true;
    std::thread reader([&] {
      while (!done) {
        double stall = -1;
        const dllm_status status =
            dllm_trainer_metric(training.trainer, "checkpoint_stall_seconds", &stall, nullptr);
        was_read = was_read && status == DLLM_OK && stall >= 0;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    std::string dir;
    for (int save = 0; save < 3; ++save) {
      training.steps(3);
      dir = training.save(work / "background", false);
    }
    training.steps(2);
    NEED(dllm_trainer_sync(training.trainer, w.err), w.err);
    expect_same(dir, waited);
    dir = training.save(work / "background", false);
    done = true;
    reader.join();
    CHECK(was_read);
    dllm_trainer_release(training.trainer); // waits for the write
    training.trainer = nullptr;
    expect_same(dir, last);
  }
  close_world(&w);
  std::error_code ignored;
  fs::remove_all(work, ignored);
  std::printf("# %d failures\n", failures);
  return failures != 0;
}
