#pragma once
// Messages between ranks that share no memory: what message_ranks.h needs of MPI or of another library.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace dllm::comm {

// No call blocks; one thread at a time. Two messages of one pair of ranks and one tag arrive in the order in which they
// were sent. A message of at most kQuickBytes is under way when send() returns: its bytes may change then.
class Transport {
public:
  using Request = void*; // a message under way
  static constexpr int64_t kQuickBytes = 2048, kMostBytes = int64_t{1} << 30;
  // Those who share a transport have a channel each: the tags from channel * kTagsOfChannel on.
  static constexpr int32_t kTagsOfChannel = 4096;

  virtual ~Transport() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  // Tags are 0 or more. The bytes stay where they are until done(); count is at most kMostBytes.
  virtual Request send(int64_t to, int32_t tag, const void* bytes, int64_t count) = 0;
  virtual Request receive(int64_t from, int32_t tag, void* bytes, int64_t count) = 0;
  // True when the message is through: its request does not exist any more.
  virtual bool done(Request request) = 0;
  // Forgets a message, which may arrive or not. A dropped receive writes nothing afterwards.
  virtual void drop(Request request) noexcept = 0;
  // A message with this tag that is waiting, of room.size() bytes; returns the rank that it is from.
  virtual std::optional<int64_t> take(int32_t tag, std::span<std::byte> room) = 0;
};

} // namespace dllm::comm
