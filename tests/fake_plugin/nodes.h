#pragma once
// The processes of one client, and how they find each other through the caller's key-value store.

#include "pjrt/abi/table.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fake {

namespace abi = dllm::pjrt::abi;
struct Settings;

class Nodes {
public:
  int64_t own = 0, count = 1, devices = 1; // of this process

  // As the CUDA plugin does: every process puts what it has and waits for what the others have.
  abi::Error* join(const abi::ClientCreateArgs& args, const Settings& settings);
  int64_t all() const; // devices of all processes
  int64_t node_of(int64_t device) const;
  // With `meets`: waits until all processes have come to this run.
  abi::Error* meet();

private:
  abi::Error* put(const std::string& key, const std::string& value) const;
  abi::Error* get(const std::string& key, std::string* value) const;
  void check_missing_key() const;

  abi::KeyValueGetCallback get_ = nullptr;
  abi::KeyValueTryGetCallback try_get_ = nullptr;
  abi::KeyValuePutCallback put_ = nullptr;
  void *get_arg_ = nullptr, *try_get_arg_ = nullptr, *put_arg_ = nullptr;
  int timeout_ms_ = 0;
  bool meets_ = false;
  int64_t meetings_ = 0;
  std::vector<int64_t> counts_; // devices by process
};

} // namespace fake
