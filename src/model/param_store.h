#pragma once
// The parameters of a model: logical tensors by Hugging Face name, physical stacked ones on an
// engine, and a version. One writer or many readers: snapshot() and replace() may be called from
// any thread; everything else needs the caller's own order (the C ABI asks for one call at a time
// per model).

#include "graph/engine.h"
#include "model/param_form.h"
#include "model/param_map.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace dllm::model {

class ParamStore {
public:
  struct Physical {
    ParamSpec spec;
    std::string name; // spec.name, or "<name>.scale"
    Shape shape;
    DType dtype = DType::f32;
    bool decay = false; // false for norms and biases
    bool trainable = true;
    int scale_of = -1; // index of the int8 parameter whose rows this multiplies, f32 (layers, out);
                       // never trained
    graph::BufferRef buffer;
  };

  explicit ParamStore(std::shared_ptr<graph::Engine> engine);

  // --- logical side ---
  const std::vector<std::string>& names() const {
    return names_;
  } // order of the family's table, layer by layer
  bool has(const std::string& name) const;
  Shape shape(const std::string& name) const; // not_found with the nearest name
  // In the form it is stored in; int8 comes back as f32.
  Tensor read(const std::string& name) const;
  // Whether write refuses numbers that are not finite; the default.
  void set_checks(bool checks) { checks_ = checks; }
  bool checks() const { return checks_; }
  // Any float type of the right shape; version + 1.
  void write(const std::string& name, const Tensor& value);

  int64_t version() const;
  void bump(); // after a change of physical buffers from outside

  // --- physical side: Builder, trainer, checkpoints ---
  // Order of the Builder's parameter inputs. Changing a buffer: then bump().
  std::vector<Physical>& physical() { return physical_; }
  const std::vector<Physical>& physical() const { return physical_; }
  size_t index(const std::string& physical_name) const;
  // Buffers of one version, in order.
  std::vector<graph::BufferRef> snapshot(int64_t* version = nullptr) const;
  void replace(size_t index, graph::BufferRef buffer); // no bump

  // The affine map on any tensor of the physical layout (moments, EMA, gradients).
  NamedTensors to_logical(size_t physical_index, const Tensor& tensor) const;
  Tensor to_physical(size_t physical_index,
                     const std::function<Tensor(const std::string&)>& read) const; // f32

  // Makes every trainable parameter an f32 master whose plain form stays (bf16 and int8 are
  // widened). Version + 1 when something changed.
  void make_masters();
  // Trainable yes or no by logical name; a pattern with '*'. Fails when it would cut a stack in
  // two.
  void set_trainable(const std::string& pattern, bool trainable);

  int64_t parameter_count() const; // numbers, scales not counted
  int64_t bytes() const;           // all forms on the engine
  Json describe() const; // per physical tensor: name, shape, dtype, trainable; int8: rounding error
  Tensor widened(size_t index) const; // a physical tensor as f32

  // --- for load and new: takes a tensor of the physical layout in ---
  // An int8 form is followed by an entry for its scales.
  void add(const ParamSpec& spec, const ParamForm& form);
  // Shape and type without numbers: programs can be built, whatever needs the numbers fails with
  // failed_precondition. REQUIRES: an empty store, or one of such entries.
  void add_sketch(const ParamSpec& spec, DType dtype);
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
  const Place& place(const std::string& name) const;
  // Entries and places of a parameter; answers the index of the first.
  size_t append(const ParamSpec& spec, DType dtype);
  void need_numbers() const;
  graph::BufferRef upload(const Physical& entry, const Tensor& tensor) const;
  void store(size_t index, const ParamForm& form);

  std::shared_ptr<graph::Engine> engine_;
  std::vector<Physical> physical_;
  std::map<size_t, double> rounding_; // int8: largest error over largest value, by physical index
  std::vector<std::string> names_;
  std::map<std::string, Place, std::less<>> places_;
  mutable std::mutex mutex_;
  int64_t version_ = 1;
  bool sketch_ = false;
  bool checks_ = true;
};

} // namespace dllm::model
