#pragma once
// Ranks of one process: threads that exchange arrays over shared memory. The transport of the tests; every rank has a
// CPU engine of its own.

#include "base/error.h"
#include "comm/communicator.h"
#include "cpu/engine.h"
#include "graph/engine.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace dllm::test {

// What all ranks of one process share.
class ThreadRanks {
public:
  explicit ThreadRanks(int64_t size) : size_(size) {}

  // One member's part of a collective call; lives on the stack of the caller.
  struct Call {
    std::string what; // equal on all members
    const std::byte* in;
  };
  using Work = std::function<void(const std::vector<const Call*>& calls, size_t member)>;

  // Waits until every member of the group is here, runs `work` of each, and returns when all have done theirs.
  void exchange(int64_t rank, comm::Group group, const Call& call, const Task* task,
                const Work& work) {
    const std::vector<int64_t> members(group.begin(), group.end());
    const auto member =
        static_cast<size_t>(std::find(members.begin(), members.end(), rank) - members.begin());
    std::unique_lock lock(mutex_);
    fail_if_aborted();
    if (member == members.size()) fail(Code::internal, "rank {} is not in its group", rank);
    Meeting& meeting = meetings_[members];
    meeting.calls.resize(members.size());
    meeting.calls[member] = &call;
    const int64_t round = meeting.round;
    if (++meeting.arrived == members.size()) {
      expect_same(meeting.calls);
      ++meeting.round;
      changed_.notify_all();
    }
    while (meeting.round == round) {
      fail_if_aborted();
      wait_for_change(lock, rank, task);
    }
    lock.unlock();
    work(meeting.calls, member);
    lock.lock();
    // Not left early: others may still read this member's array.
    const int64_t end = meeting.ended;
    if (++meeting.done == members.size()) {
      meeting.arrived = meeting.done = 0;
      ++meeting.ended;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return meeting.ended != end; });
  }

  void abort(int64_t rank, const Error& reason) noexcept {
    const std::lock_guard lock(mutex_);
    abort_locked(rank, reason);
  }

  void restart(int64_t rank, const Task* task) {
    std::unique_lock lock(mutex_);
    const int64_t round = restarts_;
    if (++restarting_ == size_) {
      restarting_ = 0;
      ++restarts_;
      failure_.reset();
      meetings_.clear();
      changed_.notify_all();
    }
    while (restarts_ == round) {
      if (should_stop(task)) --restarting_;
      wait_for_change(lock, rank, task);
    }
  }

  int64_t size() const { return size_; }

private:
  struct Meeting {
    std::vector<const Call*> calls; // by member
    size_t arrived = 0, done = 0;
    int64_t round = 0, ended = 0;
  };

  void abort_locked(int64_t rank, const Error& reason) {
    if (failure_) return;
    failure_.emplace(reason.code(), fmt::format("rank {} failed: {}", rank, reason.text()),
                     reason.hint());
    changed_.notify_all();
  }
  void fail_if_aborted() const {
    if (failure_) throw Error(*failure_);
  }
  void expect_same(const std::vector<const Call*>& calls) {
    for (const Call* call : calls) {
      if (call->what == calls[0]->what) continue;
      abort_locked(0, Error(Code::failed_precondition,
                            fmt::format("ranks disagree: {} and {}", calls[0]->what, call->what)));
      fail_if_aborted();
    }
  }
  void wait_for_change(std::unique_lock<std::mutex>& lock, int64_t rank, const Task* task) {
    try {
      check_task(task);
    } catch (const Error& error) {
      abort_locked(rank, error);
      throw;
    }
    // The system clock: ThreadSanitizer does not follow waits on the steady one.
    changed_.wait_until(lock, std::chrono::system_clock::now() + std::chrono::milliseconds(2));
  }

  const int64_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::vector<int64_t>, Meeting> meetings_;
  std::optional<Error> failure_;
  int64_t restarting_ = 0, restarts_ = 0;
};

