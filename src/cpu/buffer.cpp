#include "cpu/buffer.h"

#include "base/error.h"
#include "cpu/gemm/gemm.h"

#include <cstring>

namespace dllm::cpu {
namespace {

struct Stack {
  int64_t matrices, out, in; // `in` counts numbers, also for weights in blocks
};

Stack stack_of(const Shape& shape, const WeightFormat* format) {
  Stack stack{1, shape.dim(-2), shape.dim(-1)};
  if (format != nullptr) stack.in = format->row_numbers(stack.in);
  for (int64_t axis = 0; axis < shape.rank() - 2; ++axis) stack.matrices *= shape.dim(axis);
  return stack;
}

} // namespace

bool has_forms(const Shape& shape, DType dtype) {
  return shape.rank() >= 2 &&
         (dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::i8 || dtype == DType::u8);
}

int64_t form_bytes(const graph::ValueType& type, Arithmetic arithmetic, Form form) {
  if (form == kPlain) return type.shape.count() * dtype_size(type.dtype);
  const Stack stack = stack_of(type.shape, type.format);
  return stack.matrices *
         panel_form(arithmetic, type.dtype, type.format, stack.in, form == kPackedTransposed)
             .bytes(stack.out, stack.in);
}

bool keeps_plain(const graph::ValueType& type, Arithmetic arithmetic) {
  if (!has_forms(type.shape, type.dtype)) return true;
  const Stack stack = stack_of(type.shape, type.format);
  return !panel_form(arithmetic, type.dtype, type.format, stack.in, false).is_exact();
}

CpuBuffer::CpuBuffer(std::shared_ptr<MemoryLedger> ledger, const Tensor& shared,
                     Arithmetic arithmetic)
    : ledger_(std::move(ledger)), dtype_(shared.dtype()), shape_(shared.shape()),
      format_(shared.format()), arithmetic_(arithmetic), shared_(shared) {
  ledger_->add(shared_.byte_size());
}

CpuBuffer::CpuBuffer(std::shared_ptr<MemoryLedger> ledger, DType dtype, Shape shape,
                     std::shared_ptr<Block> block, const WeightFormat* format,
                     Arithmetic arithmetic)
    : ledger_(std::move(ledger)), dtype_(dtype), shape_(std::move(shape)), format_(format),
      arithmetic_(arithmetic), block_(std::move(block)) {}

CpuBuffer::~CpuBuffer() {
  if (shared_.defined()) ledger_->remove(shared_.byte_size());
}

Tensor CpuBuffer::read(const Task* task) const {
  const std::unique_lock lock = lock_with_task(mutex_, task);
  if (shared_.defined()) return shared_;
  const std::shared_ptr<Block> block = plain_block_locked({nullptr, task});
  const auto size = static_cast<size_t>(shape_.count() * dtype_size(dtype_));
  Tensor numbers(dtype_, shape_, Bytes(block->data(), size, block));
  numbers.set_format(format_);
  return numbers;
}

int64_t CpuBuffer::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t bytes = shared_.defined() ? shared_.byte_size() : 0;
  if (block_ != nullptr) bytes += block_->bytes();
  for (const PackedForm* form : {&packed_, &transposed_}) {
    if (form->block != nullptr) bytes += form->block->bytes();
  }
  return bytes;
}

// Returns the plain numbers of a weight that kept only its packed form, with the same bits.
std::shared_ptr<Block> CpuBuffer::unpacked_locked(const Workers& pool) const {
  const int64_t bytes = shape_.count() * dtype_size(dtype_);
  auto plain = std::make_shared<Block>(ledger_, bytes, "a weight");
  const Stack stack = stack_of(shape_, format_);
  const PanelForm form = panel_form(arithmetic_, dtype_, format_, stack.in, false);
  const int64_t plain_step = stack.matrices == 0 ? 0 : bytes / stack.matrices;
  const int64_t packed_step = form.bytes(stack.out, stack.in);
  for (int64_t i = 0; i < stack.matrices; ++i) {
    unpack(form, packed_.block->data() + i * packed_step, stack.out, stack.in,
           plain->data() + i * plain_step, pool);
  }
  return plain;
}

