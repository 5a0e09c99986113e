#pragma once
// The list of a model's parameters: stacks on an engine in the order of the Builder's inputs, and
// the logical tensors in them by Hugging Face name. ParamStore has the list, and the lock for it.

#include "graph/engine.h"
#include "model/params/param_map.h"
#include "model/params/part.h"

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace dllm::model {

// The first layers of the runs that cuts made, by the name of the network.
using Cuts = std::map<std::string, std::set<int64_t>>;

// A stack, or the table next to a stack.
struct ParamEntry {
  ParamSpec spec;
  std::string name; // spec.name with its part, or "<name>.scale"
  Shape shape;      // of the stored array: bytes for a format in blocks
  DType dtype = DType::f32;
  const WeightFormat* format = &weight_format(DType::f32);
  bool decay = false; // false for norms and biases
  // Index of the parameter whose table this entry is, f32: the scales of int8 rows, or what a
  // format in blocks has next to them (WeightFormat::table_width). -1: not a table.
  int scale_of = -1;
  graph::Layout layout; // on the mesh of the engine
  Shape part;           // shape of the part that one rank has
  graph::BufferRef buffer;

  // Returns the part whose layers the parameter belongs to. Adapters belong to the base.
  std::string network() const { return spec.role == ParamRole::adapter ? kBasePart : spec.part; }
  bool is_of_base() const { return network() == kBasePart; }
  // Returns the type of the parameter's input in a graph.
  graph::ValueType type() const {
    return {part, dtype, layout.axes(), format->is_blocks() ? format : nullptr};
  }
  // Returns true when the numbers cannot be read without the format.
  bool is_quantized() const { return format->is_blocks() || format->has_table(); }
  // Sets layout and part after a change of spec, shape or format.
  void set_layout(const graph::Mesh& mesh);
};

class ParamList {
public:
  // A logical tensor in its stack.
  struct Place {
    size_t physical;
    size_t piece;
    int64_t layer;
  };

  const std::vector<ParamEntry>& entries() const { return entries_; }
  std::vector<ParamEntry>& entries() { return entries_; }
  ParamEntry& operator[](size_t index) { return entries_[index]; }
  const ParamEntry& operator[](size_t index) const { return entries_[index]; }
  size_t size() const { return entries_.size(); }

  // Logical names, in the order in which they were added.
  const std::vector<std::string>& names() const { return names_; }
  const Place* find_place(const std::string& name) const; // null: there is none
  const Place& place(const std::string& name) const;      // not_found with the nearest name
  size_t index(const std::string& physical_name) const;

  // Adds the entries and logical tensors of a parameter and returns the index of the first entry.
  size_t append(const ParamSpec& spec, const WeightFormat& format, const graph::Mesh& mesh);
  // Replaces the entries. rounding: as of rounding(), by the new indices.
  void replace(std::vector<ParamEntry> entries, std::map<size_t, double> rounding);
  // Removes the parameters of a part.
  void drop_part(const std::string& part);
  // Adds entries of another list as entries of `part`, with the cuts of their network.
  void share_part(const std::string& part, const std::vector<ParamEntry>& entries,
                  const std::set<int64_t>& cuts);

  // Returns the layers at which runs must be cut so that `pattern` ('*' stands for any text) names
  // whole stacks. Fails with not_found when no tensor matches. Fails with unimplemented when the
  // pattern names only some experts of a layer.
  Cuts borders_of(const std::string& pattern) const;
  // Returns the list with the runs of layers cut at these layers. `cut` gives an entry of layers
  // [begin, end) its buffer and its layout; before the call it has those of the whole stack.
  using Cut = std::function<void(ParamEntry& entry, int64_t begin, int64_t end)>;
  ParamList cut_at(const Cuts& borders, const Cut& cut) const;
  const Cuts& cuts() const { return cuts_; }
  void set_cuts(const Cuts& cuts) { cuts_ = cuts; }

  // Quantized formats, by index: the largest error divided by the largest value.
  const std::map<size_t, double>& rounding() const { return rounding_; }
  void note_rounding(size_t index, double error);

  std::vector<ParamSpec> specs(const std::string& part) const;
  int64_t parameter_count() const; // of the base and its adapters, without scales
  Json describe(const std::function<bool(const ParamEntry&)>& trained) const;

private:
  void add_places(size_t index);
  void find_places(); // for all entries

  std::vector<ParamEntry> entries_;
  std::map<size_t, double> rounding_;
  std::vector<std::string> names_;
  std::map<std::string, Place, std::less<>> places_;
  Cuts cuts_;
};

} // namespace dllm::model
