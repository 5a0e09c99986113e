// Reads and writes the numbers of a ParamStore, and takes the turn of a training step.

#include "model/params/param_store.h"

#include "base/error.h"
#include "model/params/number_range.h"
#include "tensor/batch.h"

#include <chrono>
#include <utility>

namespace dllm::model {

// REQUIRES: a quantized entry. Scales of rows are the next entry.
Tensor ParamStore::dequantized(size_t index, const std::vector<Physical>& entries,
                               const Task* task) const {
  const bool scaled = entries[index].format->has_table();
  return dequantize(entries[index].buffer->read(task),
                    scaled ? entries[index + 1].buffer->read(task) : Tensor(), task);
}

Tensor ParamStore::widened(size_t index, const Task* task) const {
  const std::vector<Physical> all = entries(task);
  return all[index].is_quantized() ? dequantized(index, all, task)
                                   : all[index].buffer->read(task).to(DType::f32, task);
}

Tensor ParamStore::read(const std::string& name, const Task* task) const {
  need_numbers();
  Place where{};
  Physical entry, scale;
  Tensor values;
  bool again = false; // the last reader read the same stack: this is a loop over its layers
  {
    Lock lock(mutex_);
    where = place(name);
    wait_until_whole(lock, task);
    entry = physical_[where.physical];
    if (entry.format->has_table()) scale = physical_[where.physical + 1];
    again = last_read_.index == where.physical && last_read_.version == version_;
    if (again) values = last_read_.values;
    last_read_ = {where.physical, version_, values};
  }
  if (!values.defined()) {
    values = entry.buffer->read(task);
    if (entry.is_quantized())
      values = dequantize(values, scale.buffer ? scale.buffer->read(task) : Tensor(), task);
  }
  const bool is_last =
      where.layer + 1 == entry.spec.copies() && where.piece + 1 == entry.spec.pieces.size();
  if (again || is_last) {
    const Lock lock(mutex_);
    const bool same = last_read_.index == where.physical && last_read_.version == version_;
    if (same && is_last) last_read_ = {};
    if (same && !is_last) last_read_.values = values;
  }
  return read_piece(entry.spec, where.piece, where.layer, values, task);
}

void ParamStore::write(const std::string& name, const Tensor& value) {
  const Shape expected = shape(name);
  if (value.shape() != expected) {
    fail(Code::invalid_argument, "{}: shape {}, expected {}", name, value.shape().text(),
         expected.text());
  }
  if (!is_float(value.dtype())) {
    fail(Code::invalid_argument, "{}: type {}, expected a float type", name,
         dtype_name(value.dtype()));
  }
  if (checks_) {
    check_finite(name, value);
    check_number_range(name, value, *physical_[place(name).physical].format);
  }
  need_numbers();
  Lock lock(mutex_);
  begin_turn(lock, nullptr);
  try {
    const Place where = place(name);
    const Physical entry = physical_[where.physical];
    const auto form = written_.find(where.physical);
    const bool is_first = form == written_.end();
    const graph::BufferRef scale =
        entry.format->has_table() ? physical_[where.physical + 1].buffer : nullptr;
    lock.unlock();
    if (is_first) {
      ParamForm made(entry.spec, *entry.format);
      made.values = entry.buffer->read().clone();
      if (scale) made.scale = scale->read().clone();
      made.put(entry.spec, where.piece, where.layer, value);
      lock.lock();
      written_.emplace(where.physical, std::move(made));
    } else {
      form->second.put(entry.spec, where.piece, where.layer, value);
      lock.lock();
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    end_turn();
    throw;
  }
  count_change(physical_[place(name).physical].spec.part);
  ++version_;
  end_turn();
}

int64_t ParamStore::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

int64_t ParamStore::base_version() const {
  const std::lock_guard lock(mutex_);
  return base_version_;
}

int64_t ParamStore::list_version() const {
  const std::lock_guard lock(mutex_);
  return list_version_;
}

int64_t ParamStore::changes(const std::string& part) const {
  const std::lock_guard lock(mutex_);
  const auto found = changes_.find(part);
  return found == changes_.end() ? 0 : found->second;
}

void ParamStore::bump_list() {
  const std::lock_guard lock(mutex_);
  ++list_version_;
}

void ParamStore::bump() {
  const std::lock_guard lock(mutex_);
  ++version_;
  ++base_version_;
}

void ParamStore::bump_parts() {
  const std::lock_guard lock(mutex_);
  ++version_;
}

void ParamStore::count_change(const std::string& part) {
  ++changes_[part];
  base_version_ += part == kBasePart ? 1 : 0;
}

void ParamStore::check_lost() const {
  if (lost_.empty()) return;
  fail_with_hint("restore a checkpoint into its trainer, or load the model again", Code::aborted,
                 "the model's weights were lost: {}", lost_);
}

void ParamStore::wait(Lock& lock, const Task* task, const std::function<bool()>& ready) const {
  constexpr std::chrono::milliseconds kLook(10); // how often a waiting call looks at its task
  for (check_lost(); !ready(); check_lost()) {
    check_task(task);
    if (task == nullptr)
      moved_.wait(lock);
    else
      moved_.wait_for(lock, kLook);
  }
}

// Waits until no step has buffers. A step takes the buffers that it writes out of the store, and
// readers wait for the new ones. The next step lets waiting readers go first.
void ParamStore::wait_until_whole(Lock& lock, const Task* task) const {
  const auto is_ready = [this] { return !taken_ && (written_.empty() || !turn_); };
  check_lost();
  if (!is_ready()) {
    ++waiting_;
    try {
      wait(lock, task, is_ready);
    } catch (...) {
      --waiting_;
      moved_.notify_all();
      throw;
    }
    --waiting_;
    moved_.notify_all();
  }
  if (!written_.empty()) upload_written(lock, task);
}

void ParamStore::begin_turn(Lock& lock, const Task* task) const {
  wait(lock, task, [this] { return !turn_; });
  turn_ = true;
}

void ParamStore::end_turn() const {
  turn_ = false;
  moved_.notify_all();
}

// REQUIRES: no writer has its turn. The lock is released during the uploads.
void ParamStore::upload_written(Lock& lock, const Task* task) const {
  turn_ = true;
  try {
    while (!written_.empty()) {
      const auto next = written_.begin();
      lock.unlock();
      store(next->first, next->second, task);
      lock.lock();
      written_.erase(next);
    }
  } catch (...) {
    lock.lock();
    end_turn();
    throw;
  }
  end_turn();
}

std::vector<ParamStore::Physical> ParamStore::entries(const Task* task) const {
  need_numbers();
  Lock lock(mutex_);
  wait_until_whole(lock, task);
  return physical_;
}

std::vector<graph::BufferRef> ParamStore::snapshot(int64_t* version, const Task* task) const {
  need_numbers();
  Lock lock(mutex_);
  wait_until_whole(lock, task);
  std::vector<graph::BufferRef> buffers;
  buffers.reserve(physical_.size());
  for (const Physical& entry : physical_) buffers.push_back(entry.buffer);
  if (version != nullptr) *version = version_;
  return buffers;
}

std::vector<size_t> ParamStore::indices(const PartList& parts) const {
  std::vector<size_t> indices;
  for (size_t i = 0; i < physical_.size(); ++i) {
    if (parts.has(physical_[i].spec.part)) indices.push_back(i);
  }
  return indices;
}

std::vector<graph::BufferRef> ParamStore::snapshot(const PartList& parts, int64_t* version,
                                                   const Task* task) const {
  need_numbers();
  Lock lock(mutex_);
  wait_until_whole(lock, task);
  std::vector<graph::BufferRef> buffers;
  for (const size_t index : indices(parts)) buffers.push_back(physical_[index].buffer);
  if (version != nullptr) *version = version_;
  return buffers;
}

void ParamStore::visit(const std::function<void(const Stack&)>& look, const Task* task) const {
  const std::vector<Physical> all = entries(task);
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].scale_of >= 0) continue;
    check_task(task);
    const Tensor values =
        all[i].is_quantized() ? dequantized(i, all, task) : all[i].buffer->read(task);
    look({i, all[i].spec, values});
  }
}

