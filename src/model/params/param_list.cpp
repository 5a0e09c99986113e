#include "model/params/param_list.h"

#include "base/error.h"
#include "base/named_table.h"
#include "model/adapters/kinds/adapter_kinds.h"

#include <nlohmann/json.hpp>

#include <algorithm>

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

// Turns the spec and the name of an entry into those of its layers [begin, end).
void narrow(ParamEntry& entry, int64_t begin, int64_t end) {
  ParamSpec& spec = entry.spec;
  spec.first_layer += begin;
  if (begin > 0) {
    const std::string own = split_name(entry.name).second; // may end in ".scale"
    entry.name = qualified_name(spec.part, name_from(spec.first_layer, own));
    spec.name = name_from(spec.first_layer, spec.name);
  }
  spec.layers = end - begin;
  entry.shape = entry.shape.with_dim(0, end - begin);
}

// Returns the end of the run that begins at an index. Entries of one run are consecutive, because
// they are written part by part.
size_t end_of_run(const std::vector<ParamEntry>& entries, size_t begin) {
  const ParamSpec& run = entries[begin].spec;
  size_t end = begin + 1;
  while (end < entries.size() && run.layers > 0 && entries[end].spec.part == run.part &&
         entries[end].spec.layers == run.layers && entries[end].spec.first_layer == run.first_layer)
    ++end;
  return end;
}

// Returns where a run is cut, from 0 to the number of its layers.
std::vector<int64_t> edges_of(const ParamEntry& entry, const Cuts& borders) {
  const ParamSpec& run = entry.spec;
  std::vector<int64_t> edges = {0};
  if (const auto own = borders.find(entry.network()); own != borders.end()) {
    for (const int64_t border : own->second) {
      const int64_t at = border - run.first_layer;
      if (at > 0 && at < run.layers) edges.push_back(at);
    }
  }
  edges.push_back(run.copies());
  return edges;
}

} // namespace

// A weight that cannot be gathered (8-bit rows, blocks) is whole over axis fsdp. Scales follow
// their rows.
void ParamEntry::set_layout(const graph::Mesh& mesh) {
  Partition& cut = spec.partition;
  if (scale_of >= 0 || is_quantized()) {
    cut.gathered_dim = -1;
    cut.gathered_ranks = 1;
  }
  layout = spec.layout();
  if (scale_of >= 0 && cut.kind == PartitionKind::rows) layout = {};
  part = layout.part_shape(shape, mesh);
}

const ParamList::Place* ParamList::find_place(const std::string& name) const {
  if (const auto found = places_.find(name); found != places_.end()) return &found->second;
  for (const ParamEntry& entry : entries_) {
    if (entry.spec.role != ParamRole::adapter) continue;
    const auto found = places_.find(qualified_name(entry.spec.part, name));
    if (found != places_.end()) return &found->second;
  }
  return nullptr;
}

const ParamList::Place& ParamList::place(const std::string& name) const {
  if (const Place* found = find_place(name)) return *found;
  fail_unnamed({"parameter"}, name, names_);
}

size_t ParamList::index(const std::string& physical_name) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].name == physical_name) return i;
  }
  fail(Code::internal, "no physical parameter named {}", physical_name);
}

size_t ParamList::append(const ParamSpec& spec, const WeightFormat& format,
                         const graph::Mesh& mesh) {
  const size_t index = entries_.size();
  ParamEntry entry;
  entry.spec = spec;
  entry.name = qualified_name(spec.part, spec.name);
  entry.shape = stored_shape(format, spec.shape());
  entry.dtype = format.element;
  entry.format = &format;
  const bool is_of_adapter = spec.role == ParamRole::adapter;
  entry.decay = is_of_adapter && is_adapter_tensor(spec.name) ? adapter_tensor_decays(spec.name)
                : is_of_adapter                               ? spec.element.rank() > 1
                                                              : !is_vector(spec.role);
  entry.set_layout(mesh);
  entries_.push_back(entry);
  if (format.has_table()) {
    entry.name += ".scale";
    entry.shape = table_shape(format, spec.shape());
    entry.dtype = DType::f32;
    entry.format = &weight_format(DType::f32);
    entry.decay = false;
    entry.scale_of = static_cast<int>(index);
    entry.set_layout(mesh);
    entries_.push_back(entry);
  }
  for (int64_t layer = 0; layer < spec.copies(); ++layer) {
    for (const ParamPiece& piece : spec.pieces) names_.push_back(spec.logical_name(piece, layer));
  }
  add_places(index);
  return index;
}

void ParamList::replace(std::vector<ParamEntry> entries, std::map<size_t, double> rounding) {
  entries_ = std::move(entries);
  rounding_ = std::move(rounding);
  find_places();
}

