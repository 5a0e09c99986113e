#pragma once
// SweepScore has the numbers of one run of dllm sweep. A table of all runs has the best one first.

#include "../../pictures/report.h"
#include "sweep_plan.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace dllm::cli {

struct SweepScore {
  std::string name, state;
  std::vector<int64_t> continued; // steps from which it went on with other limits
  int64_t steps = 0;
  double lowest = std::nan(""), last = std::nan(""); // held-out losses
  double bits = std::nan("");                        // lowest bits per byte of held-out rows

  // Takes the numbers of a run that has metrics.
  void read(const RunRecord& record);
};

// Returns "continued from step 200, 400"; "" for a run of one start.
std::string continued_text(const std::vector<int64_t>& steps);

// Prints a table, or JSON lines with json. Nats of a token compare only where tokens and objective
// are the same, and bits per byte also where they differ. So bits per byte give the order when each
// run has them. A line on stderr names settings that differ and keep losses from comparing.
// runs: the records of the runs that have metrics.
void print_scores(const SweepPlan& plan, std::vector<SweepScore> scores,
                  const std::vector<RunRecord>& runs, bool json);

} // namespace dllm::cli
