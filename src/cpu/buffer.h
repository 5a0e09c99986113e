#pragma once
// CpuBuffer is an array of the CPU engine. It holds the plain numbers and, for weights, packed
// forms, which are made at their first use and kept.

#include "cpu/kernel.h"
#include "cpu/memory.h"
#include "graph/engine.h"

#include <memory>
#include <mutex>

namespace dllm::cpu {

// Returns the bytes of one form of an array, packed for an arithmetic. Stacked weights (.., out,
// in) are packed matrix by matrix.
int64_t form_bytes(const graph::ValueType& type, Arithmetic arithmetic, Form form);
// Returns true for arrays that can be packed. They have two axes or more, and their type is f32,
// bf16 or i8, or u8 for weights in blocks. Weights in blocks have the packed form kPacked only.
bool has_forms(const Shape& shape, DType dtype);
// Returns true if a weight keeps its plain numbers next to the packed form. It must where packing
// rounds the numbers for the arithmetic.
bool keeps_plain(const graph::ValueType& type, Arithmetic arithmetic);

// Any number of threads may read a buffer and request its forms. The thread that donates a buffer
// must be its only holder.
class CpuBuffer final : public graph::Buffer {
public:
  // Shares the storage of the tensor, read-only. The packed forms depend on the engine's
  // arithmetic.
  CpuBuffer(std::shared_ptr<MemoryLedger> ledger, const Tensor& shared, Arithmetic arithmetic);
  // Takes ownership of the block, which holds the numbers.
  CpuBuffer(std::shared_ptr<MemoryLedger> ledger, DType dtype, Shape shape,
            std::shared_ptr<Block> block, const WeightFormat* format, Arithmetic arithmetic);
  ~CpuBuffer() override;

  const Shape& shape() const override { return shape_; }
  DType dtype() const override { return dtype_; }
  Tensor read(const Task* task = nullptr) const override;
  int64_t memory_bytes() const override;

  // Returns pointers to the wanted forms and makes the missing ones. Fails with failed_precondition
  // when the buffer was donated to an earlier run.
  Operand operand(FormSet wanted, const Workers& pool) const;

  // Returns the plain numbers for a run that overwrites them in place. Returns null when the
  // storage is shared (a mapped file, a tensor that read() returned) or when there is none. The
  // buffer stays usable until donate().
  std::shared_ptr<Block> writable_block() const;
  // Releases the numbers; the buffer cannot be used afterwards. `successor`, when not null, takes
  // over the packed memory and refills it before use.
  void donate(CpuBuffer* successor);
  // Keeps only the packed form of a frozen weight. Does nothing where packing rounds the numbers.
  // REQUIRES: has_forms.
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
  const WeightFormat* format_ = nullptr; // null: not a weight in blocks
  const Arithmetic arithmetic_;
  mutable std::timed_mutex mutex_;
  // The plain numbers are in one of the two, or in neither when only a packed form is kept.
  Tensor shared_;                        // read-only storage of another holder
  mutable std::shared_ptr<Block> block_; // storage of this buffer
  mutable PackedForm packed_, transposed_;
  bool donated_ = false;
};

} // namespace dllm::cpu
