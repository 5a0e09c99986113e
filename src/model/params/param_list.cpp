// Changes the list of parameters: cuts of stacks, removal of parts, and the list before a change. A
// trainer trains or freezes a stack as a whole. Where a pattern names only some layers of a stack,
// the run of layers is cut. Each part is then a stack and a scan of its own.

#include "model/params/param_store.h"

#include "base/error.h"

#include <algorithm>
#include <set>

namespace dllm::model {
namespace {

// "layers.q" -> "layers@6.q"; "layers@4.q.scale" -> "layers@6.q.scale".
std::string name_from(int64_t first_layer, const std::string& name) {
  return "layers@" + std::to_string(first_layer) + name.substr(name.find('.'));
}

// Returns the layers where matches of a pattern begin or end inside of a stack. Fails when the
// pattern names a part of one layer.
std::vector<int64_t> borders_in(const std::string& pattern, const ParamSpec& spec) {
  std::vector<int64_t> borders;
  bool before = false;
  for (int64_t layer = 0; layer < spec.copies(); ++layer) {
    size_t hits = 0;
    for (const ParamPiece& piece : spec.pieces)
      hits += name_matches(pattern, spec.logical_name(piece, layer)) ? 1 : 0;
    if (hits != 0 && hits != spec.pieces.size()) {
      fail_with_hint("name all experts of a layer", Code::unimplemented,
                     "{} matches {} of the {} tensors of layer {} of {}: freezing or grouping some "
                     "of them is not supported yet",
                     pattern, hits, spec.pieces.size(), spec.first_layer + layer, spec.name);
    }
    if (layer > 0 && (hits != 0) != before) borders.push_back(spec.first_layer + layer);
    before = hits != 0;
  }
  return borders;
}

} // namespace

std::set<int64_t> ParamStore::cuts_of(const std::string& network) const {
  const auto found = cuts_.find(network);
  return found == cuts_.end() ? std::set<int64_t>{} : found->second;
}

void ParamStore::cut_at(const Cuts& borders) {
  if (borders.empty()) return;
  const std::vector<Physical> before = sketch_ ? physical_ : entries(); // uploads what was written
  std::vector<Physical> made;
  std::map<size_t, double> rounding;
  for (size_t i = 0; i < before.size();) {
    // Entries of one run are consecutive. They are written part by part.
    const ParamSpec& run = before[i].spec;
    size_t end = i + 1;
    while (end < before.size() && run.layers > 0 && before[end].spec.part == run.part &&
           before[end].spec.layers == run.layers && before[end].spec.first_layer == run.first_layer)
      ++end;
    std::vector<int64_t> edges = {0};
    if (const auto own = borders.find(before[i].network()); own != borders.end()) {
      for (const int64_t border : own->second) {
        const int64_t at = border - run.first_layer;
        if (at > 0 && at < run.layers) edges.push_back(at);
      }
    }
    edges.push_back(run.copies());
    for (size_t part = 0; part + 1 < edges.size(); ++part) {
      const size_t offset = made.size();
      for (size_t e = i; e < end; ++e) {
        Physical entry = before[e];
        if (const auto found = rounding_.find(e); found != rounding_.end())
          rounding[made.size()] = found->second;
        if (entry.scale_of >= 0)
          entry.scale_of = static_cast<int>(offset + static_cast<size_t>(entry.scale_of) - i);
        if (edges.size() > 2) cut_entry(entry, edges[part], edges[part + 1]);
        made.push_back(std::move(entry));
      }
    }
    i = end;
  }
  const Lock lock(mutex_);
  physical_ = std::move(made);
  rounding_ = std::move(rounding);
  for (const auto& [network, layers] : borders) cuts_[network].insert(layers.begin(), layers.end());
  find_places();
  ++list_version_;
  ++version_;
}

// Turns an entry into one for its layers [begin, end).
void ParamStore::cut_entry(Physical& entry, int64_t begin, int64_t end) const {
  ParamSpec& spec = entry.spec;
  spec.first_layer += begin;
  if (begin > 0) {
    const std::string own = split_name(entry.name).second; // may end in ".scale"
    entry.name = qualified_name(spec.part, name_from(spec.first_layer, own));
    spec.name = name_from(spec.first_layer, spec.name);
  }
  spec.layers = end - begin;
  entry.shape = entry.shape.with_dim(0, end - begin);
  set_layout(entry);
  if (sketch_) return;
  // The buffer has its own storage, so that the rest of the stack may be freed.
  entry.buffer = upload(entry, entry.buffer->read().rows(begin, end).clone(), false, nullptr);
}

Cuts ParamStore::borders_of(const std::string& pattern) const {
  Cuts borders;
  bool any = false;
  for (const Physical& entry : physical_) {
    if (entry.scale_of >= 0 || count_matches(pattern, entry.spec) == 0) continue;
    any = true;
    for (const int64_t border : borders_in(pattern, entry.spec))
      borders[entry.network()].insert(border);
  }
  if (!any) fail(Code::not_found, "no parameter matches {}", pattern);
  return borders;
}

ParamStore::Backup ParamStore::backup() const {
  if (!sketch_) entries(); // uploads what was written
  const Lock lock(mutex_);
  return {physical_, rounding_, names_, cuts_, changes_, version_, base_version_, list_version_};
}

void ParamStore::restore(Backup before) {
  Lock lock(mutex_);
  wait(lock, nullptr, [this] { return !turn_; });
  physical_ = std::move(before.physical);
  rounding_ = std::move(before.rounding);
  names_ = std::move(before.names);
  cuts_ = std::move(before.cuts);
  changes_ = std::move(before.changes);
  version_ = before.version;
  base_version_ = before.base_version;
  list_version_ = before.list_version;
  written_.clear();
  last_read_ = {};
  find_places();
}

int64_t ParamStore::bytes_only_in(const Backup& before) const {
  const Lock lock(mutex_);
  std::set<const graph::Buffer*> own;
  for (const Physical& entry : physical_) own.insert(entry.buffer.get());
  int64_t bytes = 0;
  for (const Physical& entry : before.physical) {
    if (entry.buffer != nullptr && !own.contains(entry.buffer.get()))
      bytes += entry.buffer->memory_bytes();
  }
  return bytes;
}

void ParamStore::set_factors(const std::string& part,
                             const std::function<float(const ParamSpec&)>& factor) {
  Lock lock(mutex_);
  wait(lock, nullptr, [this] { return !turn_; });
  for (Physical& entry : physical_) {
    if (entry.spec.part == part) entry.spec.factor = factor(entry.spec);
  }
  ++list_version_;
  ++version_;
}

void ParamStore::drop_part(const std::string& part) {
  if (!sketch_) entries(); // uploads what was written
  const Lock lock(mutex_);
  std::vector<Physical> kept;
  std::vector<size_t> moved(physical_.size()); // a cut may have mixed the parts
  std::map<size_t, double> rounding;
  for (size_t i = 0; i < physical_.size(); ++i) {
    moved[i] = kept.size();
    if (physical_[i].spec.part == part) continue;
    if (const auto found = rounding_.find(i); found != rounding_.end())
      rounding[kept.size()] = found->second;
    Physical entry = physical_[i];
    if (entry.scale_of >= 0)
      entry.scale_of = static_cast<int>(moved[static_cast<size_t>(entry.scale_of)]);
    kept.push_back(std::move(entry));
  }
  physical_ = std::move(kept);
  rounding_ = std::move(rounding);
  last_read_ = {};
  std::erase_if(names_, [&](const std::string& name) { return split_name(name).first == part; });
  cuts_.erase(part);
  find_places();
  ++list_version_;
  ++version_;
}

void ParamStore::share_part(const std::string& part, const std::vector<Physical>& entries,
                            const std::set<int64_t>& cuts) {
  const Lock lock(mutex_);
  if (!cuts.empty()) cuts_[part] = cuts;
  const auto offset = static_cast<int>(physical_.size());
  for (const Physical& other : entries) {
    Physical entry = other;
    entry.spec.part = part;
    entry.name = qualified_name(part, split_name(other.name).second);
    if (entry.scale_of >= 0) entry.scale_of += offset;
    for (int64_t layer = 0; layer < entry.spec.copies() && entry.scale_of < 0; ++layer) {
      for (const ParamPiece& piece : entry.spec.pieces)
        names_.push_back(entry.spec.logical_name(piece, layer));
    }
    physical_.push_back(std::move(entry));
  }
  find_places();
  ++version_;
}

void ParamStore::find_places() {
  places_.clear();
  for (size_t i = 0; i < physical_.size(); ++i) {
    if (physical_[i].scale_of < 0) add_places(i);
  }
}

void ParamStore::add_places(size_t index) {
  const ParamSpec& spec = physical_[index].spec;
  for (int64_t layer = 0; layer < spec.copies(); ++layer) {
    for (size_t piece = 0; piece < spec.pieces.size(); ++piece)
      places_[spec.logical_name(spec.pieces[piece], layer)] = {index, piece, layer};
  }
}

} // namespace dllm::model
