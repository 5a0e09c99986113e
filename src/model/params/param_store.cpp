#include "model/params/param_store.h"

#include "base/error.h"
#include "base/log.h"
#include "base/number.h"
#include "model/params/number_range.h"
#include "model/params/stack_part.h"
#include "tensor/batch.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace dllm::model {

ParamStore::ParamStore(std::shared_ptr<graph::Engine> engine) : engine_(std::move(engine)) {}

bool ParamStore::has(const std::string& name) const {
  return list_.find_place(name) != nullptr;
}

std::vector<std::string> ParamStore::names(const std::string& part) const {
  std::vector<std::string> names;
  std::ranges::copy_if(list_.names(), std::back_inserter(names),
                       [&](const std::string& name) { return split_name(name).first == part; });
  return names;
}

Shape ParamStore::shape(const std::string& name) const {
  const Lock lock = turns_.lock();
  const Place& where = list_.place(name);
  const ParamSpec& spec = list_[where.physical].spec;
  return spec.logical_shape(spec.pieces[where.piece]);
}

NamedTensors ParamStore::to_logical(size_t physical_index, const Tensor& tensor) const {
  return split_physical(list_[physical_index].spec, tensor);
}

// Uploads an entry, as a plain array or in the form that products read.
graph::BufferRef ParamStore::upload(const Physical& entry, const Tensor& tensor, bool is_part,
                                    const Task* task) const {
  const ParamRole role = entry.spec.role;
  // Scales, vectors and tables are plain. A table in blocks has one form for lookups and products.
  const bool is_plain = entry.scale_of >= 0 || is_vector(role) || role == ParamRole::positions ||
                        (role == ParamRole::embedding && !entry.format->is_blocks());
  if (is_plain)
    return is_part ? engine_->upload_part(tensor, true, entry.layout)
                   : engine_->upload_cut(tensor, true, entry.layout);
  return is_part ? engine_->upload_weight_part(tensor, false, entry.layout, task)
                 : engine_->upload_weight_cut(tensor, false, entry.layout, task);
}

void ParamStore::store(size_t index, const ParamForm& form, const Task* task) const {
  Physical& entry = list_[index];
  graph::BufferRef buffer = upload(entry, form.values, form.is_part, task);
  graph::BufferRef scale =
      form.scale.defined() ? upload(list_[index + 1], form.scale, form.is_part, task) : nullptr;
  const Lock lock = turns_.lock();
  entry.buffer = std::move(buffer);
  if (scale) {
    list_[index + 1].buffer = std::move(scale);
    list_.note_rounding(index, form.rounding);
  } else if (form.rounding > 0 && entry.is_quantized()) {
    list_.note_rounding(index, form.rounding);
  }
}

void ParamStore::add(const ParamSpec& spec, const ParamForm& form, const Task* task) {
  store(reserve(spec, *form.format), form, task);
}

void ParamStore::add_sketch(const ParamSpec& spec, const WeightFormat& format) {
  sketch_ = true;
  reserve(spec, format);
}

void ParamStore::reshape(size_t index, const ParamSpec& spec, const ParamForm& form) {
  const std::vector<Physical> before = entries(); // uploads what was written
  Physical made = before[index], scale;
  made.spec = spec;
  Partition& cut = made.spec.partition;
  if (cut.cuts() && spec.element[0] % cut.ranks != 0) cut.kind = PartitionKind::none;
  made.shape = stored_shape(*made.format, spec.shape());
  made.set_layout(engine_->mesh());
  made.buffer = upload(made, form.values, form.is_part, nullptr);
  if (form.scale.defined()) {
    scale = before[index + 1];
    scale.spec = made.spec;
    scale.shape = form.scale.shape();
    scale.set_layout(engine_->mesh());
    scale.buffer = upload(scale, form.scale, form.is_part, nullptr);
  }
  Lock lock = turns_.lock();
  turns_.wait_for_writer(lock, nullptr); // the lock itself is the turn from here on
  if (scale.buffer) {
    list_.note_rounding(index, form.rounding);
    list_[index + 1] = std::move(scale);
  }
  count_change(made.spec.part);
  list_[index] = std::move(made);
  written_.erase(index);
  ++version_;
}

