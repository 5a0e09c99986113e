#pragma once
// Orders the readers and writers of a model's buffers. A writer has a turn. A training step also
// takes the buffers that it writes, and readers wait until it has put new ones.

#include "base/task.h"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace dllm::model {

class ParamTurns {
public:
  using Lock = std::unique_lock<std::mutex>;
  Lock lock() const { return Lock(mutex_); }

  // REQUIRES for all below: the lock is held. A call that waits releases it meanwhile, and fails
  // with aborted for lost buffers, or with the error of the task.
  void check_lost() const;
  void wait_for_writer(Lock& lock, const Task* task) const; // until no writer has its turn
  // Waits until a step may begin: no writer has its turn, and no reader waits.
  void wait_for_readers(Lock& lock, const Task* task) const;
  // Waits until no step has buffers, and no writer has its turn unless is_uploaded() returns true.
  // The next step lets this call go first.
  void wait_to_read(Lock& lock, const Task* task, const std::function<bool()>& is_uploaded);
  void wait_even_if_lost(Lock& lock) const; // until no writer has its turn

  void begin() { turn_ = true; }
  void begin_step() { turn_ = taken_ = true; }
  void end(); // of a turn or a step
  bool has_writer() const { return turn_; }
  bool is_taken() const { return taken_; }

  // Ends the step of buffers that do not exist any more. `why` is not empty.
  void lose(const std::string& why);
  void clear_lost() { lost_.clear(); } // the buffers exist again
  const std::string& lost() const { return lost_; }

private:
  void wait(Lock& lock, const Task* task, const std::function<bool()>& ready) const;

  mutable std::mutex mutex_;
  mutable std::condition_variable moved_; // a turn began or ended, or a waiting reader left
  bool turn_ = false;                     // a writer has its turn
  int64_t waiting_ = 0;                   // readers that wait for buffers
  bool taken_ = false;                    // a step has the buffers
  std::string lost_;
};

} // namespace dllm::model
