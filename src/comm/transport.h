#pragma once
// Sends messages between ranks that do not share memory. MPI, or another library, implements this
// interface for message_ranks.h.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace dllm::comm {

// Calls do not block; one thread at a time may call. Messages between the same two ranks with the
// same tag arrive in the order in which they were sent. The bytes of a message of at most
// kQuickBytes may change as soon as send() has returned.
class Transport {
public:
  using Request = void*; // a message that is not done
  static constexpr int64_t kQuickBytes = 2048, kMostBytes = int64_t{1} << 30;
  // Each user of a transport has a channel, which is kTagsOfChannel consecutive tags. The tags of a
  // channel begin at channel * kTagsOfChannel.
  static constexpr int32_t kTagsOfChannel = 4096;

  virtual ~Transport() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  // Begin to send or receive `count` bytes, at most kMostBytes. The memory must stay valid until
  // the request is done or dropped. tag: 0 or more.
  virtual Request send(int64_t to, int32_t tag, const void* bytes, int64_t count) = 0;
  virtual Request receive(int64_t from, int32_t tag, void* bytes, int64_t count) = 0;
  // Returns true if the message is done. The request is then released and must not be used again.
  virtual bool done(Request request) = 0;
  // Releases a request. The message may still arrive at its receiver. A dropped receive writes
  // nothing afterwards.
  virtual void drop(Request request) noexcept = 0;
  // Receives a waiting message of room.size() bytes with this tag, if there is one, and returns its
  // sender.
  virtual std::optional<int64_t> take(int32_t tag, std::span<std::byte> room) = 0;
};

} // namespace dllm::comm
