#pragma once
// Writes a checkpoint on a thread of its own while training goes on. Private to src/train.

#include "base/task.h"

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace dllm::train {

enum class SaveState { running, written, failed };

// One write at a time. One thread calls; the write runs on another one and shares nothing with the trainer.
class BackgroundSave {
public:
  using Outcome = std::atomic<SaveState>;

  BackgroundSave() = default;
  // Waits. An error that was not reported before goes to the log.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  // Waits as wait() does, then starts. what: "checkpoint step_000500", for errors. The thread drops its copy
  // of `write` before the outcome changes.
  std::shared_ptr<const Outcome> start(std::string what, std::function<void()> write);
  // Waits until nothing is being written. Fails with the error of the write, once; with that of the task when it is
  // stopped: the write goes on then.
  void wait(const Task* task = nullptr);
  // The same; returns the error, null: there is none.
  std::exception_ptr take_error(const Task* task = nullptr);
  // The same; the error is kept for the next call.
  void wait_until_idle(const Task* task = nullptr);

private:
  void run(const std::shared_ptr<Outcome>& outcome, std::function<void()> write);

  std::mutex mutex_;
  std::condition_variable ended_;
  bool running_ = false;     // guarded by mutex_
  std::exception_ptr error_; // of the last write, not reported yet; guarded by mutex_
  std::string what_;         // of the last write
  std::thread thread_;
  pid_t process_ = 0; // that started the thread: a forked child has none
};

} // namespace dllm::train
