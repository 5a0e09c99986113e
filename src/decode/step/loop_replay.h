#pragma once
// A loop replay takes steps that run as a loop on the engine. One launch takes all rows to the end
// of their blocks. Then the host replays the record through the same sessions as without a loop. So
// the canvas on the host stays the truth, and the host detects a loop that decides otherwise.

#include "base/task.h"
#include "decode/loop/loop_program.h"
#include "decode/pass/pass_program.h"
#include "decode/slot/slot.h"
#include "decode/step/step_parts.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace dllm::decode {

class LoopReplay {
public:
  explicit LoopReplay(const StepParts& parts) : parts_(parts) {}

  // Returns whether a step of these slots can run in a loop. The host ends a step that it began
  // (predict), and it checks constraints.
  static bool is_possible(const std::vector<Slot*>& slots);
  // Replays the next step of a loop. Launches a loop of at most `limit` steps if none is left.
  std::vector<Change> take(const std::vector<Slot*>& slots, int64_t limit, const Task* task);
  // Drops the steps that are not replayed yet, because the canvases change otherwise.
  void drop() { launched_.reset(); }

private:
  struct Launch {
    LoopRecord record;
    std::vector<int64_t> slots; // numbers of the slots, by row of the record
  };
  // The launches of one step of the decoder, and the step to replay next.
  struct Launched {
    std::vector<Launch> launches;
    int64_t next = 0;

    int64_t most_steps() const;
  };
  struct Row {
    Slot* slot;
    const LoopRecord* record;
    int64_t row;
  };

  void launch(const std::vector<Slot*>& slots, int64_t limit, const Task* task);
  std::vector<LoopPlan> fill_caches(const std::vector<Slot*>& slots, const Weights& weights,
                                    const Task* task);
  void launch_alike(const std::vector<Slot*>& slots, std::span<const LoopRow> rows,
                    const Weights& weights, int64_t limit, const Task* task, Launched& launched);
  Launch launch_together(const std::vector<Slot*>& slots, std::span<const LoopRow> rows,
                         const Weights& weights, int64_t limit, const Task* task);
  std::map<int64_t, Row> rows_of_step(const Launched& launched);
  std::vector<Change> replay();
  static void replay_predictions(const Row& own, int64_t step);
  static Change replay_step(const Row& own, int64_t step);

  StepParts parts_;
  std::optional<Launched> launched_;
};

} // namespace dllm::decode
