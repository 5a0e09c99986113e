#pragma once
// An array of the CPU engine: the plain numbers and, for weights, packed forms made at first use
// and kept.

#include "cpu/kernel.h"
#include "cpu/memory.h"
#include "graph/engine.h"

#include <memory>
#include <mutex>

namespace dllm::cpu {

// Bytes of one form of an array, packed for an arithmetic. Stacked weights (.., out, in) are packed matrix by matrix.
int64_t form_bytes(const graph::ValueType& type, Arithmetic arithmetic, Form form);
// True for arrays that have packed forms at all: two axes or more, of f32, bf16 or i8, or weights in
// blocks (u8), which have kPacked alone.
bool has_forms(const Shape& shape, DType dtype);
// Whether a weight keeps its plain numbers next to the packed ones, which are rounded for the arithmetic.
bool keeps_plain(const graph::ValueType& type, Arithmetic arithmetic);

// Any number of threads may read and request forms; the one that donates it must be its only holder.
class CpuBuffer final : public graph::Buffer {
public:
  // Takes the storage of the tensor over as read-only numbers. arithmetic: of the engine, as panels depend on it.
  CpuBuffer(std::shared_ptr<MemoryLedger> ledger, const Tensor& shared, Arithmetic arithmetic);
  // Owned storage; contents are what the block holds.
  CpuBuffer(std::shared_ptr<MemoryLedger> ledger, DType dtype, Shape shape,
            std::shared_ptr<Block> block, const WeightFormat* format, Arithmetic arithmetic);
  ~CpuBuffer() override;

  const Shape& shape() const override { return shape_; }
  DType dtype() const override { return dtype_; }
  Tensor read(const Task* task = nullptr) const override;
  int64_t memory_bytes() const override;

  // The pointers of the wanted forms; makes those that are missing. Fails with failed_precondition
  // when the buffer was donated to an earlier run.
  Operand operand(FormSet wanted, const Workers& pool) const;

  // Gives the numbers up to the one that writes them in place; null when the storage is shared (a mapped
  // file, a tensor that was read out) or there is none. The buffer stays intact until donate().
  std::shared_ptr<Block> writable_block() const;
  // After this the buffer is used up. Its packed memory goes to `successor`, stale.
  void donate(CpuBuffer* successor);
  // Keeps only the packed form (frozen weights), unless that is rounded. REQUIRES: has_forms.
  void drop_plain(const Workers& pool);

private:
  const std::byte* plain_locked(const Workers& pool) const;
  std::shared_ptr<Block> unpacked_locked(const Workers& pool) const;
  std::shared_ptr<Block> plain_block_locked(const Workers& pool) const;
  const std::byte* packed_locked(Form form, const Workers& pool) const;

  struct PackedForm {
    std::unique_ptr<Block> block;
    bool valid = false;
  };

  std::shared_ptr<MemoryLedger> ledger_;
  DType dtype_;
  Shape shape_;
  const WeightFormat* format_ = nullptr; // of a weight in blocks
  const Arithmetic arithmetic_;
  mutable std::timed_mutex mutex_;
  Tensor shared_;                        // read-only storage of another holder, or
  mutable std::shared_ptr<Block> block_; // our own
  mutable PackedForm packed_, transposed_;
  bool donated_ = false;
};

} // namespace dllm::cpu
