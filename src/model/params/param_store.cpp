#include "model/params/param_store.h"

#include "base/error.h"
#include "base/log.h"
#include "base/named_table.h"
#include "base/number.h"
#include "model/adapters/kinds/adapter_kinds.h"
#include "model/params/stack_part.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

namespace dllm::model {

ParamStore::ParamStore(std::shared_ptr<graph::Engine> engine) : engine_(std::move(engine)) {}

bool ParamStore::has(const std::string& name) const {
  return find_place(name) != nullptr;
}

std::vector<std::string> ParamStore::names(const std::string& part) const {
  std::vector<std::string> names;
  std::ranges::copy_if(names_, std::back_inserter(names),
                       [&](const std::string& name) { return split_name(name).first == part; });
  return names;
}

const ParamStore::Place* ParamStore::find_place(const std::string& name) const {
  if (const auto found = places_.find(name); found != places_.end()) return &found->second;
  for (const Physical& entry : physical_) {
    if (entry.spec.role != ParamRole::adapter) continue;
    const auto found = places_.find(qualified_name(entry.spec.part, name));
    if (found != places_.end()) return &found->second;
  }
  return nullptr;
}

const ParamStore::Place& ParamStore::place(const std::string& name) const {
  if (const Place* found = find_place(name)) return *found;
  fail_unnamed({"parameter"}, name, names_);
}

Shape ParamStore::shape(const std::string& name) const {
  const Lock lock(mutex_);
  const Place& where = place(name);
  const ParamSpec& spec = physical_[where.physical].spec;
  return spec.logical_shape(spec.pieces[where.piece]);
}

size_t ParamStore::index(const std::string& physical_name) const {
  for (size_t i = 0; i < physical_.size(); ++i) {
    if (physical_[i].name == physical_name) return i;
  }
  fail(Code::internal, "no physical parameter named {}", physical_name);
}

NamedTensors ParamStore::to_logical(size_t physical_index, const Tensor& tensor) const {
  return split_physical(physical_[physical_index].spec, tensor);
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
  Physical& entry = physical_[index];
  graph::BufferRef buffer = upload(entry, form.values, form.is_part, task);
  graph::BufferRef scale =
      form.scale.defined() ? upload(physical_[index + 1], form.scale, form.is_part, task) : nullptr;
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
  entry.name = qualified_name(spec.part, spec.name);
  entry.shape = stored_shape(format, spec.shape());
  entry.dtype = format.element;
  entry.format = &format;
  const bool is_of_adapter = spec.role == ParamRole::adapter;
  entry.decay = is_of_adapter && is_adapter_tensor(spec.name) ? adapter_tensor_decays(spec.name)
                : is_of_adapter                               ? spec.element.rank() > 1
                                                              : !is_vector(spec.role);
  set_layout(entry);
  physical_.push_back(entry);
  if (format.has_table()) {
    entry.name += ".scale";
    entry.shape = table_shape(format, spec.shape());
    entry.dtype = DType::f32;
    entry.format = &weight_format(DType::f32);
    entry.decay = false;
    entry.scale_of = static_cast<int>(index);
    set_layout(entry);
    physical_.push_back(entry);
  }
  for (int64_t layer = 0; layer < spec.copies(); ++layer) {
    for (size_t piece = 0; piece < spec.pieces.size(); ++piece) {
      const std::string name = spec.logical_name(spec.pieces[piece], layer);
      names_.push_back(name);
      places_[name] = {index, piece, layer};
    }
  }
  return index;
}

// Sets the layout. A weight that cannot be gathered (8-bit rows, blocks) is whole over axis fsdp.
// Scales follow their rows.
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

void ParamStore::reshape(size_t index, const ParamSpec& spec, const ParamForm& form) {
  const std::vector<Physical> before = entries(); // uploads what was written
  Physical made = before[index], scale;
  made.spec = spec;
  Partition& cut = made.spec.partition;
  if (cut.cuts() && spec.element[0] % cut.ranks != 0) cut.kind = PartitionKind::none;
  made.shape = stored_shape(*made.format, spec.shape());
  set_layout(made);
  made.buffer = upload(made, form.values, form.is_part, nullptr);
  if (form.scale.defined()) {
    scale = before[index + 1];
    scale.spec = made.spec;
    scale.shape = form.scale.shape();
    set_layout(scale);
    scale.buffer = upload(scale, form.scale, form.is_part, nullptr);
  }
  Lock lock(mutex_);
  wait(lock, nullptr, [this] { return !turn_; }); // the lock itself is the turn from here on
  if (scale.buffer) {
    double& rounding = rounding_[index];
    rounding = std::max(rounding, form.rounding);
    physical_[index + 1] = std::move(scale);
  }
  count_change(made.spec.part);
  physical_[index] = std::move(made);
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
  std::vector<size_t> moved(physical_.size());
  for (size_t i = 0; i < physical_.size(); ++i) {
    Physical entry = physical_[i];
    const bool widened_base =
        entry.scale_of >= 0 && trained(physical_[static_cast<size_t>(entry.scale_of)]);
    if (widened_base) continue;
    moved[i] = kept.size();
    if (entry.scale_of >= 0)
      entry.scale_of = static_cast<int>(moved[static_cast<size_t>(entry.scale_of)]);
    else if (!trained(entry) && rounding_.contains(i))
      rounding[kept.size()] = rounding_.at(i);
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
      set_layout(entry);
      if (is_quantized && !sketch_)
        entry.buffer = engine_->upload_cut(master, false, entry.layout);
      else if (!sketch_)
        entry.buffer = upload_copy(*engine_, *entry.buffer, entry.layout, nullptr);
    }
    kept.push_back(std::move(entry));
  }
  const std::lock_guard lock(mutex_);
  physical_ = std::move(kept);
  rounding_ = std::move(rounding);
  for (auto& [name, where] : places_) where.physical = moved[where.physical];
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

std::vector<ParamSpec> ParamStore::specs(const std::string& part) const {
  const Lock lock(mutex_);
  std::vector<ParamSpec> made;
  for (const Physical& entry : physical_) {
    if (entry.scale_of < 0 && entry.spec.part == part) made.push_back(entry.spec);
  }
  return made;
}

int64_t ParamStore::parameter_count() const {
  const Lock lock(mutex_);
  int64_t count = 0;
  for (const Physical& entry : physical_) {
    if (entry.scale_of < 0 && entry.is_of_base()) count += entry.spec.shape().count();
  }
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

Json ParamStore::describe(const Test& trained) const {
  const Lock lock(mutex_);
  Json list = Json::array();
  for (size_t i = 0; i < physical_.size(); ++i) {
    const Physical& entry = physical_[i];
    if (entry.scale_of >= 0) continue;
    Json row = {{"name", entry.name},
                {"shape", entry.spec.shape().dims()},
                {"dtype", entry.format->is_blocks() ? entry.format->name : dtype_name(entry.dtype)},
                {"format", entry.format->name},
                {"trainable", trained(entry)}};
    if (const auto found = rounding_.find(i); found != rounding_.end())
      row["rounding_error"] = found->second;
    list.push_back(std::move(row));
  }
  return list;
}

} // namespace dllm::model
