#pragma once
// Places that the events of a trainer are written to. Private to src/train.

#include "base/log.h"
#include "base/options.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dllm::train {

// How far a training is, steps before this run included.
struct Progress {
  int64_t done = 0;
  int64_t total = 0;  // 0: not known
  double seconds = 0; // since this run began
  int64_t taken = 0;  // steps of this run
  double budget = 0;  // seconds this run may take; 0: any
};

class Sink {
public:
  virtual ~Sink() = default;
  // Fails once when the place takes no more; what is not written is kept and tried again with the
  // next event, without another error.
  virtual void write(const Event& event, const Progress& progress) = 0;
  // The run ended: a progress line is closed. Fails when lines are still kept.
  virtual void finish() {}
  // Training goes on from this step: what was written, or is kept, of later ones did not happen.
  virtual void rewind(int64_t /*step*/) {}
};

// "jsonl" (target: a file) or "console" (standard error). Fails with not_found for another kind.
std::unique_ptr<Sink> make_sink(const std::string& kind, const std::string& target,
                                const Options& options);

} // namespace dllm::train
