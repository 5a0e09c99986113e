#pragma once
// Compiled programs: the last few of them, by key, and the buffers of one run.

#include "graph/engine.h"
#include "tensor/batch.h"

#include <algorithm>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::runtime {

// Key: whatever decides the program (shapes, settings), compared with ==. Entry: a shared_ptr to a program, alone or
// with what its owner keeps about it. One call at a time.
template <class Key, class Entry = std::shared_ptr<graph::Program>> class ProgramCache {
public:
  explicit ProgramCache(size_t capacity) : capacity_(capacity) {}

  // make() -> Entry is called where there is none of this key; the entry used longest ago then leaves.
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
  size_t size() const { return entries_.size(); }

private:
  size_t capacity_;
  std::list<std::pair<Key, Entry>> entries_; // most recently used first
};

// Every input gets its buffer in one of two ways. Shared: the program reads it. Donated: it is moved out of the variable
// of its owner, because an engine writes in place only where there is no other holder; the output that takes its place is
// moved into that variable. It holds a buffer again when run() returns or throws, and when this object is destroyed
// without a run. After graph::StateLost they hold undefined numbers: their owner must mark them lost.
class Arguments {
public:
  explicit Arguments(std::shared_ptr<graph::Program> program);
  ~Arguments();
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // Index of a named input; fails with internal when the program has none.
  size_t input(std::string_view name) const;

  void share(size_t input, graph::BufferRef buffer);
  // owner: outlives this object, and is null until the buffer is back. Never fails.
  void donate(size_t input, graph::BufferRef& owner) noexcept;
  // Shares one buffer with every input that is a parameter, in order. Fails with failed_precondition when the program
  // was compiled for another number of parameters, or for other types of them.
  void share_parameters(std::span<const graph::BufferRef> buffers);
  // Uploads the array of its name for every input that has no buffer yet ("batch:<name>" means <name>). The arrays must
  // not change until the run is over.
  void upload(graph::Engine& engine, const Batch& arrays);
  // Of inputs that vary over `axes`: one set of arrays for each of their places, in the order of Mesh::groups. The first
  // set gives what does not vary.
  void upload(graph::Engine& engine, std::span<const Batch> feeds, graph::AxisSet axes);

  // Runs once. Outputs in the order of the graph; null where an output went back to the owner of a donated buffer.
  std::vector<graph::BufferRef> run(const Task* task = nullptr,
                                    graph::StopRule rule = graph::StopRule::anywhere);
  // Runs once more to name the first operation that makes NaN or infinity, as graph::Program::find_non_finite.
  std::string find_non_finite(const Task* task = nullptr);

private:
  void return_donated() noexcept;

  std::shared_ptr<graph::Program> program_;
  std::vector<graph::BufferRef> buffers_; // by input
  std::vector<graph::BufferRef*> owners_; // by input; null: not donated
};

// --- named arrays as inputs of a graph ---

// Name, type and shape of every array: programs with equal ones can be shared.
std::string feed_signature(const Batch& feed);

// One graph input for every array, in the order of the batch, called "batch:<name>" so that it cannot be taken for an
// array of the program's owner. Arguments::upload finds them again.
// axes: over which they differ from rank to rank.
std::map<std::string, graph::Value> feed_inputs(graph::Graph& graph, const Batch& feed,
                                                graph::AxisSet axes = {});

} // namespace dllm::runtime
