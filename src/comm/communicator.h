#pragma once
// Defines the communicator, one rank's connection to the other ranks of a mesh, and the arithmetic
// of reductions over ranks.

#include "base/error.h"
#include "base/task.h"
#include "tensor/dtype.h"

#include <cstdint>
#include <span>

namespace dllm::comm {

enum class Reduction : uint8_t { sum, max };

const char* reduction_name(Reduction reduction); // "sum" "max"

// Computes out[i] = ((parts[0][i] op parts[1][i]) op parts[2][i]) ..., always in this order, for
// f32, i32 and u32. Integers wrap; a maximum with NaN is NaN. `out` may be parts[0]. Fails with
// unimplemented for another type. REQUIRES: at least one part.
void reduce(Reduction reduction, DType dtype, std::span<const void* const> parts, void* out,
            int64_t count);

// The ranks that take part in an exchange, in the order of their pieces: one row of
// graph::Mesh::groups.
using Group = std::span<const int64_t>;

// Collective calls of one rank. Every member of a group makes the same calls in the same order,
// with equal sizes and types. A mismatch is an error on all ranks, and no rank hangs. A call
// returns when its buffers may be used again. Reductions combine the pieces in the order of the
// group (`reduce`), so bits are the same on every rank and in every run. `in` and `out` do not
// overlap. `task` is checked while a call waits.
//
// Failure: a rank whose task is cancelled while it waits throws as check_task does and aborts the
// other ranks. A rank that fails outside of a call must call abort(). Then every waiting or later
// call of every rank throws an error with the code and text of the first failure. This ends when
// all ranks have called restart().
//
// Threads: one thread per rank at a time may call; any thread may call abort().
class Communicator {
public:
  virtual ~Communicator() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  // Returns the bytes of arrays that this rank has sent to other ranks since it was constructed.
  virtual int64_t bytes_sent() const = 0;
  // Returns the microseconds that this rank has waited for other ranks to arrive at a call since it
  // was constructed. Any thread may call it.
  virtual int64_t waited_us() const = 0;

  // out[i] = in_0[i] op in_1[i] op ... for `count` elements, equal on every member.
  virtual void all_reduce(Group group, Reduction reduction, DType dtype, const void* in, void* out,
                          int64_t count, const Task* task) = 0;
  // out: one piece of `bytes` from each member.
  virtual void all_gather(Group group, const void* in, void* out, int64_t bytes,
                          const Task* task) = 0;
  // out: on member `to`, one piece of `bytes` from each member; not used on other members.
  virtual void gather(Group group, int64_t to, const void* in, void* out, int64_t bytes,
                      const Task* task) = 0;
  // in: one piece of `count` elements for each member. out: the reduction of the pieces for this
  // rank.
  virtual void reduce_scatter(Group group, Reduction reduction, DType dtype, const void* in,
                              void* out, int64_t count, const Task* task) = 0;
  // in: one piece of `bytes` for each member. out: one piece from each member.
  virtual void all_to_all(Group group, const void* in, void* out, int64_t bytes,
                          const Task* task) = 0;
  // Member i sends `bytes` to member target_of_member[i]; the targets are a permutation.
  virtual void permute(Group group, std::span<const int64_t> target_of_member, const void* in,
                       void* out, int64_t bytes, const Task* task) = 0;
  // Returns on all members or throws on all members.
  virtual void barrier(Group group, const Task* task) = 0;

  // Makes the calls of all ranks fail with the first reason. Never blocks.
  virtual void abort(const Error& reason) noexcept = 0;
  // Ends a failure: waits until every rank of the mesh has called restart(), then calls work again.
  // The CPU engine calls it at the next run of each rank.
  virtual void restart(const Task* task) = 0;
};

} // namespace dllm::comm
