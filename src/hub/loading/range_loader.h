#pragma once
// Loads bytes of one file of the hub, over as many requests as that takes.

#include "base/http/http.h"
#include "base/task.h"
#include "hub/protocol/client.h"
#include "hub/protocol/listing.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace dllm::hub {

class RangeLoader {
public:
  // facts: of the file of the commit; an answer with another ETag, size or range is an error.
  RangeLoader(const Client& client, std::string commit, std::string path, FileFacts facts)
      : client_(client), commit_(std::move(commit)), path_(std::move(path)),
        facts_(std::move(facts)) {}

  const FileFacts& facts() const { return facts_; }
  std::string shown() const { return client_.shown_file(path_); }

  struct Receiver {
    std::function<void(std::string_view)> add; // gets the bytes in their order
    // The bytes so far are dropped, and the next ones are those from byte 0 on. Null: they cannot
    // be dropped.
    std::function<void()> restart = nullptr;
  };

  // Loads bytes [begin, end). A request that breaks is followed by one for the rest, and Settings
  // has the number of attempts without progress. Any thread may call. A server that ignores ranges
  // sends the file from its start: then `restart` is called, or the call fails with data_loss.
  void load(int64_t begin, int64_t end, const Receiver& to, const Task* task) const;

private:
  const Client& client_;
  const std::string commit_, path_;
  const FileFacts facts_;
};

} // namespace dllm::hub
