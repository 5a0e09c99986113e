#include "model/param_store.h"

#include "base/error.h"
#include "tensor/batch.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <utility>

namespace dllm::model {
ParamStore::ParamStore(std::shared_ptr<graph::Engine> engine) : engine_(std::move(engine)) {}

bool ParamStore::has(const std::string& name) const {
  return places_.find(name) != places_.end();
}

const ParamStore::Place& ParamStore::place(const std::string& name) const {
  const auto found = places_.find(name);
  if (found != places_.end()) return found->second;
  const std::string near = nearest(name, names_);
  fail_with_hint(near.empty() ? "" : "did you mean " + near + "?", Code::not_found,
                 "no parameter named {}", name);
}

Shape ParamStore::shape(const std::string& name) const {
  const Lock lock(mutex_);
  const Place& where = place(name);
  const ParamSpec& spec = physical_[where.physical].spec;
  return spec.logical_shape(spec.pieces[where.piece]);
}

// REQUIRES: a quantized entry; scales of rows are the entry behind it.
Tensor ParamStore::dequantized(size_t index, const std::vector<Physical>& entries,
                               const Task* task) const {
  const bool scaled = entries[index].format->scales == ScalePlace::row_array;
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
  bool again = false; // the reader before read the same stack: a loop over its layers
  {
    Lock lock(mutex_);
    where = place(name);
    wait_until_whole(lock, task);
    entry = physical_[where.physical];
    if (entry.format->scales == ScalePlace::row_array) scale = physical_[where.physical + 1];
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
  if (checks_) check_finite(name, value);
  need_numbers();
  Lock lock(mutex_);
  begin_turn(lock, nullptr);
  try {
    const Place where = place(name);
    const Physical entry = physical_[where.physical];
    const auto form = written_.find(where.physical);
    const bool is_first = form == written_.end();
    const graph::BufferRef scale = entry.format->scales == ScalePlace::row_array
                                       ? physical_[where.physical + 1].buffer
                                       : nullptr;
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
  ++version_;
  end_turn();
}

int64_t ParamStore::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

void ParamStore::bump() {
  const std::lock_guard lock(mutex_);
  ++version_;
}

size_t ParamStore::index(const std::string& physical_name) const {
  for (size_t i = 0; i < physical_.size(); ++i) {
    if (physical_[i].name == physical_name) return i;
  }
  fail(Code::internal, "no physical parameter named {}", physical_name);
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

// A step takes the buffers it writes out of the store: readers wait for the new ones. The next step
// lets those that wait go first.
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

// REQUIRES: no writer has its turn. The lock is open during the uploads.
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
  if (donated.empty()) return buffers; // a run that reads needs no turn
  last_read_ = {};                     // or the step could not write in place
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
  for (size_t i = 0; i < donated.size(); ++i) physical_[donated[i]].buffer = std::move(buffers[i]);
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
    written_.erase(index);
  }
  lost_.clear();
  ++version_;
  also();
}

void ParamStore::replace(size_t index, graph::BufferRef buffer) {
  const std::lock_guard lock(mutex_);
  physical_[index].buffer = std::move(buffer);
}

NamedTensors ParamStore::to_logical(size_t physical_index, const Tensor& tensor) const {
  return split_physical(physical_[physical_index].spec, tensor);
}

Tensor ParamStore::to_physical(size_t physical_index,
                               const std::function<Tensor(const std::string&)>& read,
                               const Task* task) const {
  return join_logical(physical_[physical_index].spec, DType::f32, read, task);
}

// The plain form is kept where rows are looked up, or will be trained.
graph::BufferRef ParamStore::upload(const Physical& entry, const Tensor& tensor,
                                    const Task* task) const {
  const ParamRole role = entry.spec.role;
  const bool scale = entry.scale_of >= 0;
  if (scale || is_vector(role) || role == ParamRole::positions) {
    return engine_->upload_cut(tensor, true, entry.layout);
  }
  // The head of a tied model is this very table: both forms. An untied one is never multiplied. Blocks have one
  // form for both uses.
  if (role == ParamRole::embedding && !entry.format->is_blocks())
    return engine_->upload_cut(tensor, true, entry.layout);
  return engine_->upload_weight_cut(tensor, false, entry.layout, task);
}

void ParamStore::store(size_t index, const ParamForm& form, const Task* task) const {
  Physical& entry = physical_[index];
  graph::BufferRef buffer = upload(entry, form.values, task);
  graph::BufferRef scale =
      form.scale.defined() ? upload(physical_[index + 1], form.scale, task) : nullptr;
  const std::lock_guard lock(mutex_);
  entry.buffer = std::move(buffer);
  if (scale) {
    physical_[index + 1].buffer = std::move(scale);
    rounding_[index] = std::max(rounding_[index], form.rounding);
  } else if (form.rounding > 0 && entry.is_quantized()) {
    rounding_[index] = std::max(rounding_[index], form.rounding);
  }
}

size_t ParamStore::append(const ParamSpec& spec, const WeightFormat& format) {
  const size_t index = physical_.size();
  Physical entry;
  entry.spec = spec;
  entry.name = spec.name;
  entry.shape = stored_shape(format, spec.shape());
  entry.dtype = format.element;
  entry.format = &format;
  entry.decay = !is_vector(spec.role);
  set_layout(entry);
  physical_.push_back(entry);
  if (format.scales == ScalePlace::row_array) {
    entry.name += ".scale";
    entry.shape = spec.shape().without(-1);
    entry.dtype = DType::f32;
    entry.format = &weight_format(DType::f32);
    entry.decay = entry.trainable = false;
    entry.scale_of = static_cast<int>(index);
    set_layout(entry);
    physical_.push_back(entry);
  }
  for (int64_t layer = 0; layer < spec.copies(); ++layer) {
    for (size_t piece = 0; piece < spec.pieces.size(); ++piece) {
      const std::string name = spec.logical_name(spec.pieces[piece], layer);
      if (spec.role != ParamRole::adapter) names_.push_back(name);
      places_[name] = {index, piece, layer};
    }
  }
  return index;
}

// A weight that cannot be gathered (rows of 8 bits, blocks) is whole over axis fsdp. Scales go with the rows.
void ParamStore::set_layout(Physical& entry) const {
  Partition& cut = entry.spec.partition;
  if (entry.scale_of >= 0 || entry.is_quantized()) {
    cut.gathered_dim = -1;
    cut.gathered_ranks = 1;
  }
  entry.layout = entry.spec.layout();
  if (entry.scale_of >= 0 && cut.kind == PartitionKind::rows) entry.layout = {};
  entry.part = entry.layout.part_shape(entry.shape, engine_->mesh());
}

void ParamStore::add(const ParamSpec& spec, const ParamForm& form, const Task* task) {
  store(append(spec, *form.format), form, task);
}

void ParamStore::add_sketch(const ParamSpec& spec, const WeightFormat& format) {
  sketch_ = true;
  append(spec, format);
}

void ParamStore::need_numbers() const {
  if (!sketch_) return;
  fail_with_hint("load the model", Code::failed_precondition,
                 "the model is a sketch: it has shapes and types, but no numbers");
}

void ParamStore::reshape(size_t index, const ParamSpec& spec, const ParamForm& form) {
  const std::vector<Physical> before = entries(); // uploads what was written
  Physical made = before[index], scale;
  made.spec = spec;
  Partition& cut = made.spec.partition;
  if (cut.cuts() && spec.element[0] % cut.ranks != 0) cut.kind = PartitionKind::none;
  made.shape = stored_shape(*made.format, spec.shape());
  set_layout(made);
  made.buffer = upload(made, form.values, nullptr);
  if (form.scale.defined()) {
    scale = before[index + 1];
    scale.spec = made.spec;
    scale.shape = form.scale.shape();
    set_layout(scale);
    scale.buffer = upload(scale, form.scale, nullptr);
  }
  Lock lock(mutex_);
  wait(lock, nullptr, [this] { return !turn_; }); // the lock itself is the turn from here on
  if (scale.buffer) {
    double& rounding = rounding_[index];
    rounding = std::max(rounding, form.rounding);
    physical_[index + 1] = std::move(scale);
  }
  physical_[index] = std::move(made);
  written_.erase(index);
  ++version_;
}

void ParamStore::make_masters() {
  bool changed = false;
  if (!sketch_) entries(); // waits for a step, uploads what was written
  std::vector<Physical> kept;
  std::map<size_t, double> rounding;
  std::vector<size_t> moved(physical_.size());
  for (size_t i = 0; i < physical_.size(); ++i) {
    Physical entry = physical_[i];
    const bool widened_base =
        entry.scale_of >= 0 && physical_[static_cast<size_t>(entry.scale_of)].trainable;
    if (widened_base) continue;
    moved[i] = kept.size();
    if (entry.scale_of >= 0)
      entry.scale_of = static_cast<int>(moved[static_cast<size_t>(entry.scale_of)]);
    else if (!entry.trainable && rounding_.contains(i))
      rounding[kept.size()] = rounding_.at(i);
    if (entry.trainable) {
      // A copy of our own: the optimizer writes in place.
      const Tensor master = sketch_ ? Tensor() : widened(i);
      changed = changed || entry.dtype != DType::f32;
      entry.dtype = DType::f32;
      entry.format = &weight_format(DType::f32);
      entry.shape = entry.spec.shape();
      set_layout(entry);
      if (!sketch_) entry.buffer = engine_->upload_cut(master, false, entry.layout);
    }
    kept.push_back(std::move(entry));
  }
  const std::lock_guard lock(mutex_);
  physical_ = std::move(kept);
  rounding_ = std::move(rounding);
  for (auto& [name, where] : places_) where.physical = moved[where.physical];
  if (changed) ++version_;
}

int64_t ParamStore::parameter_count() const {
  const Lock lock(mutex_);
  int64_t count = 0;
  for (const Physical& entry : physical_)
    count += entry.scale_of < 0 ? entry.spec.shape().count() : 0;
  return count;
}

int64_t ParamStore::bytes() const {
  const Lock lock(mutex_);
  int64_t bytes = taken_ ? taken_bytes_ : 0;
  for (const Physical& entry : physical_) {
    if (sketch_)
      bytes += entry.shape.count() * dtype_size(entry.dtype);
    else if (entry.buffer != nullptr)
      bytes += entry.buffer->memory_bytes();
  }
  return bytes;
}

Json ParamStore::describe() const {
  const Lock lock(mutex_);
  Json list = Json::array();
  for (size_t i = 0; i < physical_.size(); ++i) {
    const Physical& entry = physical_[i];
    if (entry.scale_of >= 0) continue;
    Json row = {{"name", entry.name},
                {"shape", entry.spec.shape().dims()},
                {"dtype", entry.format->is_blocks() ? entry.format->name : dtype_name(entry.dtype)},
                {"format", entry.format->name},
                {"trainable", entry.trainable}};
    if (const auto found = rounding_.find(i); found != rounding_.end())
      row["rounding_error"] = found->second;
    list.push_back(std::move(row));
  }
  return list;
}

} // namespace dllm::model