void ParamStore::make_masters(const Test& trained) {
  bool changed = false;
  std::set<std::string> widened_from; // names of formats in blocks or with scales
  int64_t before = 0, after = 0;
  if (!sketch_) entries(); // waits for a step, uploads what was written
  std::vector<Physical> kept;
  std::map<size_t, double> rounding;
  std::vector<size_t> moved(list_.size());
  for (size_t i = 0; i < list_.size(); ++i) {
    Physical entry = list_[i];
    const bool widened_base =
        entry.scale_of >= 0 && trained(list_[static_cast<size_t>(entry.scale_of)]);
    if (widened_base) continue;
    moved[i] = kept.size();
    if (entry.scale_of >= 0)
      entry.scale_of = static_cast<int>(moved[static_cast<size_t>(entry.scale_of)]);
    else if (!trained(entry) && list_.rounding().contains(i))
      rounding[kept.size()] = list_.rounding().at(i);
    if (trained(entry)) {
      // Its own copy, because the optimizer writes in place.
      const bool is_quantized = entry.is_quantized();
      const Tensor master = sketch_ || !is_quantized ? Tensor() : widened(i);
      changed = changed || entry.dtype != DType::f32;
      if (is_quantized) {
        widened_from.insert(entry.format->name);
        before += weight_bytes(*entry.format, entry.spec.shape());
        after += weight_bytes(weight_format(DType::f32), entry.spec.shape());
      }
      entry.dtype = DType::f32;
      entry.format = &weight_format(DType::f32);
      entry.shape = entry.spec.shape();
      entry.set_layout(engine_->mesh());
      if (is_quantized && !sketch_)
        entry.buffer = engine_->upload_cut(master, false, entry.layout);
      else if (!sketch_)
        entry.buffer = upload_copy(*engine_, *entry.buffer, entry.layout, nullptr);
    }
    kept.push_back(std::move(entry));
  }
  const Lock lock = turns_.lock();
  list_.replace(std::move(kept), std::move(rounding));
  if (changed) {
    ++version_;
    ++base_version_;
    ++list_version_;
  }
  if (!widened_from.empty() && !sketch_) {
    log(LogLevel::warn, "training widens weights of format {} to f32: {} become {}",
        fmt::join(widened_from, ", "), memory_text(static_cast<double>(before)),
        memory_text(static_cast<double>(after)));
  }
}

int64_t ParamStore::bytes() const {
  const Lock lock = turns_.lock();
  int64_t bytes = turns_.is_taken() ? taken_bytes_ : 0;
  for (const Physical& entry : physical()) {
    if (sketch_)
      bytes += entry.shape.count() * dtype_size(entry.dtype);
    else if (entry.buffer != nullptr)
      bytes += entry.buffer->memory_bytes();
  }
  return bytes;
}

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
    Lock lock = turns_.lock();
    where = list_.place(name);
    wait_until_whole(lock, task);
    entry = list_[where.physical];
    if (entry.format->has_table()) scale = list_[where.physical + 1];
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
    const Lock lock = turns_.lock();
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
    check_number_range(name, value, *list_[list_.place(name).physical].format);
  }
  need_numbers();
  Lock lock = turns_.lock();
  turns_.wait_for_writer(lock, nullptr);
  turns_.begin();
  try {
    const Place where = list_.place(name);
    const Physical entry = list_[where.physical];
    const auto form = written_.find(where.physical);
    const bool is_first = form == written_.end();
    const graph::BufferRef scale =
        entry.format->has_table() ? list_[where.physical + 1].buffer : nullptr;
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
    turns_.end();
    throw;
  }
  count_change(list_[list_.place(name).physical].spec.part);
  ++version_;
  turns_.end();
}

int64_t ParamStore::version() const {
  const Lock lock = turns_.lock();
  return version_;
}

int64_t ParamStore::base_version() const {
  const Lock lock = turns_.lock();
  return base_version_;
}

