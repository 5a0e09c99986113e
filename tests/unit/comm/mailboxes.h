#pragma once
// Messages between threads of a test: a Transport without MPI.

#include "comm/message_ranks.h"
#include "comm/transport.h"

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

namespace dllm::comm::test {

// What was sent and not received, by sender, receiver and tag.
struct Mailboxes {
  std::mutex mutex;
  std::map<std::tuple<int64_t, int64_t, int32_t>, std::deque<std::vector<std::byte>>> waiting;
};

class MailTransport final : public Transport {
public:
  MailTransport(std::shared_ptr<Mailboxes> boxes, int64_t rank, int64_t size)
      : boxes_(std::move(boxes)), rank_(rank), size_(size) {}

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  Request send(int64_t to, int32_t tag, const void* bytes, int64_t count) override {
    const auto* from = static_cast<const std::byte*>(bytes);
    const std::lock_guard lock(boxes_->mutex);
    boxes_->waiting[{rank_, to, tag}].emplace_back(from, from + count);
    return new Open{};
  }
  Request receive(int64_t from, int32_t tag, void* bytes, int64_t count) override {
    return new Open{from, tag, bytes, static_cast<size_t>(count)};
  }
  bool done(Request request) override {
    auto* open = static_cast<Open*>(request);
    if (open->bytes != nullptr && !fetch(*open)) return false;
    delete open;
    return true;
  }
  void drop(Request request) noexcept override { delete static_cast<Open*>(request); }
  std::optional<int64_t> take(int32_t tag, std::span<std::byte> room) override {
    for (int64_t from = 0; from < size_; ++from) {
      if (fetch({from, tag, room.data(), room.size()})) return from;
    }
    return std::nullopt;
  }

private:
  struct Open {
    int64_t from = 0;
    int32_t tag = 0;
    void* bytes = nullptr; // null: a send, which is over at once
    size_t count = 0;
  };
  bool fetch(const Open& open) {
    const std::lock_guard lock(boxes_->mutex);
    auto& box = boxes_->waiting[{open.from, rank_, open.tag}];
    if (box.empty()) return false;
    std::memcpy(open.bytes, box.front().data(), std::min(open.count, box.front().size()));
    box.pop_front();
    return true;
  }

  std::shared_ptr<Mailboxes> boxes_;
  int64_t rank_, size_;
};

// The communicators of `size` ranks that exchange messages, by rank.
inline std::vector<std::shared_ptr<Communicator>> make_message_ranks(int64_t size) {
  const auto boxes = std::make_shared<Mailboxes>();
  std::vector<std::shared_ptr<Communicator>> ranks;
  for (int64_t rank = 0; rank < size; ++rank)
    ranks.push_back(
        std::make_shared<MessageRank>(std::make_shared<MailTransport>(boxes, rank, size), 0));
  return ranks;
}

} // namespace dllm::comm::test