void ParamList::drop_part(const std::string& part) {
  std::vector<ParamEntry> kept;
  std::vector<size_t> moved(entries_.size()); // a cut may have mixed the parts
  std::map<size_t, double> rounding;
  for (size_t i = 0; i < entries_.size(); ++i) {
    moved[i] = kept.size();
    if (entries_[i].spec.part == part) continue;
    if (const auto found = rounding_.find(i); found != rounding_.end())
      rounding[kept.size()] = found->second;
    ParamEntry entry = entries_[i];
    if (entry.scale_of >= 0)
      entry.scale_of = static_cast<int>(moved[static_cast<size_t>(entry.scale_of)]);
    kept.push_back(std::move(entry));
  }
  std::erase_if(names_, [&](const std::string& name) { return split_name(name).first == part; });
  cuts_.erase(part);
  replace(std::move(kept), std::move(rounding));
}

void ParamList::share_part(const std::string& part, const std::vector<ParamEntry>& entries,
                           const std::set<int64_t>& cuts) {
  if (!cuts.empty()) cuts_[part] = cuts;
  const auto offset = static_cast<int>(entries_.size());
  for (const ParamEntry& other : entries) {
    ParamEntry entry = other;
    entry.spec.part = part;
    entry.name = qualified_name(part, split_name(other.name).second);
    if (entry.scale_of >= 0) entry.scale_of += offset;
    for (int64_t layer = 0; layer < entry.spec.copies() && entry.scale_of < 0; ++layer) {
      for (const ParamPiece& piece : entry.spec.pieces)
        names_.push_back(entry.spec.logical_name(piece, layer));
    }
    entries_.push_back(std::move(entry));
  }
  find_places();
}

Cuts ParamList::borders_of(const std::string& pattern) const {
  Cuts borders;
  bool any = false;
  for (const ParamEntry& entry : entries_) {
    if (entry.scale_of >= 0 || count_matches(pattern, entry.spec) == 0) continue;
    any = true;
    for (const int64_t border : borders_in(pattern, entry.spec))
      borders[entry.network()].insert(border);
  }
  if (!any) fail(Code::not_found, "no parameter matches {}", pattern);
  return borders;
}

ParamList ParamList::cut_at(const Cuts& borders, const Cut& cut) const {
  std::vector<ParamEntry> made;
  std::map<size_t, double> rounding;
  for (size_t i = 0; i < entries_.size();) {
    const size_t end = end_of_run(entries_, i);
    const std::vector<int64_t> edges = edges_of(entries_[i], borders);
    for (size_t part = 0; part + 1 < edges.size(); ++part) {
      const size_t offset = made.size();
      for (size_t e = i; e < end; ++e) {
        ParamEntry entry = entries_[e];
        if (const auto found = rounding_.find(e); found != rounding_.end())
          rounding[made.size()] = found->second;
        if (entry.scale_of >= 0)
          entry.scale_of = static_cast<int>(offset + static_cast<size_t>(entry.scale_of) - i);
        if (edges.size() > 2) {
          narrow(entry, edges[part], edges[part + 1]);
          cut(entry, edges[part], edges[part + 1]);
        }
        made.push_back(std::move(entry));
      }
    }
    i = end;
  }
  ParamList list = *this;
  for (const auto& [network, layers] : borders)
    list.cuts_[network].insert(layers.begin(), layers.end());
  list.replace(std::move(made), std::move(rounding));
  return list;
}

void ParamList::note_rounding(size_t index, double error) {
  double& largest = rounding_[index];
  largest = std::max(largest, error);
}

std::vector<ParamSpec> ParamList::specs(const std::string& part) const {
  std::vector<ParamSpec> made;
  for (const ParamEntry& entry : entries_) {
    if (entry.scale_of < 0 && entry.spec.part == part) made.push_back(entry.spec);
  }
  return made;
}

int64_t ParamList::parameter_count() const {
  int64_t count = 0;
  for (const ParamEntry& entry : entries_) {
    if (entry.scale_of < 0 && entry.is_of_base()) count += entry.spec.shape().count();
  }
  return count;
}

Json ParamList::describe(const std::function<bool(const ParamEntry&)>& trained) const {
  Json list = Json::array();
  for (size_t i = 0; i < entries_.size(); ++i) {
    const ParamEntry& entry = entries_[i];
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

void ParamList::find_places() {
  places_.clear();
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].scale_of < 0) add_places(i);
  }
}

void ParamList::add_places(size_t index) {
  const ParamSpec& spec = entries_[index].spec;
  for (int64_t layer = 0; layer < spec.copies(); ++layer) {
    for (size_t piece = 0; piece < spec.pieces.size(); ++piece)
      places_[spec.logical_name(spec.pieces[piece], layer)] = {index, piece, layer};
  }
}

} // namespace dllm::model
