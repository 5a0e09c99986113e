#pragma once
// Writes a checkpoint on a thread of its own while training goes on. Private to src/train.

#include "base/task.h"
#include "tensor/copy_pool.h"

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

// Runs one write at a time. One thread calls this object. The write runs on another thread and
// shares nothing with the trainer.
class BackgroundSave {
public:
  using Outcome = std::atomic<SaveState>;

  BackgroundSave() = default;
  // Waits for the write. An unreported error goes to the log.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  // Waits as wait() does, then starts `write`. `what` names the write in errors: "checkpoint
  // step_000500". The thread destroys its copy of `write` before the outcome changes.
  std::shared_ptr<const Outcome> start(std::string what, std::function<void()> write);
  // Waits for the end of the write. Fails with the error of the write, once. A stopped task ends
  // the wait with the task's error; the write continues.
  void wait(const Task* task = nullptr);
  // Waits as wait() does, but returns the error of the write; null: no error.
  std::exception_ptr take_error(const Task* task = nullptr);
  // Waits as wait() does, but keeps the error of the write for the next call.
  void wait_until_idle(const Task* task = nullptr);

private:
  void run(const std::shared_ptr<Outcome>& outcome, std::function<void()> write);

  std::mutex mutex_;
  std::condition_variable ended_;
  bool running_ = false;     // guarded by mutex_
  std::exception_ptr error_; // unreported error of the last write; guarded by mutex_
  std::string what_;         // of the last write
  std::thread thread_;
  // The process that started the thread. A forked child does not have the thread.
  pid_t process_ = 0;
};

// What the saves of a trainer share: storage for copies, and the thread that writes them.
struct SaveSlot {
  CopyPool copies;
  double stall_seconds = 0;  // that training stood still for saves
  BackgroundSave background; // last member: its destructor waits for the write first
};

} // namespace dllm::train
