#include "model/param_store.h"

#include "base/error.h"
#include "tensor/check_values.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <thread>

namespace dllm::model {
namespace {

// '*' stands for any run of characters.
bool matches(std::string_view pattern, std::string_view text) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (text.substr(0, star) != pattern.substr(0, star)) return false;
  pattern.remove_prefix(star + 1);
  for (size_t from = star; from <= text.size(); ++from) {
    if (matches(pattern, text.substr(from))) return true;
  }
  return false;
}

} // namespace

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
  const Place& where = place(name);
  const ParamSpec& spec = physical_[where.physical].spec;
  return spec.logical_shape(spec.pieces[where.piece]);
}

Tensor ParamStore::widened(size_t index) const {
  need_numbers();
  const Physical& entry = physical_[index];
  const Tensor values = entry.buffer->read();
  if (entry.dtype != DType::i8) return values.to(DType::f32);
  return dequantize(values, physical_[index + 1].buffer->read());
}

Tensor ParamStore::read(const std::string& name) const {
  const Place& where = place(name);
  need_numbers();
  const Physical& entry = physical_[where.physical];
  const Tensor values = entry.dtype == DType::i8 ? widened(where.physical) : entry.buffer->read();
  return read_piece(entry.spec, where.piece, where.layer, values);
}

void ParamStore::write(const std::string& name, const Tensor& value) {
  const Place& where = place(name);
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
  const Physical& entry = physical_[where.physical];
  ParamForm form(entry.spec, entry.dtype);
  form.values = entry.buffer->read().clone();
  if (entry.dtype == DType::i8) form.scale = physical_[where.physical + 1].buffer->read().clone();
  form.put(entry.spec, where.piece, where.layer, value);
  store(where.physical, form);
  bump();
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

std::vector<graph::BufferRef> ParamStore::snapshot(int64_t* version) const {
  need_numbers();
  // A training step takes the buffers it writes out of the store: readers on other threads wait for
  // the new ones.
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    const std::lock_guard lock(mutex_);
    std::vector<graph::BufferRef> buffers;
    buffers.reserve(physical_.size());
    for (const Physical& entry : physical_) buffers.push_back(entry.buffer);
    if (std::find(buffers.begin(), buffers.end(), nullptr) != buffers.end()) continue;
    if (version != nullptr) *version = version_;
    return buffers;
  }
}

void ParamStore::replace(size_t index, graph::BufferRef buffer) {
  const std::lock_guard lock(mutex_);
  physical_[index].buffer = std::move(buffer);
}

NamedTensors ParamStore::to_logical(size_t physical_index, const Tensor& tensor) const {
  return split_physical(physical_[physical_index].spec, tensor);
}

Tensor ParamStore::to_physical(size_t physical_index,
                               const std::function<Tensor(const std::string&)>& read) const {
  return join_logical(physical_[physical_index].spec, DType::f32, read);
}

// The plain form is kept where somebody looks rows up, or will train.
graph::BufferRef ParamStore::upload(const Physical& entry, const Tensor& tensor) const {
  const ParamRole role = entry.spec.role;
  const bool scale = entry.scale_of >= 0;
  if (scale || is_vector(role) || role == ParamRole::positions) {
    return engine_->upload(tensor, true);
  }
  // The head of a tied model is this very table: both forms. An untied one is never multiplied.
  if (role == ParamRole::embedding) return engine_->upload(tensor, true);
  return engine_->upload_weight(tensor, false);
}

void ParamStore::store(size_t index, const ParamForm& form) {
  Physical& entry = physical_[index];
  graph::BufferRef buffer = upload(entry, form.values);
  graph::BufferRef scale =
      form.scale.defined() ? upload(physical_[index + 1], form.scale) : nullptr;
  const std::lock_guard lock(mutex_);
  entry.buffer = std::move(buffer);
  if (scale) {
    physical_[index + 1].buffer = std::move(scale);
    rounding_[index] = std::max(rounding_[index], form.rounding);
  }
}

