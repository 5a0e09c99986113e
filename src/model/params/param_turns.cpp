#include "model/params/param_turns.h"

#include "base/error.h"

#include <chrono>
#include <utility>

namespace dllm::model {

void ParamTurns::check_lost() const {
  if (lost_.empty()) return;
  fail_with_hint("restore a checkpoint into its trainer, or load the model again", Code::aborted,
                 "the model's weights were lost: {}", lost_);
}

void ParamTurns::wait(Lock& lock, const Task* task, const std::function<bool()>& ready) const {
  constexpr std::chrono::milliseconds kLook(10); // how often a waiting call looks at its task
  for (check_lost(); !ready(); check_lost()) {
    check_task(task);
    if (task == nullptr)
      moved_.wait(lock);
    else
      moved_.wait_for(lock, kLook);
  }
}

void ParamTurns::wait_for_writer(Lock& lock, const Task* task) const {
  wait(lock, task, [this] { return !turn_; });
}

void ParamTurns::wait_for_readers(Lock& lock, const Task* task) const {
  wait(lock, task, [this] { return !turn_ && waiting_ == 0; });
}

void ParamTurns::wait_to_read(Lock& lock, const Task* task,
                              const std::function<bool()>& is_uploaded) {
  const auto is_ready = [&] { return !taken_ && (is_uploaded() || !turn_); };
  check_lost();
  if (is_ready()) return;
  ++waiting_;
  try {
    wait(lock, task, is_ready);
  } catch (...) {
    --waiting_;
    moved_.notify_all();
    throw;
  }
  --waiting_;
  moved_.notify_all();
}

void ParamTurns::wait_even_if_lost(Lock& lock) const {
  moved_.wait(lock, [this] { return !turn_; });
}

void ParamTurns::end() {
  turn_ = taken_ = false;
  moved_.notify_all();
}

void ParamTurns::lose(const std::string& why) {
  lost_ = why;
  if (std::exchange(taken_, false)) turn_ = false;
  moved_.notify_all();
}

} // namespace dllm::model
