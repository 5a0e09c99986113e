#pragma once
// Stores the parameters of a model: logical tensors by Hugging Face name, physical stacked tensors
// on an engine, and a version.
//
// Any thread may call the readers (read, visit, snapshot, bytes, version, describe, names, shape,
// lost). A reader of numbers waits while a training step has the buffers, and gets numbers of one
// version. Writers take turns: a step (take to put), write, reshape, make_masters. Calls that
// change the list of parameters (add, add_sketch, cut_at, reshape, make_masters, restore) must not
// run during physical() or the building of a graph.

#include "model/params/param_list.h"
#include "model/params/param_turns.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace dllm::model {

class ParamStore {
public:
  using Physical = ParamEntry;

  explicit ParamStore(std::shared_ptr<graph::Engine> engine);

  // --- logical side ---
  // Returns the names of all parts, in the order of the family's table, layer by layer. Names of
  // parts other than the base begin with the part
  // ("adapter:math/model.layers.0.self_attn.q_proj.lora_A.weight").
  const std::vector<std::string>& names() const { return list_.names(); }
  std::vector<std::string> names(const std::string& part) const;
  // Returns true when the tensor exists. A matrix of an adapter is also found without its part.
  bool has(const std::string& name) const;
  Shape shape(const std::string& name) const; // not_found with the nearest name
  // Returns a tensor in its stored type; quantized formats are returned as f32. The call reads the
  // whole stack. A loop over the layers of a stack reads it twice; visit() reads it once.
  Tensor read(const std::string& name, const Task* task = nullptr) const;
  // Decides whether write() refuses numbers that are not finite. The default is true.
  void set_checks(bool checks) { checks_ = checks; }
  bool checks() const { return checks_; }
  // Writes a tensor of any float type and the right shape. Version + 1. Waits for a running step.
  // The first write to a stack reads it, later writes change that host copy, and the next reader or
  // step uploads every changed stack once. So a loop over all names costs one read and one upload
  // per stack.
  void write(const std::string& name, const Tensor& value);

  int64_t version() const;
  // Changes with version(), except when a part other than the base changed, came or went.
  int64_t base_version() const;
  // Changes when indices, types or factors of entries change, and when the model gets an adapter. A
  // program that was compiled before then computes something else.
  int64_t list_version() const;
  void bump_list(); // list_version + 1
  // Returns how often numbers of a part were changed since the part was made or loaded.
  int64_t changes(const std::string& part) const;
  void bump();       // call it after physical buffers were changed directly
  void bump_parts(); // version + 1 after a change of parts other than the base

  // --- physical side: Builder, trainer, checkpoints ---
  // Returns the entries in the order of the Builder's parameter inputs. Call bump() after a change
  // of a buffer.
  std::vector<Physical>& physical() { return list_.entries(); }
  const std::vector<Physical>& physical() const { return list_.entries(); }
  size_t index(const std::string& physical_name) const { return list_.index(physical_name); }
  // Returns the indices of the entries of these parts, ascending.
  std::vector<size_t> indices(const PartList& parts) const;
  // Returns buffers of one version, in order: of all entries, or of these parts.
  std::vector<graph::BufferRef> snapshot(int64_t* version = nullptr,
                                         const Task* task = nullptr) const;
  std::vector<graph::BufferRef> snapshot(const PartList& parts, int64_t* version = nullptr,
                                         const Task* task = nullptr) const;
  // Returns every parameter with its buffer, all of one version.
  std::vector<Physical> entries(const Task* task = nullptr) const;
  // Passes every stack to `look` on the host. Each stack is read once, and all are of one version.
  // Quantized formats become f32, and entries of scales are left out.
  struct Stack {
    size_t index;
    const ParamSpec& spec;
    const Tensor& values;
  };
  void visit(const std::function<void(const Stack&)>& look, const Task* task = nullptr) const;
  // Runs `look` while no step has the buffers and no step begins.
  void while_whole(const std::function<void()>& look, const Task* task = nullptr) const;

  // A step's turn. take() returns all buffers in order and moves the buffers at `donated` out of
  // the store. Readers wait until put() or lose(). Exactly one of put() and lose() follows.
  std::vector<graph::BufferRef> take(std::span<const size_t> donated, const Task* task = nullptr);
  // Ends the turn. With `changed` the buffers are a new version.
  void put(std::span<const size_t> donated, std::vector<graph::BufferRef> buffers, bool changed);
  // Ends the turn of a step that destroyed its buffers. From then on every reader and writer fails
  // with aborted.
  void lose(const std::string& why);
  std::string lost() const;                            // why; "": the numbers exist
  void replace(size_t index, graph::BufferRef buffer); // does not call bump()
  // Sets the numbers of a checkpoint. Version + 1. A lost model becomes usable. `also` runs under
  // the same lock.
  void restore(std::vector<std::pair<size_t, graph::BufferRef>> buffers,
               const std::function<void()>& also);

  // Splits any tensor of the physical layout (moments, EMA, gradients) into logical tensors.
  NamedTensors to_logical(size_t physical_index, const Tensor& tensor) const;