int64_t ParamStore::list_version() const {
  const Lock lock = turns_.lock();
  return list_version_;
}

int64_t ParamStore::changes(const std::string& part) const {
  const Lock lock = turns_.lock();
  const auto found = changes_.find(part);
  return found == changes_.end() ? 0 : found->second;
}

void ParamStore::bump_list() {
  const Lock lock = turns_.lock();
  ++list_version_;
}

void ParamStore::bump() {
  const Lock lock = turns_.lock();
  ++version_;
  ++base_version_;
}

void ParamStore::bump_parts() {
  const Lock lock = turns_.lock();
  ++version_;
}

void ParamStore::count_change(const std::string& part) {
  ++changes_[part];
  base_version_ += part == kBasePart ? 1 : 0;
}

void ParamStore::wait_until_whole(Lock& lock, const Task* task) const {
  turns_.wait_to_read(lock, task, [this] { return written_.empty(); });
  if (!written_.empty()) upload_written(lock, task);
}

// REQUIRES: no writer has its turn. The lock is released during the uploads.
void ParamStore::upload_written(Lock& lock, const Task* task) const {
  turns_.begin();
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
    turns_.end();
    throw;
  }
  turns_.end();
}

std::vector<ParamStore::Physical> ParamStore::entries(const Task* task) const {
  need_numbers();
  Lock lock = turns_.lock();
  wait_until_whole(lock, task);
  return physical();
}

std::vector<graph::BufferRef> ParamStore::snapshot(int64_t* version, const Task* task) const {
  need_numbers();
  Lock lock = turns_.lock();
  wait_until_whole(lock, task);
  std::vector<graph::BufferRef> buffers;
  buffers.reserve(list_.size());
  for (const Physical& entry : physical()) buffers.push_back(entry.buffer);
  if (version != nullptr) *version = version_;
  return buffers;
}

std::vector<size_t> ParamStore::indices(const PartList& parts) const {
  std::vector<size_t> indices;
  for (size_t i = 0; i < list_.size(); ++i) {
    if (parts.has(list_[i].spec.part)) indices.push_back(i);
  }
  return indices;
}

std::vector<graph::BufferRef> ParamStore::snapshot(const PartList& parts, int64_t* version,
                                                   const Task* task) const {
  need_numbers();
  Lock lock = turns_.lock();
  wait_until_whole(lock, task);
  std::vector<graph::BufferRef> buffers;
  for (const size_t index : indices(parts)) buffers.push_back(list_[index].buffer);
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
  Lock lock = turns_.lock();
  wait_until_whole(lock, task);
  look();
}

std::vector<graph::BufferRef> ParamStore::take(std::span<const size_t> donated, const Task* task) {
  need_numbers();
  Lock lock = turns_.lock();
  for (;;) {
    turns_.wait_for_readers(lock, task);
    if (written_.empty()) break;
    upload_written(lock, task);
  }
  std::vector<graph::BufferRef> buffers;
  buffers.reserve(list_.size());
  for (const Physical& entry : physical()) buffers.push_back(entry.buffer);
  if (donated.empty()) return buffers; // a run that only reads needs no turn
  last_read_ = {};                     // else the step could not write in place
  turns_.begin_step();
  taken_bytes_ = 0;
  for (const size_t index : donated) {
    taken_bytes_ += buffers[index]->memory_bytes();
    list_[index].buffer = nullptr;
  }
  return buffers;
}

void ParamStore::put(std::span<const size_t> donated, std::vector<graph::BufferRef> buffers,
                     bool changed) {
  if (donated.empty()) return;
  const Lock lock = turns_.lock();
  for (size_t i = 0; i < donated.size(); ++i) {
    list_[donated[i]].buffer = std::move(buffers[i]);
    if (changed) count_change(list_[donated[i]].spec.part);
  }
  if (changed) ++version_;
  turns_.end();
}

void ParamStore::lose(const std::string& why) {
  const Lock lock = turns_.lock();
  turns_.lose(why);
}

std::string ParamStore::lost() const {
  const Lock lock = turns_.lock();
  return turns_.lost();
}