// Returns the plain numbers for one use. A weight that kept only its packed form does not store
// them. REQUIRES: shared_ is not defined.
std::shared_ptr<Block> CpuBuffer::plain_block_locked(const Workers& pool) const {
  if (donated_) {
    fail_with_hint("use the output that took it over", Code::failed_precondition,
                   "the buffer {}{} was donated to an earlier run", dtype_name(dtype_),
                   shape_.text());
  }
  return block_ != nullptr ? block_ : unpacked_locked(pool);
}

// Returns the plain numbers, which the buffer keeps from then on.
const std::byte* CpuBuffer::plain_locked(const Workers& pool) const {
  if (shared_.defined()) return shared_.bytes();
  block_ = plain_block_locked(pool);
  return block_->data();
}

const std::byte* CpuBuffer::packed_locked(Form form, const Workers& pool) const {
  if (dtype_ == DType::u8 && (format_ == nullptr || form != kPacked))
    fail(Code::internal, "an array of bytes of shape {} does not have this packed form",
         shape_.text());
  PackedForm& made = form == kPacked ? packed_ : transposed_;
  if (made.valid) return made.block->data();
  const std::shared_ptr<Block> block = shared_.defined() ? nullptr : plain_block_locked(pool);
  const std::byte* plain = block == nullptr ? shared_.bytes() : block->data();
  const int64_t bytes = form_bytes({shape_, dtype_, {}, format_}, arithmetic_, form);
  if (made.block == nullptr || made.block->bytes() != bytes) {
    made.block = std::make_unique<Block>(ledger_, bytes, "the packed form of a weight");
  }
  const Stack stack = stack_of(shape_, format_);
  const PanelForm panels =
      panel_form(arithmetic_, dtype_, format_, stack.in, form == kPackedTransposed);
  const int64_t count = std::max<int64_t>(1, stack.matrices);
  const int64_t plain_step = shape_.count() * dtype_size(dtype_) / count;
  const int64_t packed_step = bytes / count;
  for (int64_t i = 0; i < stack.matrices; ++i) {
    pack(panels, plain + i * plain_step, stack.out, stack.in, made.block->data() + i * packed_step,
         pool);
  }
  made.valid = true;
  return made.block->data();
}

Operand CpuBuffer::operand(FormSet wanted, const Workers& pool) const {
  const std::unique_lock lock = lock_with_task(mutex_, pool.task);
  Operand operand;
  if ((wanted & kPlain) != 0 || donated_) operand.data = const_cast<std::byte*>(plain_locked(pool));
  if ((wanted & kPacked) != 0) operand.packed = packed_locked(kPacked, pool);
  if ((wanted & kPackedTransposed) != 0)
    operand.packed_transposed = packed_locked(kPackedTransposed, pool);
  return operand;
}

std::shared_ptr<Block> CpuBuffer::writable_block() const {
  const std::lock_guard lock(mutex_);
  // A second owner is a tensor that read() returned.
  if (block_ == nullptr || block_.use_count() != 1) return nullptr;
  // Orders the reads of a former owner before the writes of the run.
  std::shared_ptr<Block>(block_).reset();
  return block_;
}

void CpuBuffer::donate(CpuBuffer* successor) {
  const std::lock_guard lock(mutex_);
  donated_ = true;
  if (shared_.defined()) ledger_->remove(shared_.byte_size());
  shared_ = Tensor();
  block_.reset();
  packed_.valid = transposed_.valid = false;
  if (successor != nullptr) {
    successor->packed_ = std::move(packed_);
    successor->transposed_ = std::move(transposed_);
  }
  packed_ = PackedForm();
  transposed_ = PackedForm();
}

void CpuBuffer::drop_plain(const Workers& pool) {
  const std::lock_guard lock(mutex_);
  const Stack stack = stack_of(shape_, format_);
  if (!panel_form(arithmetic_, dtype_, format_, stack.in, false).is_exact()) return;
  packed_locked(kPacked, pool);
  if (shared_.defined()) ledger_->remove(shared_.byte_size());
  shared_ = Tensor();
  block_.reset();
}

} // namespace dllm::cpu