void ParamStore::while_whole(const std::function<void()>& look, const Task* task) const {
  need_numbers();
  Lock lock(mutex_);
  wait_until_whole(lock, task);
  look();
}

std::vector<graph::BufferRef> ParamStore::take(std::span<const size_t> donated, const Task* task) {
  need_numbers();
  Lock lock(mutex_);
  for (;;) {
    wait(lock, task, [this] { return !turn_ && waiting_ == 0; });
    if (written_.empty()) break;
    upload_written(lock, task);
  }
  std::vector<graph::BufferRef> buffers;
  buffers.reserve(physical_.size());
  for (const Physical& entry : physical_) buffers.push_back(entry.buffer);
  if (donated.empty()) return buffers; // a run that only reads needs no turn
  last_read_ = {};                     // else the step could not write in place
  turn_ = taken_ = true;
  taken_bytes_ = 0;
  for (const size_t index : donated) {
    taken_bytes_ += buffers[index]->memory_bytes();
    physical_[index].buffer = nullptr;
  }
  return buffers;
}

void ParamStore::put(std::span<const size_t> donated, std::vector<graph::BufferRef> buffers,
                     bool changed) {
  if (donated.empty()) return;
  const Lock lock(mutex_);
  for (size_t i = 0; i < donated.size(); ++i) {
    physical_[donated[i]].buffer = std::move(buffers[i]);
    if (changed) count_change(physical_[donated[i]].spec.part);
  }
  if (changed) ++version_;
  taken_ = false;
  end_turn();
}

void ParamStore::lose(const std::string& why) {
  const Lock lock(mutex_);
  lost_ = why;
  if (std::exchange(taken_, false)) turn_ = false;
  moved_.notify_all();
}

std::string ParamStore::lost() const {
  const Lock lock(mutex_);
  return lost_;
}

void ParamStore::restore(std::vector<std::pair<size_t, graph::BufferRef>> buffers,
                         const std::function<void()>& also) {
  Lock lock(mutex_);
  moved_.wait(lock, [this] { return !turn_; });
  for (auto& [index, buffer] : buffers) {
    physical_[index].buffer = std::move(buffer);
    count_change(physical_[index].spec.part);
    written_.erase(index);
  }
  lost_.clear();
  ++version_;
  ++base_version_;
  also();
}

void ParamStore::replace(size_t index, graph::BufferRef buffer) {
  const std::lock_guard lock(mutex_);
  physical_[index].buffer = std::move(buffer);
}

void ParamStore::need_numbers() const {
  if (!sketch_) return;
  fail_with_hint("load the model", Code::failed_precondition,
                 "the model is a sketch: it has shapes and types, but no numbers");
}

} // namespace dllm::model
