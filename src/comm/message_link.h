#pragma once
// Exchanges messages between the members of a group: heads that name each member's call, pieces of
// arrays, and notices of failures. Private to src/comm.

#include "base/error.h"
#include "base/task.h"
#include "comm/communicator.h"
#include "comm/transport.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dllm::comm {

// The bytes that this rank sends to a member (`from`) or receives from it (`to`).
struct Piece {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t bytes = 0;
};

class MessageLink {
public:
  MessageLink(std::shared_ptr<Transport> transport, int32_t channel);
  ~MessageLink();
  MessageLink(const MessageLink&) = delete;
  MessageLink& operator=(const MessageLink&) = delete;

  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }
  // For every member m but this rank, sends gives[m] to m and receives gets[m] from m. what: names
  // the call; if it differs between members, all of them fail.
  void exchange(Group group, const std::string& what, const std::vector<Piece>& gives,
                const std::vector<Piece>& gets, const Task* task);
  // Returns on all members or throws on all members.
  void barrier(Group group, const Task* task);
  void abort(const Error& reason) noexcept;
  void restart(const Task* task);
  void watch_processes(std::function<std::string()> find_ended) {
    find_ended_ = std::move(find_ended);
  }
  // Makes waits sleep after a few turns, for ranks that share a processor: the awaited rank needs
  // it.
  void share_processor() { yields_ = kYieldsOfShared; }
  int64_t bytes_sent() const { return bytes_sent_; }
  int64_t waited_us() const { return waited_us_; }

private:
  // The first message of a call to each member. It contains the piece if the piece is short.
  struct Head {
    static constexpr int64_t kTextBytes = 112;
    uint64_t group = 0; // hash of the ranks
    int64_t bytes = 0;  // size of the piece
    std::array<char, kTextBytes> what{};
    std::array<std::byte, Transport::kQuickBytes - 128> piece{};
  };
  enum class News : int32_t { failed, restarts, leaves };
  struct Notice {
    News news = News::failed;
    int32_t round = 0;
    int32_t code = 0;
    int64_t barriers = 0; // barriers of all ranks that the sender has passed in this round
    std::array<char, 1200> text{};
    std::array<char, 400> hint{};
  };
  struct Failure {
    Error error;
    int64_t barriers = 0;
  };
  using Lock = std::unique_lock<std::mutex>;
  using Clock = std::chrono::steady_clock;
  class Requests;

  int32_t data_tag() const;
  void meet(Lock& lock, Group group, const std::string& what, const std::vector<Piece>& gives,
            const std::vector<Piece>& gets, const Task* task, int64_t barrier);
  void check_heads(const std::string& what, Group group, const std::vector<Piece>& gets);
  void wait(Lock& lock, Requests& open, const Task* task, int64_t barrier);
  void check_waiting(Lock& lock, const Task* task);
  void check_others(Clock::time_point since, const Requests* open);
  void pause(Lock& lock, int64_t turn) const;
  void take_notices();
  void take_in(int64_t from, const Notice& notice);
  void notify_all(const Notice& notice);
  void abort_locked(const Error& reason) noexcept;
  void fail_if_aborted(int64_t barrier) const;

  const std::shared_ptr<Transport> transport_;
  const int32_t channel_;
  const int64_t rank_, size_;
  std::mutex mutex_;  // guards the transport and the members below
  int32_t round_ = 0; // number of restarts
  std::optional<Failure> failure_;
  std::vector<bool> restarts_;                    // by rank: it has called restart() in this round
  std::vector<std::pair<int64_t, Notice>> early_; // sender and notice, of the next round
  std::vector<bool> gone_;                        // by rank: it has made its last call
  std::string ended_; // sentence that names a rank whose process has ended; may be empty
  Clock::time_point gone_at_;
  Clock::time_point looked_at_; // time of the last call of find_ended_
  std::function<std::string()> find_ended_;
  static constexpr int64_t kYields = 2000, kYieldsOfShared = 20;
  int64_t yields_ = kYields; // turns of a wait before it sleeps
  int64_t barriers_ = 0;     // barriers of all ranks that this rank has passed in this round
  std::vector<std::unique_ptr<Head>> out_, in_;       // by member
  std::atomic<int64_t> bytes_sent_{0}, waited_us_{0}; // read by any thread
};

} // namespace dllm::comm
