#include "train/checkpoint/background_save.h"
#include "base/error.h"
#include "base/log.h"
#include "base/threads/forked_thread.h"

#include <unistd.h>

#include <chrono>
#include <memory>
#include <system_error>
#include <utility>

namespace dllm::train {

BackgroundSave::~BackgroundSave() {
  try {
    wait();
  } catch (const std::exception& error) {
    log(LogLevel::error, "{}", error.what());
  }
}

std::shared_ptr<const BackgroundSave::Outcome> BackgroundSave::start(std::string what,
                                                                     std::function<void()> write) {
  wait();
  what_ = std::move(what);
  process_ = ::getpid();
  auto outcome = std::make_shared<Outcome>(SaveState::running);
  running_ = true;
  try {
    thread_ = std::thread([this, outcome, write]() mutable { run(outcome, std::move(write)); });
  } catch (const std::system_error&) { // no thread can be made: written here
    run(outcome, std::move(write));
  }
  return outcome;
}

void BackgroundSave::run(const std::shared_ptr<Outcome>& outcome, std::function<void()> write) {
  std::exception_ptr error;
  try {
    write();
  } catch (...) {
    error = std::current_exception();
  }
  write = nullptr;
  outcome->store(error == nullptr ? SaveState::written : SaveState::failed,
                 std::memory_order_release);
  const std::lock_guard lock(mutex_);
  error_ = error;
  running_ = false;
  ended_.notify_all();
}

void BackgroundSave::wait_until_idle(const Task* task) {
  if (thread_.joinable() && process_ != ::getpid()) {
    forget_thread(thread_);
    running_ = false;
    return;
  }
  {
    constexpr std::chrono::milliseconds kLook(10); // how often a waiting call looks at its task
    std::unique_lock lock(mutex_);
    while (running_) {
      check_task(task);
      if (task == nullptr)
        ended_.wait(lock);
      else
        ended_.wait_for(lock, kLook);
    }
  }
  if (thread_.joinable()) thread_.join();
}

std::exception_ptr BackgroundSave::take_error(const Task* task) {
  wait_until_idle(task);
  const std::exception_ptr error = std::exchange(error_, nullptr);
  if (error == nullptr) return nullptr;
  try {
    std::rethrow_exception(error);
  } catch (const Error& reason) {
    return std::make_exception_ptr(
        Error(reason.code(), what_ + " was not written: " + reason.text(), reason.hint()));
  } catch (const std::bad_alloc&) {
    return std::make_exception_ptr(
        Error(Code::resource_exhausted, what_ + " was not written: out of memory"));
  } catch (...) {
    return error;
  }
}

void BackgroundSave::wait(const Task* task) {
  if (const std::exception_ptr error = take_error(task)) std::rethrow_exception(error);
}

} // namespace dllm::train