  using Test = std::function<bool(const Physical&)>;
  // Turns every parameter that `trained` accepts into an f32 master. Plain forms stay, other
  // formats are widened. Version + 1 when something changed.
  void make_masters(const Test& trained);
  // Returns the layers at which runs must be cut so that `pattern` ('*' stands for any text) names
  // whole stacks. Fails with not_found when no tensor matches. Fails with unimplemented when the
  // pattern names only some experts of a layer. Changes nothing.
  Cuts borders_of(const std::string& pattern) const { return list_.borders_of(pattern); }
  // Cuts the runs of layers at these layers. Stacks, their order and their names change. Version +
  // 1.
  void cut_at(const Cuts& borders);
  const Cuts& cuts() const { return list_.cuts(); }
  // Returns the cuts of one network, for layer_runs.
  std::set<int64_t> cuts_of(const std::string& network) const;
  // Sets the cuts of a copy whose stacks are cut already.
  void set_cuts(const Cuts& cuts) { list_.set_cuts(cuts); }

  // Sets the factor of each stack of a part. Version + 1.
  void set_factors(const std::string& part, const std::function<float(const ParamSpec&)>& factor);
  // Removes the parameters of a part. Version + 1.
  void drop_part(const std::string& part);
  // Adds entries of a store on the same engine as entries of `part`, with the cuts of their
  // network. The arrays are shared. A trainer of the other model that writes an array leaves this
  // store's array unchanged.
  void share_part(const std::string& part, const std::vector<Physical>& entries,
                  const std::set<int64_t>& cuts);

  // The data that restore() brings back, with the versions. It holds the current buffers.
  struct Backup {
    ParamList list;
    std::map<std::string, int64_t> changes;
    int64_t version = 0, base_version = 0, list_version = 0;
  };
  Backup backup() const;
  void restore(Backup before);
  // Returns the bytes of the buffers that `before` holds and the store does not hold.
  int64_t bytes_only_in(const Backup& before) const;

  // Returns the specs of the stacks of a part, without tables. Any thread may call it.
  std::vector<ParamSpec> specs(const std::string& part) const;
  // Counts the numbers of the base and its adapters, without scales.
  int64_t parameter_count() const;
  int64_t bytes() const; // of all entries on the engine
  // Describes each physical tensor: name, shape, dtype, format, trainable (the result of
  // `trained`), and the rounding error of a quantized tensor.
  Json describe(const Test& trained) const;
  // Returns a physical tensor as f32.
  Tensor widened(size_t index, const Task* task = nullptr) const;

  // Returns a quantized tensor among `entries` as f32, even when the model is lost.
  Tensor dequantized(size_t index, const std::vector<Physical>& entries, const Task* task) const;

  // --- for load and new: adds tensors of the physical layout ---
  // Adds a parameter. An int8 form is followed by an entry for its scales.
  void add(const ParamSpec& spec, const ParamForm& form, const Task* task = nullptr);
  // Add a parameter in two steps: first the entry, then the numbers. Entries may be filled in any
  // order.
  size_t reserve(const ParamSpec& spec, const WeightFormat& format) {
    return list_.append(spec, format, engine_->mesh());
  }
  void fill(size_t index, const ParamForm& form, const Task* task = nullptr) const {
    store(index, form, task);
  }
  // Adds a shape and type without numbers. Programs can be built; a use of the numbers fails with
  // failed_precondition. REQUIRES: the store is empty or holds only such entries.
  void add_sketch(const ParamSpec& spec, const WeightFormat& format);
  bool is_sketch() const { return sketch_; }
  // Replaces an entry by one with other rows (a longer vocabulary). Locations of logical tensors do
  // not change. Version + 1.
  void reshape(size_t index, const ParamSpec& spec, const ParamForm& form);
  graph::Engine& engine() const { return *engine_; }

private:
  using Place = ParamList::Place;
  using Lock = ParamTurns::Lock;
  void need_numbers() const;
  // `tensor` is the whole array, or the part of this process.
  graph::BufferRef upload(const Physical& entry, const Tensor& tensor, bool is_part,
                          const Task* task) const;
  void store(size_t index, const ParamForm& form, const Task* task = nullptr) const;
  // REQUIRES for all of these: the lock of turns_ is held.
  void wait_until_whole(Lock& lock, const Task* task) const;
  void count_change(const std::string& part); // of numbers
  void upload_written(Lock& lock, const Task* task) const;

  std::shared_ptr<graph::Engine> engine_;
  // Mutable because a reader uploads the tensors of write(). The version does not change by that.
  mutable ParamList list_;
  mutable ParamTurns turns_;
  int64_t taken_bytes_ = 0;                     // memory of the taken buffers
  mutable std::map<size_t, ParamForm> written_; // changed stacks that are not uploaded yet
  int64_t version_ = 1, base_version_ = 1, list_version_ = 1;
  std::map<std::string, int64_t> changes_; // by part
  // The host copy of a stack whose layers are read one after the other. It is kept from the second
  // to the last of them.
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
