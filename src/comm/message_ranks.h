#pragma once
// Implements the communicator of a rank that exchanges arrays as messages over a Transport.

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

// Every pair of a group exchanges its pieces directly. In a reduction each rank reduces one share
// of the elements in the order of the group (`reduce`), and then the shares are gathered. The bits
// are the same as with thread ranks. A wait checks the task and failures of other ranks, and yields
// the processor.
//
// channel: the number of a communicator on its transport, from 0, the same on all ranks.
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

  // Sets a function that a waiting call calls several times a second. It returns a sentence that
  // names a rank whose process has ended, or "" if none is known. A call that waits for several
  // seconds after that fails.
  void watch_processes(std::function<std::string()> find_ended);
  void share_processor(); // makes waits sleep soon; for more ranks than processors

private:
  const std::unique_ptr<MessageLink> link_;
  std::vector<std::byte> scratch_; // received pieces of a reduction
};

} // namespace dllm::comm
