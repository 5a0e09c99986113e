#pragma once
// The parameters of a model: logical tensors by Hugging Face name, physical stacked ones on an
// engine, and a version.
//
// Readers (read, visit, snapshot, bytes, version, describe, names, shape, lost) may be called from any
// thread. A reader of numbers waits while a training step has the buffers, and gets all of one
// version. Writers take turns: a step (take to put), write, reshape, make_masters. What changes the
// list of parameters (add, add_sketch, cut_at, reshape, make_masters, restore) must not run during
// physical() or the building of a graph.

#include "graph/engine.h"
#include "model/param_map.h"
#include "model/part.h"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace dllm::model {

class ParamStore {
public:
  struct Physical {
    ParamSpec spec;
    std::string name; // spec.name with its part, or "<name>.scale"
    Shape shape;      // of the stored array: bytes for a format in blocks
    DType dtype = DType::f32;
    const WeightFormat* format = &weight_format(DType::f32);
    bool decay = false; // false for norms and biases
    int scale_of = -1;  // index of the int8 parameter whose rows this multiplies, f32 (layers, out)
    graph::Layout layout; // on the mesh of the engine
    Shape part;           // of the part that one rank has
    graph::BufferRef buffer;

    // Whether it belongs to the base or to an adapter of the base.
    bool is_of_base() const { return spec.part == kBasePart || spec.role == ParamRole::adapter; }
    // Of the input that stands for it in a graph.
    graph::ValueType type() const {
      return {part, dtype, layout.axes(), format->is_blocks() ? format : nullptr};
    }
    // Its numbers cannot be read without the format.
    bool is_quantized() const { return format->is_blocks() || format->scales != ScalePlace::none; }
  };

  explicit ParamStore(std::shared_ptr<graph::Engine> engine);

  // --- logical side ---
  // Of all parts, in the order of the family's table, layer by layer; names of other parts than the
  // base begin with the part ("adapter:math/model.layers.0.self_attn.q_proj.lora_A.weight").
  const std::vector<std::string>& names() const { return names_; }
  std::vector<std::string> names(const std::string& part) const;
  // A matrix of an adapter is also found without the part in its name.
  bool has(const std::string& name) const;
  Shape shape(const std::string& name) const; // not_found with the nearest name
  // In the form it is stored in; quantized formats come back as f32. Reads the whole stack; a loop over the layers of a
  // stack reads it twice, visit() once.
  Tensor read(const std::string& name, const Task* task = nullptr) const;
  // Whether write refuses numbers that are not finite; default: it does.
  void set_checks(bool checks) { checks_ = checks; }
  bool checks() const { return checks_; }
  // Any float type of the right shape; version + 1. Waits for a step that runs. The first write to a
  // stack reads it, later ones change that host copy; the next reader or step uploads every changed
  // stack once. So a loop over all names costs each stack one read and one upload.
  void write(const std::string& name, const Tensor& value);

  int64_t version() const;
  // Changes when indices or types of entries do: what was compiled before reads other entries then.
  int64_t list_version() const;
  // How often numbers of a part were changed since it was made or loaded.
  int64_t changes(const std::string& part) const;
  void bump(); // after a change of physical buffers from outside

  // --- physical side: Builder, trainer, checkpoints ---
  // Order of the Builder's parameter inputs. Changing a buffer: then bump().
  std::vector<Physical>& physical() { return physical_; }
  const std::vector<Physical>& physical() const { return physical_; }
  size_t index(const std::string& physical_name) const;
  // Indices of the entries of these parts, growing.
  std::vector<size_t> indices(const PartList& parts) const;
  // Buffers of one version, in order: of all entries, or of these parts.
  std::vector<graph::BufferRef> snapshot(int64_t* version = nullptr,
                                         const Task* task = nullptr) const;
  std::vector<graph::BufferRef> snapshot(const PartList& parts, int64_t* version = nullptr,
                                         const Task* task = nullptr) const;
  // Every parameter with its buffer, of one version.
  std::vector<Physical> entries(const Task* task = nullptr) const;
  // Every stack on the host, read once, all of one version; quantized formats as f32, scales left out.
  struct Stack {
    size_t index;
    const ParamSpec& spec;
    const Tensor& values;
  };
  void visit(const std::function<void(const Stack&)>& look, const Task* task = nullptr) const;
  // Runs `look` at a moment when no step has the buffers; no step begins meanwhile.
  void while_whole(const std::function<void()>& look, const Task* task = nullptr) const;

  // A step's turn. take: all buffers in order, those at `donated` moved out of the store; readers
  // wait until put() or lose(). Exactly one of the two follows.
  std::vector<graph::BufferRef> take(std::span<const size_t> donated, const Task* task = nullptr);
  // changed: the buffers are those of a new version.
  void put(std::span<const size_t> donated, std::vector<graph::BufferRef> buffers, bool changed);
  // The step destroyed what it took. From here on every reader and writer fails with aborted.
  void lose(const std::string& why);
  std::string lost() const;                            // "": the numbers are there
  void replace(size_t index, graph::BufferRef buffer); // no bump
  // Numbers of a checkpoint, version + 1; the model is not lost any more. `also` runs under the same
  // lock.
  void restore(std::vector<std::pair<size_t, graph::BufferRef>> buffers,
               const std::function<void()>& also);

  // The affine map on any tensor of the physical layout (moments, EMA, gradients).
  NamedTensors to_logical(size_t physical_index, const Tensor& tensor) const;

