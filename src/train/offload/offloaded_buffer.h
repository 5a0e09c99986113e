#pragma once
// An array of a trainer that a scratch store holds. Private to src/train.

#include "base/threads/parallel.h"
#include "graph/engine.h"
#include "train/offload/scratch_store.h"
#include "train/offload/slices.h"
#include "train/step/program_spec.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace dllm::train {

// The part of this process: the whole array where the engine has one process. Readers see it as any
// buffer of the engine, but a program cannot take it. A read copies the numbers to memory.
class OffloadedBuffer final : public graph::Buffer {
public:
  // Uses bytes [at, at + bytes of the part) of the store.
  OffloadedBuffer(graph::Engine& engine, std::shared_ptr<ScratchStore> store, int64_t at,
                  const StateEntry& entry);

  const Shape& shape() const override { return part_; }
  DType dtype() const override { return DType::f32; }
  Tensor read(const Task* task = nullptr) const override;
  Tensor read_part(const Task* task = nullptr) const override;
  std::vector<Tensor> read_dealt(std::span<const int64_t> owners,
                                 const Task* task = nullptr) const override;
  int64_t memory_bytes() const override { return 0; } // of the engine

  const model::ParamSpec& spec() const { return spec_; }
  const std::shared_ptr<ScratchStore>& store() const { return store_; }
  // Copies numbers [begin, begin + numbers of `to`) of the part.
  void read_numbers(int64_t begin, std::span<float> to) const;
  // Writes all numbers of the part.
  void assign(const Tensor& part);
  // Adds numbers to all numbers of the part. is_first: adds them to 0 instead.
  void add(const Tensor& part, bool is_first);
  // Uploads a copy of the array to the engine.
  graph::BufferRef resident() const;

  // Copy a slice from or to memory, in the shape gathered_shape().
  Shape slice_shape(const Slice& slice) const { return gathered_shape(slice, part_, own_); }
  void read_slice(const Slice& slice, void* to) const;
  void write_slice(const Slice& slice, const void* from);
  void announce(const Slice& slice) const;
  // Uploads the numbers of a slice, which the engine may share.
  graph::BufferRef upload_slice(const Tensor& numbers) const;

private:
  Workers workers() const { return {pool_.get()}; }

  graph::Engine& engine_;
  std::shared_ptr<ScratchStore> store_;
  int64_t at_;
  model::ParamSpec spec_;
  Shape part_, own_; // of one rank, and of this process
  std::shared_ptr<ThreadPool> pool_;
};

// Makes the arrays that `wanted` accepts, by entry of spec.state, in one new store. Others are
// null.
std::vector<std::shared_ptr<OffloadedBuffer>>
make_offloaded(const ProgramSpec& spec, const std::function<bool(const StateEntry&)>& wanted);

} // namespace dllm::train
