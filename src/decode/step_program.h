#pragma once
// The model on a batch of canvases and the statistics of chosen positions, as one program. Shapes are rounded up, counts
// are data, so one program serves all steps of a batch.

#include "decode/policy.h"
#include "model/builder.h"

#include <list>
#include <memory>
#include <span>
#include <vector>

namespace dllm::decode {

// One position to predict: a row of the batch and a place in it.
struct Query {
  const Slot* slot;
  int64_t row;
  int64_t position;
};

struct StepSettings {
  model::AttentionKind attention = model::AttentionKind::bidirectional;
  int64_t attention_block = 0;  // of block_causal
  int shift = 0;
  std::vector<uint8_t> banned;  // (vocab); empty: nothing is
};

// Keeps the last few compiled programs. One call at a time.
class StepProgram {
 public:
  StepProgram(std::shared_ptr<model::Model> model, StepSettings settings);
  ~StepProgram();

  // Predictions in the order of queries. A row's results depend on that row alone. capacity: most queries of any step of
  // this batch, so that its steps share a program.
  std::vector<Prediction> run(std::span<const Slot* const> rows, std::span<const Query> queries, int64_t capacity,
                              const Task* task);

 private:
  struct Key {
    int64_t rows, length, capacity;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Entry;
  Entry& compiled(const Key& key);
  void build(graph::Graph& graph, const Key& key) const;
  Batch feed(const Key& key, std::span<const Slot* const> rows, std::span<const Query> queries) const;

  std::shared_ptr<model::Model> model_;
  StepSettings settings_;
  std::list<std::unique_ptr<Entry>> programs_;  // most recently used first
};

}  // namespace dllm::decode
