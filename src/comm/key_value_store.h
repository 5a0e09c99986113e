#pragma once
// Shares values by key between processes over a Transport. A library that runs in several processes
// needs such a store so that its processes find each other.

#include "base/error.h"
#include "comm/transport.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace dllm::comm {

// put() sends a value to every process, and get() waits until the value has arrived. The store has
// no server and no thread; messages are received inside calls. Keys and values are bytes. Any
// thread may call.
class KeyValueStore {
public:
  using Milliseconds = std::chrono::milliseconds;
  // channel: a channel of the transport, the same on all ranks. find_ended: returns a sentence that
  // names a rank whose process has ended, or "" if none is known.
  KeyValueStore(std::shared_ptr<Transport> transport, int32_t channel,
                std::function<std::string()> find_ended = {});

  int64_t rank() const { return transport_->rank(); }
  int64_t size() const { return transport_->size(); }
  // Sends a value. Fails with already_exists if this process has a value for the key.
  void put(const std::string& key, const std::string& value);
  // Waits for a value. Fails with deadline_exceeded if no process puts the key in that time, with
  // aborted if a process has ended.
  std::string get(const std::string& key, Milliseconds timeout);
  std::optional<std::string> find(const std::string& key);
  // Makes every waiting or later put() and get() of every process fail with the first reason; get()
  // still returns a value that has arrived. Never blocks.
  void abort(const Error& reason) noexcept;

private:
  // One message: a part of a put. In a failure the "key" is the error text, the "value" its hint.
  enum class Kind : int32_t { put, failed };
  struct Part {
    Kind kind = Kind::put;
    int32_t code = 0;
    int64_t key_bytes = 0, all_bytes = 0; // all_bytes: key and value together
    int64_t offset = 0;
    char bytes[Transport::kQuickBytes - 32] = {};
  };
  void send(Kind kind, int32_t code, const std::string& key, const std::string& value);
  void take_parts();
  void take_in(const Part& part, const std::string& both);
  void fail_if_aborted() const;
  void check_ended(std::chrono::steady_clock::time_point begin);

  const std::shared_ptr<Transport> transport_;
  const int32_t tag_;
  const std::function<std::string()> find_ended_;
  std::mutex mutex_; // guards the transport and the members below
  std::map<std::string, std::string> values_;
  std::vector<std::string> begun_; // by rank: the received parts of an incomplete put
  std::optional<Error> failure_;
  std::string ended_; // sentence that names a rank whose process has ended; may be empty
  std::chrono::steady_clock::time_point ended_at_, looked_at_;
};

} // namespace dllm::comm
