#pragma once
// A sink: a place that the events of a trainer are written to. Private to src/train.

#include "base/log.h"
#include "base/options.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dllm::train {

// The progress of a training run. Steps before this run count as done.
struct Progress {
  int64_t done = 0;
  int64_t total = 0;        // 0: unknown
  double seconds = 0;       // since this run began
  int64_t taken = 0;        // steps of this run
  double budget = 0;        // seconds of the whole run; 0: any number
  int64_t token_budget = 0; // tokens of the whole run; 0: any number
  int64_t token_begin = 0;  // tokens of the steps before this run
  double begin_seconds = 0; // of the runs before this run
};

class Sink {
public:
  virtual ~Sink() = default;
  // Writes an event. Fails once when the sink takes no more data. Unwritten data is kept, and the
  // next event tries to write it again without another error.
  virtual void write(const Event& event, const Progress& progress) = 0;
  // Ends the run and closes a progress line. Fails when unwritten data is left.
  virtual void finish() {}
  // Continues training from this step. Lines of later steps, written or kept, are removed.
  virtual void rewind(int64_t /*step*/) {}
};

// Returns the kinds of sinks.
std::vector<std::string> sink_names();
// Makes a sink. target: a file ("jsonl", "csv") or a folder ("tensorboard"); "console" has none and
// writes to standard error. Fails with not_found for another kind.
std::unique_ptr<Sink> make_sink(const std::string& kind, const std::string& target,
                                const Options& options);

// Rewinds all sinks. A sink that cannot be written keeps its later lines, with a line in the log.
void rewind_all(const std::vector<std::unique_ptr<Sink>>& sinks, int64_t step);

} // namespace dllm::train
