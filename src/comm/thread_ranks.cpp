#include "comm/thread_ranks.h"

#include "base/error.h"
#include "base/task.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace dllm::comm {
namespace {

// One member's arguments of a collective call, on the stack of the caller.
struct RankCall {
  std::string what; // equal on all members
  const std::byte* in;
  std::byte* out;
};
using RankCalls = std::vector<const RankCall*>; // by member

// The state that all ranks share.
class MeetingPlace {
public:
  explicit MeetingPlace(int64_t size) : size_(size) {}

  int64_t size() const { return size_; }

  // Waits until every member of the group has called, runs work(calls, member) of all members at
  // the same time, and returns when all have finished. Adds the microseconds of the first wait to
  // waited_us. REQUIRES: work does not throw.
  template <class Work>
  void exchange(int64_t rank, Group group, const RankCall& call, const Task* task,
                std::atomic<int64_t>& waited_us, Work&& work) {
    const std::vector<int64_t> members(group.begin(), group.end());
    const auto member = static_cast<size_t>(std::ranges::find(members, rank) - members.begin());
    if (member == members.size()) fail(Code::internal, "rank {} is not in its group", rank);
    std::unique_lock lock(mutex_);
    fail_if_aborted();
    Meeting& meeting = meetings_[members];
    meeting.calls.resize(members.size());
    meeting.calls[member] = &call;
    const int64_t round = meeting.round;
    if (++meeting.arrived == members.size()) {
      expect_same(meeting.calls);
      ++meeting.round;
      changed_.notify_all();
    }
    const auto begin = std::chrono::steady_clock::now();
    while (meeting.round == round) {
      fail_if_aborted();
      wait_for_change(lock, rank, task);
    }
    waited_us += std::chrono::duration_cast<std::chrono::microseconds>(
                     std::chrono::steady_clock::now() - begin)
                     .count();
    lock.unlock();
    work(meeting.calls, member);
    lock.lock();
    // A member waits for the others, because they may still read or write its arrays.
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

private:
  struct Meeting {
    RankCalls calls;
    size_t arrived = 0, done = 0;
    int64_t round = 0, ended = 0;
  };

  void abort_locked(int64_t rank, const Error& reason) noexcept {
    if (failure_) return;
    try {
      failure_.emplace(reason.code(), fmt::format("rank {} failed: {}", rank, reason.text()),
                       reason.hint());
    } catch (...) {
      failure_.emplace(Code::resource_exhausted, "a rank failed");
    }
    changed_.notify_all();
  }
  void fail_if_aborted() const {
    if (failure_) throw Error(*failure_);
  }
  void expect_same(const RankCalls& calls) {
    for (const RankCall* call : calls) {
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
    // Uses the system clock, because ThreadSanitizer does not follow waits on the steady clock.
    changed_.wait_until(lock, std::chrono::system_clock::now() + std::chrono::milliseconds(2));
  }

  const int64_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::vector<int64_t>, Meeting> meetings_; // by group
  std::optional<Error> failure_;
  int64_t restarting_ = 0, restarts_ = 0;
};

void copy_piece(void* out, size_t to, const std::byte* in, size_t from, int64_t bytes) {
  if (bytes == 0) return;
  std::memcpy(static_cast<std::byte*>(out) + static_cast<int64_t>(to) * bytes,
              in + static_cast<int64_t>(from) * bytes, static_cast<size_t>(bytes));
}

class ThreadRank final : public Communicator {
public:
  ThreadRank(std::shared_ptr<MeetingPlace> place, int64_t rank)
      : place_(std::move(place)), rank_(rank) {}

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return place_->size(); }
  int64_t bytes_sent() const override { return bytes_sent_; }
  int64_t waited_us() const override { return waited_us_; }

  // Each member reduces its share of the elements and writes it into the array of every member.
  void all_reduce(Group group, Reduction reduction, DType dtype, const void* in, void* out,
                  int64_t count, const Task* task) override {
    const std::string what =
        fmt::format("all_reduce {} {}[{}]", reduction_name(reduction), dtype_name(dtype), count);
    exchange(group, what, in, out, task, [&](const RankCalls& calls, size_t member) {
      const auto members = static_cast<int64_t>(calls.size()), own = static_cast<int64_t>(member);
      const int64_t begin = count * own / members, end = count * (own + 1) / members;
      bytes_sent_ += (count + (members - 2) * (end - begin)) * dtype_size(dtype);
      const int64_t offset = begin * dtype_size(dtype);
      std::vector<const void*> parts;
      for (const RankCall* call : calls) parts.push_back(call->in + offset);
      std::byte* const mine = calls[member]->out + offset;
      reduce(reduction, dtype, parts, mine, end - begin);
      for (const RankCall* call : calls) {
        if (call != calls[member])
          copy_piece(call->out + offset, 0, mine, 0, (end - begin) * dtype_size(dtype));
      }
    });
  }
  void all_gather(Group group, const void* in, void* out, int64_t bytes,
                  const Task* task) override {
    exchange(group, fmt::format("all_gather of {} bytes", bytes), in, out, task,
             [&](const RankCalls& calls, size_t) {
               bytes_sent_ += bytes * static_cast<int64_t>(calls.size() - 1);
               for (size_t m = 0; m < calls.size(); ++m) copy_piece(out, m, calls[m]->in, 0, bytes);
             });
  }
  void gather(Group group, int64_t to, const void* in, void* out, int64_t bytes,
              const Task* task) override {
    exchange(group, fmt::format("gather of {} bytes to member {}", bytes, to), in, out, task,
             [&](const RankCalls& calls, size_t member) {
               const bool gets = member == static_cast<size_t>(to);
               if (!gets) bytes_sent_ += bytes;
               for (size_t m = 0; gets && m < calls.size(); ++m)
                 copy_piece(out, m, calls[m]->in, 0, bytes);
             });
  }
  void reduce_scatter(Group group, Reduction reduction, DType dtype, const void* in, void* out,
                      int64_t count, const Task* task) override {
    const std::string what = fmt::format("reduce_scatter {} {}[{}]", reduction_name(reduction),
                                         dtype_name(dtype), count);
    exchange(group, what, in, out, task, [&](const RankCalls& calls, size_t member) {
      std::vector<const void*> parts;
      for (const RankCall* call : calls)
        parts.push_back(call->in + static_cast<int64_t>(member) * count * dtype_size(dtype));
      reduce(reduction, dtype, parts, out, count);
      bytes_sent_ += count * dtype_size(dtype) * static_cast<int64_t>(calls.size() - 1);
    });
  }
  void all_to_all(Group group, const void* in, void* out, int64_t bytes,
                  const Task* task) override {
    exchange(group, fmt::format("all_to_all of {} bytes", bytes), in, out, task,
             [&](const RankCalls& calls, size_t member) {
               bytes_sent_ += bytes * static_cast<int64_t>(calls.size() - 1);
               for (size_t m = 0; m < calls.size(); ++m)
                 copy_piece(out, m, calls[m]->in, member, bytes);
             });
  }
  void permute(Group group, std::span<const int64_t> target, const void* in, void* out,
               int64_t bytes, const Task* task) override {
    exchange(group, fmt::format("permute of {} bytes", bytes), in, out, task,
             [&](const RankCalls& calls, size_t member) {
               if (target[member] != static_cast<int64_t>(member)) bytes_sent_ += bytes;
               for (size_t m = 0; m < calls.size(); ++m) {
                 if (target[m] == static_cast<int64_t>(member))
                   copy_piece(out, 0, calls[m]->in, 0, bytes);
               }
             });
  }
  void barrier(Group group, const Task* task) override {
    exchange(group, "barrier", nullptr, nullptr, task, [](const RankCalls&, size_t) {});
  }
  void abort(const Error& reason) noexcept override { place_->abort(rank_, reason); }
  void restart(const Task* task) override { place_->restart(rank_, task); }

private:
  template <class Work>
  void exchange(Group group, std::string what, const void* in, void* out, const Task* task,
                Work&& work) {
    const RankCall call{std::move(what), static_cast<const std::byte*>(in),
                        static_cast<std::byte*>(out)};
    place_->exchange(rank_, group, call, task, waited_us_, work);
  }

  std::shared_ptr<MeetingPlace> place_;
  int64_t rank_;
  std::atomic<int64_t> bytes_sent_{0}, waited_us_{0}; // read by any thread
};

} // namespace

std::vector<std::shared_ptr<Communicator>> make_thread_ranks(int64_t size) {
  const auto place = std::make_shared<MeetingPlace>(size);
  std::vector<std::shared_ptr<Communicator>> ranks;
  for (int64_t rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_shared<ThreadRank>(place, rank));
  return ranks;
}

} // namespace dllm::comm
