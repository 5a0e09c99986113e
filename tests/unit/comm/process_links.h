#pragma once
// Threads of a test as the processes of a job: communicators and key-value stores over messages.

#include "comm/mpi/process_ranks.h"
#include "unit/comm/mailboxes.h"

#include <functional>
#include <string>
#include <vector>

namespace dllm::comm::test {

// By process. find_ended: as KeyValueStore's.
inline std::vector<ProcessLink>
make_process_links(int64_t count, const std::function<std::string()>& find_ended = {}) {
  const auto boxes = std::make_shared<Mailboxes>();
  std::vector<ProcessLink> links;
  for (int64_t process = 0; process < count; ++process) {
    const auto transport = [&] { return std::make_shared<MailTransport>(boxes, process, count); };
    auto rank = std::make_shared<MessageRank>(transport(), 0);
    if (find_ended) rank->watch_processes(find_ended);
    links.push_back({rank, std::make_shared<KeyValueStore>(transport(), 1, find_ended)});
  }
  return links;
}

} // namespace dllm::comm::test
