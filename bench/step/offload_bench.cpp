// bench_offload FOLDER [rounds] [threads] [batch] [length]: steps of AdamW on the shape of
// SmolLM2-135M, in turns: resident, offloaded to memory, offloaded to FOLDER while the system has
// the file in its cache, and while it has not. The times are of whole steps.

#include "base/files.h"
#include "cpu/engine.h"
#include "graph/engine.h"
#include "train/trainer.h"
#include "training_model.h"

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace dllm;

std::unique_ptr<train::Trainer> trainer_of(const bench::TrainingSizes& sizes, int64_t threads,
                                           const std::string& place) {
  Options engine_options(graph::engine_schema());
  engine_options.set_i64("threads", threads);
  Options options(train::trainer_schema());
  options.set_str("offload", place);
  return std::make_unique<train::Trainer>(model::new_model(cpu::make_engine(engine_options),
                                                           bench::qwen3_config(sizes),
                                                           Options(model::model_schema())),
                                          noise::make_objective("mdlm"), options);
}

double step_seconds(train::Trainer& trainer, const bench::TrainingSizes& sizes) {
  const Batch batch = bench::batch_of(sizes, trainer.steps_done());
  const auto start = std::chrono::steady_clock::now();
  trainer.step(batch);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Writes the scratch files of this process to the disk and drops them from the system's cache.
void make_cold(const std::string& folder) {
  for (const std::string& name : list_directory("/proc/self/fd")) {
    char target[4096] = {};
    const ssize_t size =
        ::readlink(join_path("/proc/self/fd", name).c_str(), target, sizeof target - 1);
    if (size <= 0 || !std::string(target).starts_with(folder)) continue;
    const int fd = std::atoi(name.c_str());
    ::fsync(fd);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  }
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

} // namespace

int main(int count, char** words) {
  if (count < 2) return 2;
  const auto number = [&](int index, int64_t other) {
    return count > index ? static_cast<int64_t>(std::atoll(words[index])) : other;
  };
  const std::string folder = words[1];
  const int64_t rounds = number(2, 5), threads = number(3, 2);
  const bench::TrainingSizes sizes{30, 576, 9, 1536, 49152, number(4, 4), number(5, 256)};
  struct Row {
    const char* name;
    std::string place;
    bool is_cold;
    std::vector<double> seconds;
  };
  Row rows[] = {{"resident", "", false, {}},
                {"ram", "ram", false, {}},
                {"page cache", folder, false, {}},
                {"cold disk", folder, true, {}}};
  std::vector<std::unique_ptr<train::Trainer>> trainers;
  for (const Row& row : rows) {
    if (row.is_cold) continue; // the same trainer
    trainers.push_back(trainer_of(sizes, threads, row.place));
    step_seconds(*trainers.back(), sizes);
  }
  std::printf("%.1f M parameters, %s\n",
              static_cast<double>(trainers[0]->trained_model().i64("params")) * 1e-6,
              trainers.back()->describe().at("offload").dump().c_str());
  for (int64_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < std::size(rows); ++i) {
      if (rows[i].is_cold) make_cold(folder);
      rows[i].seconds.push_back(step_seconds(*trainers[std::min<size_t>(i, 2)], sizes));
    }
  }
  for (const Row& row : rows) {
    std::printf("%-12s %7.3f s a step, %.3f of resident, from %.3f to %.3f s\n", row.name,
                median(row.seconds), median(row.seconds) / median(rows[0].seconds),
                *std::min_element(row.seconds.begin(), row.seconds.end()),
                *std::max_element(row.seconds.begin(), row.seconds.end()));
  }
}
