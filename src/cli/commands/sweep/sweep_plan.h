#pragma once
// A SweepPlan lists the runs of dllm sweep: one set of options for each point of a grid and each
// draw.

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace dllm::cli {

struct SweepRun {
  std::string name;              // "lr=0.001,hidden=64", the name of its folder
  nlohmann::ordered_json config; // as a file of dllm train --config
};

struct SweepPlan {
  std::string out; // folder of all runs
  std::vector<SweepRun> runs;
};

inline constexpr size_t kMostSweepRuns = 10'000;

// Reads a plan:
//   {"out": "sweeps/first", "train": {"data": "corpus.txt", "steps": 100},
//    "grid": {"lr": [1e-3, 3e-3]}, "random": {"clip": {"from": 0.1, "to": 2, "log": true}},
//    "count": 8, "seed": 0}
// Every point of the grid is trained with `count` draws of the random options. The same plan has
// the same draws, and a larger count adds draws to each point. Throws UsageFailure for anything
// else. shown: the name of the file.
SweepPlan read_sweep(const std::string& text, const std::string& shown);

} // namespace dllm::cli
