#pragma once
// A rank that exchanges arrays with the others by messages, over a Transport.

#include "comm/communicator.h"
#include "comm/transport.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dllm::comm {

class MessageLink;

// Every pair of a group exchanges its pieces directly. A sum over the ranks is computed in shares, each by one rank in the
// order of the group (`reduce`), and gathered: the bits are those of thread ranks. Waits look at the task, at failures of
// other ranks, and leave the processor to others.
//
// channel: several communicators of one transport have a number each, from 0, the same on all ranks.
class MessageRank final : public Communicator {
public:
  MessageRank(std::shared_ptr<Transport> transport, int32_t channel);
  ~MessageRank() override; // notifies the others, whose waits for this rank then fail
  MessageRank(const MessageRank&) = delete;
  MessageRank& operator=(const MessageRank&) = delete;

  int64_t rank() const override;
  int64_t size() const override;
  int64_t bytes_sent() const override;
  int64_t waited_us() const override;
  void all_reduce(Group group, Reduction reduction, DType dtype, const void* in, void* out,
                  int64_t count, const Task* task) override;
  void all_gather(Group group, const void* in, void* out, int64_t bytes, const Task* task) override;
  void gather(Group group, int64_t to, const void* in, void* out, int64_t bytes,
              const Task* task) override;
  void reduce_scatter(Group group, Reduction reduction, DType dtype, const void* in, void* out,
                      int64_t count, const Task* task) override;
  void all_to_all(Group group, const void* in, void* out, int64_t bytes, const Task* task) override;
  void permute(Group group, std::span<const int64_t> target_of_member, const void* in, void* out,
               int64_t bytes, const Task* task) override;
  void barrier(Group group, const Task* task) override;
  void abort(const Error& reason) noexcept override;
  void restart(const Task* task) override;

  // Asked several times a second while a call waits: which rank's process does not exist any more, and its name; "": none
  // is known. A wait then fails when nothing has come for a while.
  void watch_processes(std::function<std::string()> find_ended);
  void share_processor(); // more ranks than processors: waits sleep soon

private:
  const std::unique_ptr<MessageLink> link_;
  std::vector<std::byte> scratch_; // parts of a reduction
};

} // namespace dllm::comm
