#pragma once
// Texts under keys, which processes share over a Transport: what a library of several processes wants in order to find the
// others.

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

// A value goes to every process when it is put, and a get waits until it has come: there is no server, and nothing runs
// while no call waits. Keys and values are bytes. Any thread.
class KeyValueStore {
public:
  using Milliseconds = std::chrono::milliseconds;
  // channel: of the transport, the same on all ranks. find_ended: which rank's process does not exist any more, as a
  // sentence; "": none is known.
  KeyValueStore(std::shared_ptr<Transport> transport, int32_t channel,
                std::function<std::string()> find_ended = {});

  int64_t rank() const { return transport_->rank(); }
  int64_t size() const { return transport_->size(); }
  // Fails with already_exists for a key that this process has seen.
  void put(const std::string& key, const std::string& value);
  // Fails with deadline_exceeded when no process has put the key in that time, with aborted when a process has ended.
  std::string get(const std::string& key, Milliseconds timeout);
  std::optional<std::string> find(const std::string& key);
  // Every get, waiting or later, on every process fails with the first reason. Never blocks.
  void abort(const Error& reason) noexcept;

private:
  // A part of a put. kind failed: the "key" is a text, the "value" a hint.
  enum class Kind : int32_t { put, failed };
  struct Part {
    Kind kind = Kind::put;
    int32_t code = 0;
    int64_t key_bytes = 0, all_bytes = 0; // of the key, and of key and value together
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
  std::mutex mutex_; // of the transport and of what follows
  std::map<std::string, std::string> values_;
  std::vector<std::string> begun_; // by rank: what has come of its put
  std::optional<Error> failure_;
  std::string ended_; // a rank, as a sentence
  std::chrono::steady_clock::time_point ended_at_, looked_at_;
};

} // namespace dllm::comm