class ThreadCommunicator final : public comm::Communicator {
public:
  ThreadCommunicator(std::shared_ptr<ThreadRanks> ranks, int64_t rank)
      : ranks_(std::move(ranks)), rank_(rank) {}

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return ranks_->size(); }

  void all_reduce(comm::Group group, comm::Reduction reduction, DType dtype, const void* in,
                  void* out, int64_t count, const Task* task) override {
    const std::string what =
        fmt::format("all_reduce {} {}[{}]", reduction_name(reduction), dtype_name(dtype), count);
    exchange(group, what, in, task, [&](const auto& calls, size_t) {
      std::vector<const void*> parts;
      for (const ThreadRanks::Call* call : calls) parts.push_back(call->in);
      comm::reduce(reduction, dtype, parts, out, count);
    });
  }
  void all_gather(comm::Group group, const void* in, void* out, int64_t bytes,
                  const Task* task) override {
    exchange(group, fmt::format("all_gather of {} bytes", bytes), in, task,
             [&](const auto& calls, size_t) {
               for (size_t m = 0; m < calls.size(); ++m) copy(out, m, calls[m]->in, 0, bytes);
             });
  }
  void reduce_scatter(comm::Group group, comm::Reduction reduction, DType dtype, const void* in,
                      void* out, int64_t count, const Task* task) override {
    const std::string what = fmt::format("reduce_scatter {} {}[{}]", reduction_name(reduction),
                                         dtype_name(dtype), count);
    exchange(group, what, in, task, [&](const auto& calls, size_t member) {
      std::vector<const void*> parts;
      for (const ThreadRanks::Call* call : calls)
        parts.push_back(call->in + static_cast<int64_t>(member) * count * dtype_size(dtype));
      comm::reduce(reduction, dtype, parts, out, count);
    });
  }
  void all_to_all(comm::Group group, const void* in, void* out, int64_t bytes,
                  const Task* task) override {
    exchange(group, fmt::format("all_to_all of {} bytes", bytes), in, task,
             [&](const auto& calls, size_t member) {
               for (size_t m = 0; m < calls.size(); ++m) copy(out, m, calls[m]->in, member, bytes);
             });
  }
  void permute(comm::Group group, std::span<const int64_t> target, const void* in, void* out,
               int64_t bytes, const Task* task) override {
    exchange(group, fmt::format("permute of {} bytes", bytes), in, task,
             [&](const auto& calls, size_t member) {
               for (size_t m = 0; m < calls.size(); ++m) {
                 if (target[m] == static_cast<int64_t>(member))
                   copy(out, 0, calls[m]->in, 0, bytes);
               }
             });
  }
  void barrier(comm::Group group, const Task* task) override {
    exchange(group, "barrier", nullptr, task, [](const auto&, size_t) {});
  }
  void abort(const Error& reason) noexcept override { ranks_->abort(rank_, reason); }
  void restart(const Task* task) override { ranks_->restart(rank_, task); }

private:
  template <class F>
  void exchange(comm::Group group, std::string what, const void* in, const Task* task, F&& work) {
    ranks_->exchange(rank_, group, {std::move(what), static_cast<const std::byte*>(in)}, task,
                     work);
  }
  static void copy(void* out, size_t to, const std::byte* in, size_t from, int64_t bytes) {
    if (bytes == 0) return;
    std::memcpy(static_cast<std::byte*>(out) + static_cast<int64_t>(to) * bytes,
                in + static_cast<int64_t>(from) * bytes, static_cast<size_t>(bytes));
  }

  std::shared_ptr<ThreadRanks> ranks_;
  int64_t rank_;
};

// Several ranks of one process, each with an engine; run() starts a thread per rank.
class RankThreads {
public:
  explicit RankThreads(int64_t size, const char* check = "none")
      : ranks_(std::make_shared<ThreadRanks>(size)) {
    for (int64_t rank = 0; rank < size; ++rank) {
      communicators_.push_back(std::make_shared<ThreadCommunicator>(ranks_, rank));
      Options options(graph::engine_schema());
      options.set_i64("threads", 1);
      options.set_str("check", check);
      engines_.push_back(cpu::make_engine(options, communicators_.back()));
    }
  }
  graph::Engine& engine(int64_t rank) { return *engines_[static_cast<size_t>(rank)]; }
  comm::Communicator& communicator(int64_t rank) {
    return *communicators_[static_cast<size_t>(rank)];
  }

  // fn(rank) on a thread each. The errors by rank; Code::ok where there was none.
  std::vector<Error> run(const std::function<void(int64_t rank)>& fn) {
    std::vector<Error> errors(engines_.size(), Error(Code::ok, ""));
    std::vector<std::thread> threads;
    for (size_t r = 0; r < engines_.size(); ++r) {
      threads.emplace_back([&, r] {
        try {
          fn(static_cast<int64_t>(r));
        } catch (const Error& error) {
          errors[r] = error;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

private:
  std::shared_ptr<ThreadRanks> ranks_;
  std::vector<std::shared_ptr<ThreadCommunicator>> communicators_;
  std::vector<std::shared_ptr<graph::Engine>> engines_;
};

} // namespace dllm::test