  using Test = std::function<bool(const Physical&)>;
  // Makes every parameter that `trained` accepts an f32 master whose plain form stays (other formats
  // are widened). Version + 1 when something changed.
  void make_masters(const Test& trained);
  // Layers at which runs must be cut so that `pattern` ('*' stands for any text) names every stack
  // whole or not at all. Fails with not_found when no tensor matches, and with unimplemented when
  // the pattern names some experts of a layer alone. Changes nothing.
  std::set<int64_t> borders_of(const std::string& pattern) const;
  // Cuts the runs of layers at these layers: stacks, their order and names change. Version + 1.
  void cut_at(const std::set<int64_t>& borders);
  // First layers of the runs that these cuts made, for layer_runs.
  const std::set<int64_t>& cuts() const { return cuts_; }
  void set_cuts(const std::set<int64_t>& cuts) {
    cuts_ = cuts;
  } // of a copy, whose stacks are cut already

  // Removes the parameters of a part. Version + 1.
  void drop_part(const std::string& part);
  // Takes in entries of a store on the same engine as those of `part`. The arrays are shared: a
  // trainer of the other model that writes one leaves this array as it is.
  void share_part(const std::string& part, const std::vector<Physical>& entries);

  // What a later restore() brings back, version and all. Holds the buffers of the moment.
  struct Backup {
    std::vector<Physical> physical;
    std::map<size_t, double> rounding;
    std::vector<std::string> names;
    std::set<int64_t> cuts;
    std::map<std::string, int64_t> changes;
    int64_t version = 0, list_version = 0;
  };
  Backup backup() const;
  void restore(Backup before);
  // Memory of buffers that `before` holds and the store does not.
  int64_t bytes_only_in(const Backup& before) const;

  int64_t parameter_count() const; // numbers of the base and its adapters, scales not counted
  int64_t bytes() const;           // all forms on the engine
  // Of each physical tensor: name, shape, dtype, format, trainable (what `trained` says), and of a
  // quantized one its rounding error.
  Json describe(const Test& trained) const;
  Tensor widened(size_t index, const Task* task = nullptr) const; // a physical tensor as f32

  // The same of a quantized one among `entries`, whether the model is lost or not.
  Tensor dequantized(size_t index, const std::vector<Physical>& entries, const Task* task) const;

  // --- for load and new: takes a tensor of the physical layout in ---
  // An int8 form is followed by an entry for its scales.
  void add(const ParamSpec& spec, const ParamForm& form, const Task* task = nullptr);
  // The same in two steps: the place in the list, then the numbers, in any order of places.
  size_t reserve(const ParamSpec& spec, const WeightFormat& format) { return append(spec, format); }
  void fill(size_t index, const ParamForm& form, const Task* task = nullptr) const {
    store(index, form, task);
  }
  // Shape and type without numbers: programs can be built, whatever needs the numbers fails with
  // failed_precondition. REQUIRES: an empty store, or one of such entries.
  void add_sketch(const ParamSpec& spec, const WeightFormat& format);
  bool is_sketch() const { return sketch_; }
  // The same place with other rows (a longer vocabulary); places of logical tensors stay. Version
  // + 1.
  void reshape(size_t index, const ParamSpec& spec, const ParamForm& form);
  graph::Engine& engine() const { return *engine_; }

private:
  struct Place {
    size_t physical;
    size_t piece;
    int64_t layer;
  };
  const Place* find_place(const std::string& name) const; // null: there is none
  const Place& place(const std::string& name) const;
  // Entries and places of a parameter; returns the index of the first.
  size_t append(const ParamSpec& spec, const WeightFormat& format);
  void set_layout(Physical& entry) const; // after a change of spec, shape or format
  using Lock = std::unique_lock<std::mutex>;
  void need_numbers() const;
  // tensor: the whole array, or the part of this process.
  graph::BufferRef upload(const Physical& entry, const Tensor& tensor, bool is_part,
                          const Task* task) const;
  void store(size_t index, const ParamForm& form, const Task* task = nullptr) const;
  void cut_entry(Physical& entry, int64_t begin, int64_t end) const;
  void add_places(size_t index);
  void find_places(); // of all entries
  // All with mutex_ held by `lock`.
  void check_lost() const;
  void wait(Lock& lock, const Task* task, const std::function<bool()>& ready) const;
  void wait_until_whole(Lock& lock, const Task* task) const;
  void begin_turn(Lock& lock, const Task* task) const;
  void end_turn() const;
  void upload_written(Lock& lock, const Task* task) const;

  std::shared_ptr<graph::Engine> engine_;
  // A reader uploads what write() left: of an unchanged version, so the store stays const to it.
  mutable std::vector<Physical> physical_;
  mutable std::map<size_t, double>
      rounding_; // quantized: largest error over largest value, by index
  std::vector<std::string> names_;
  std::map<std::string, Place, std::less<>> places_;
  mutable std::mutex mutex_;
  mutable std::condition_variable moved_;       // a turn began or ended, a waiting reader left
  mutable bool turn_ = false;                   // a writer has its turn
  mutable int64_t waiting_ = 0;                 // readers that wait for buffers
  bool taken_ = false;                          // a step has buffers
  int64_t taken_bytes_ = 0;                     // memory of those
  mutable std::map<size_t, ParamForm> written_; // changed stacks that are not uploaded yet
  std::string lost_;
  int64_t version_ = 1, list_version_ = 1;
  std::map<std::string, int64_t> changes_; // by part
  std::set<int64_t> cuts_;
  // The host copy of a stack whose layers are being read one after the other; kept from the second to the last of them.
  struct LastRead {
    size_t index = static_cast<size_t>(-1);
    int64_t version = 0;
    Tensor values;
  };
  mutable LastRead last_read_;
  bool sketch_ = false;
  bool checks_ = true;
};

} // namespace dllm::model
