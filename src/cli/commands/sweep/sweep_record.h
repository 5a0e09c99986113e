#pragma once
// A SweepRecord keeps how the runs of dllm sweep ended, in out/sweep.json:
//   {"NAME": {"state": "finished", "config": {...}, "continued_from": [200]}}

#include "sweep_plan.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::cli {

class SweepRecord {
public:
  explicit SweepRecord(const std::string& out); // folder of the sweep

  void set(const SweepRun& run, const std::string& state, const std::string& message = "",
           const std::string& hint = "");
  // Returns how this run ended with the same options: "finished" or "failed"; "" when it has not.
  std::string state(const SweepRun& run) const;
  // Adds a step from which the run goes on with other limits; 0 forgets all steps.
  void set_continued(const SweepRun& run, int64_t step);
  std::vector<int64_t> continued_from(const SweepRun& run) const;
  // Returns the names of the runs that have a state and that the plan does not make.
  std::vector<std::string> others(const SweepPlan& plan) const;

private:
  void write() const;

  std::string path_;
  nlohmann::ordered_json runs_;
};

} // namespace dllm::cli
