#pragma once
// Caches compiled programs by key and collects the buffers of one run.

#include "graph/engine.h"
#include "tensor/batch.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::runtime {

// Keeps the programs that were used last. Key: the shapes and settings that determine a program,
// compared with ==. Entry: a shared_ptr to a program, or a struct with one. One call at a time.
template <class Key, class Entry = std::shared_ptr<graph::Program>> class ProgramCache {
public:
  explicit ProgramCache(size_t capacity) : capacity_(capacity) {}

  // Returns the entry of a key. If the cache lacks it, make() -> Entry is called, and above the
  // capacity the least recently used entry is removed.
  template <class Make> Entry get(const Key& key, Make make) {
    const auto found = std::ranges::find(entries_, key, &std::pair<Key, Entry>::first);
    if (found != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, found);
    } else {
      entries_.emplace_front(key, make());
      if (entries_.size() > capacity_) entries_.pop_back();
    }
    return entries_.front().second;
  }
  void clear() { entries_.clear(); }
  // Removes all programs when the version differs from the version of the last call. Programs of a
  // model have the version of its list of parameters: factors of adapters are constants in them.
  void set_version(int64_t version) {
    if (version != std::exchange(version_, version)) clear();
  }
  size_t size() const { return entries_.size(); }

private:
  size_t capacity_;
  int64_t version_ = 0;
  std::list<std::pair<Key, Entry>> entries_; // most recently used first
};

// The input buffers of one run. An input is shared or donated. The program only reads a shared
// buffer. A donated buffer is moved out of its owner's variable, because an engine writes in place
// only if a buffer has no other holder.
//
// The output that takes over a donated buffer is moved into the owner's variable. The variable has
// a buffer again when run() returns or throws, or when this object is destroyed without a run.
// After graph::StateLost the buffer holds undefined numbers, and the owner must mark it as lost.
class Arguments {
public:
  explicit Arguments(std::shared_ptr<graph::Program> program);
  ~Arguments();
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // Returns the index of a named input. Fails with internal if the program lacks it.
  size_t input(std::string_view name) const;

  void share(size_t input, graph::BufferRef buffer);
  // Moves the buffer out of `owner`, which is null until the run ends. Never fails. REQUIRES: owner
  // outlives this object.
  void donate(size_t input, graph::BufferRef& owner) noexcept;
  // Shares the buffers with the inputs that are parameters, in order. Fails with
  // failed_precondition if the program was compiled for another number or other types of
  // parameters.
  void share_parameters(std::span<const graph::BufferRef> buffers);
  // Uploads an array for every input without a buffer: for input "batch:<name>" the array <name>,
  // else the array with the input's name. The arrays must not change until the run ends.
  void upload(graph::Engine& engine, const Batch& arrays);
  // Uploads arrays for inputs that vary over `axes`. feeds: one batch per place along the axes, in
  // the order of Mesh::groups. Inputs that do not vary use the first batch.
  void upload(graph::Engine& engine, std::span<const Batch> feeds, graph::AxisSet axes);

  // Runs once and returns the outputs in the order of the graph. An output that was moved to the
  // owner of a donated buffer is null.
  std::vector<graph::BufferRef> run(const Task* task = nullptr,
                                    graph::StopRule rule = graph::StopRule::anywhere);
  // Runs once more and names the first operation that makes NaN or infinity, as
  // graph::Program::find_non_finite does.
  std::string find_non_finite(const Task* task = nullptr);

private:
  void return_donated() noexcept;

  std::shared_ptr<graph::Program> program_;
  std::vector<graph::BufferRef> buffers_; // by input
  std::vector<graph::BufferRef*> owners_; // by input; null: not donated
};

// --- named arrays as inputs of a graph ---

// Returns names, types and shapes of all arrays. Batches with equal signatures can share a program.
std::string feed_signature(const Batch& feed);

// Adds one graph input per array, in the order of the batch, and returns the inputs by name. The
// input is called "batch:<name>", so that it differs from every array of the program's owner;
// Arguments::upload finds it. axes: the mesh axes over which the arrays vary.
std::map<std::string, graph::Value> feed_inputs(graph::Graph& graph, const Batch& feed,
                                                graph::AxisSet axes = {});

} // namespace dllm::runtime