size_t ParamStore::append(const ParamSpec& spec, DType dtype) {
  const size_t index = physical_.size();
  Physical entry;
  entry.spec = spec;
  entry.name = spec.name;
  entry.shape = spec.shape();
  entry.dtype = dtype;
  entry.decay = !is_vector(spec.role);
  physical_.push_back(entry);
  if (dtype == DType::i8) {
    entry.name += ".scale";
    entry.shape = spec.shape().without(-1);
    entry.dtype = DType::f32;
    entry.decay = entry.trainable = false;
    entry.scale_of = static_cast<int>(index);
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

void ParamStore::add(const ParamSpec& spec, const ParamForm& form) {
  store(append(spec, form.values.dtype()), form);
}

void ParamStore::add_sketch(const ParamSpec& spec, DType dtype) {
  sketch_ = true;
  append(spec, dtype);
}

void ParamStore::need_numbers() const {
  if (!sketch_) return;
  fail_with_hint("load the model", Code::failed_precondition,
                 "the model is a sketch: it has shapes and types, but no numbers");
}

void ParamStore::reshape(size_t index, const ParamSpec& spec, const ParamForm& form) {
  need_numbers();
  Physical& entry = physical_[index];
  entry.spec = spec;
  entry.shape = spec.shape();
  if (form.scale.defined()) {
    physical_[index + 1].spec = spec;
    physical_[index + 1].shape = form.scale.shape();
  }
  store(index, form);
  bump();
}

void ParamStore::make_masters() {
  bool changed = false;
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
      if (!sketch_) entry.buffer = engine_->upload(widened(i));
      changed = changed || entry.dtype != DType::f32;
      entry.dtype = DType::f32;
    }
    kept.push_back(std::move(entry));
  }
  const std::lock_guard lock(mutex_);
  physical_ = std::move(kept);
  rounding_ = std::move(rounding);
  for (auto& [name, where] : places_) where.physical = moved[where.physical];
  if (changed) ++version_;
}

void ParamStore::set_trainable(const std::string& pattern, bool trainable) {
  std::map<size_t, int64_t> hits;
  for (const auto& [name, where] : places_) {
    if (matches(pattern, name)) ++hits[where.physical];
  }
  if (hits.empty()) fail(Code::not_found, "no parameter matches {}", pattern);
  for (const auto& [index, count] : hits) {
    const ParamSpec& spec = physical_[index].spec;
    const int64_t all = spec.copies() * static_cast<int64_t>(spec.pieces.size());
    if (count != all) {
      fail_with_hint(
          "use a pattern with * for the layer", Code::unimplemented,
          "{} matches {} of the {} tensors of {}: freezing some layers is not supported yet",
          pattern, count, all, spec.name);
    }
  }
  for (const auto& [index, count] : hits) physical_[index].trainable = trainable;
}

int64_t ParamStore::parameter_count() const {
  int64_t count = 0;
  for (const Physical& entry : physical_) count += entry.scale_of < 0 ? entry.shape.count() : 0;
  return count;
}

int64_t ParamStore::bytes() const {
  int64_t bytes = 0;
  if (sketch_) {
    for (const Physical& entry : physical_) bytes += entry.shape.count() * dtype_size(entry.dtype);
    return bytes;
  }
  for (const graph::BufferRef& buffer : snapshot()) bytes += buffer->memory_bytes();
  return bytes;
}

Json ParamStore::describe() const {
  Json list = Json::array();
  for (size_t i = 0; i < physical_.size(); ++i) {
    const Physical& entry = physical_[i];
    if (entry.scale_of >= 0) continue;
    Json row = {{"name", entry.name},
                {"shape", entry.shape.dims()},
                {"dtype", dtype_name(entry.dtype)},
                {"trainable", entry.trainable}};
    if (const auto found = rounding_.find(i); found != rounding_.end())
      row["rounding_error"] = found->second;
    list.push_back(std::move(row));
  }
  return list;
}

} // namespace dllm::model
