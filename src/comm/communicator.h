#pragma once
// One rank's connection to the other ranks of a mesh, and the arithmetic of reductions over ranks.

#include "base/error.h"
#include "base/task.h"
#include "tensor/dtype.h"

#include <cstdint>
#include <span>

namespace dllm::comm {

enum class Reduction : uint8_t { sum, max };

const char* reduction_name(Reduction reduction); // "sum" "max"

// out[i] = ((parts[0][i] op parts[1][i]) op parts[2][i]) ...: always in this order. Integers wrap;
// a maximum with NaN is NaN. `out` may be parts[0]. Fails with unimplemented for other types than
// f32, i32 and u32. REQUIRES: at least one part.
void reduce(Reduction reduction, DType dtype, std::span<const void* const> parts, void* out,
            int64_t count);

// The ranks that take part in an exchange, in the order of their pieces: one row of graph::Mesh::groups.
using Group = std::span<const int64_t>;

// Collective calls. Every member of a group makes the same calls on it, in the same order, with equal sizes and types; a
// mismatch is an error on all ranks, not a hang. A call returns when its own buffers may be used again. Results are
// combined in the order of the group (`reduce`): bits are the same on every rank and in every run. `in` and `out` do not
// overlap. `task` is checked while a call waits.
//
// Failure. A rank whose task is cancelled while it waits throws as check_task does and aborts the others. A rank that
// fails outside of a call must call abort(). From then on every call, waiting or later, on every rank throws an error
// with the code and text of the first failure, until all ranks have called restart().
//
// Threads: one thread per rank at a time; abort() may be called from any thread.
class Communicator {
public:
  virtual ~Communicator() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  // Bytes of arrays that this rank has given to other ranks, since it was made.
  virtual int64_t bytes_sent() const = 0;
  // Microseconds that this rank was first at a meeting and waited for the others, since it was made. Any thread.
  virtual int64_t waited_us() const = 0;

  // out[i] = in_0[i] op in_1[i] op ...: count elements, the same on every member.
  virtual void all_reduce(Group group, Reduction reduction, DType dtype, const void* in, void* out,
                          int64_t count, const Task* task) = 0;
  // out: one piece of `bytes` from each member.
  virtual void all_gather(Group group, const void* in, void* out, int64_t bytes,
                          const Task* task) = 0;
  // out: on member `to` of the group one piece of `bytes` from each member; the others' is not used.
  virtual void gather(Group group, int64_t to, const void* in, void* out, int64_t bytes,
                      const Task* task) = 0;
  // in: one piece of `count` elements for each member; out: the reduction of the pieces for this rank.
  virtual void reduce_scatter(Group group, Reduction reduction, DType dtype, const void* in,
                              void* out, int64_t count, const Task* task) = 0;
  // in: one piece of `bytes` for each member; out: one from each member.
  virtual void all_to_all(Group group, const void* in, void* out, int64_t bytes,
                          const Task* task) = 0;
  // Member i of the group sends `bytes` to member target_of_member[i], a permutation.
  virtual void permute(Group group, std::span<const int64_t> target_of_member, const void* in,
                       void* out, int64_t bytes, const Task* task) = 0;
  // Returns on all members or throws on all members.
  virtual void barrier(Group group, const Task* task) = 0;

  // Makes the calls of all ranks fail; the first reason is kept. Never blocks.
  virtual void abort(const Error& reason) noexcept = 0;
  // After a failure: waits until every rank of the mesh has called it, then calls work again. The CPU engine does so at
  // the next run of each rank.
  virtual void restart(const Task* task) = 0;
};

} // namespace dllm::comm