void ParamStore::restore(std::vector<std::pair<size_t, graph::BufferRef>> buffers,
                         const std::function<void()>& also) {
  Lock lock = turns_.lock();
  turns_.wait_even_if_lost(lock);
  for (auto& [index, buffer] : buffers) {
    list_[index].buffer = std::move(buffer);
    count_change(list_[index].spec.part);
    written_.erase(index);
  }
  turns_.clear_lost();
  ++version_;
  ++base_version_;
  also();
}

void ParamStore::replace(size_t index, graph::BufferRef buffer) {
  const Lock lock = turns_.lock();
  list_[index].buffer = std::move(buffer);
}

void ParamStore::need_numbers() const {
  if (!sketch_) return;
  fail_with_hint("load the model", Code::failed_precondition,
                 "the model is a sketch: it has shapes and types, but no numbers");
}

std::vector<ParamSpec> ParamStore::specs(const std::string& part) const {
  const Lock lock = turns_.lock();
  return list_.specs(part);
}

int64_t ParamStore::parameter_count() const {
  const Lock lock = turns_.lock();
  return list_.parameter_count();
}

Json ParamStore::describe(const Test& trained) const {
  const Lock lock = turns_.lock();
  return list_.describe(trained);
}

std::set<int64_t> ParamStore::cuts_of(const std::string& network) const {
  const auto found = cuts().find(network);
  return found == cuts().end() ? std::set<int64_t>{} : found->second;
}

void ParamStore::cut_at(const Cuts& borders) {
  if (borders.empty()) return;
  if (!sketch_) entries(); // uploads what was written
  ParamList cut = list_.cut_at(borders, [this](Physical& entry, int64_t begin, int64_t end) {
    entry.set_layout(engine_->mesh());
    if (sketch_) return;
    // The buffer has its own storage, so that the rest of the stack may be freed.
    entry.buffer = upload(entry, entry.buffer->read().rows(begin, end).clone(), false, nullptr);
  });
  const Lock lock = turns_.lock();
  list_ = std::move(cut);
  ++list_version_;
  ++version_;
}

ParamStore::Backup ParamStore::backup() const {
  if (!sketch_) entries(); // uploads what was written
  const Lock lock = turns_.lock();
  return {list_, changes_, version_, base_version_, list_version_};
}

void ParamStore::restore(Backup before) {
  Lock lock = turns_.lock();
  turns_.wait_for_writer(lock, nullptr);
  list_ = std::move(before.list);
  changes_ = std::move(before.changes);
  version_ = before.version;
  base_version_ = before.base_version;
  list_version_ = before.list_version;
  written_.clear();
  last_read_ = {};
}

int64_t ParamStore::bytes_only_in(const Backup& before) const {
  const Lock lock = turns_.lock();
  std::set<const graph::Buffer*> own;
  for (const Physical& entry : physical()) own.insert(entry.buffer.get());
  int64_t bytes = 0;
  for (const Physical& entry : before.list.entries()) {
    if (entry.buffer != nullptr && !own.contains(entry.buffer.get()))
      bytes += entry.buffer->memory_bytes();
  }
  return bytes;
}

void ParamStore::set_factors(const std::string& part,
                             const std::function<float(const ParamSpec&)>& factor) {
  Lock lock = turns_.lock();
  turns_.wait_for_writer(lock, nullptr);
  for (Physical& entry : list_.entries()) {
    if (entry.spec.part == part) entry.spec.factor = factor(entry.spec);
  }
  ++list_version_;
  ++version_;
}

void ParamStore::drop_part(const std::string& part) {
  if (!sketch_) entries(); // uploads what was written
  const Lock lock = turns_.lock();
  list_.drop_part(part);
  last_read_ = {};
  ++list_version_;
  ++version_;
}

void ParamStore::share_part(const std::string& part, const std::vector<Physical>& entries,
                            const std::set<int64_t>& cuts) {
  const Lock lock = turns_.lock();
  list_.share_part(part, entries, cuts);
  ++version_;
}

} // namespace dllm::model
