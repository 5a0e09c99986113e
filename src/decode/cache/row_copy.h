#pragma once
// A RowCopy copies the state of the beginning of one request into the row of another, where the
// engine holds it.

#include "graph/engine.h"
#include "model/layers/state.h"
#include "model/model.h"
#include "runtime/programs.h"
#include "tensor/batch.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace dllm::decode {

class RowCopy {
public:
  // Two rows of the same place along model::request_axes, by their numbers there.
  struct Rows {
    int64_t share = 0, from = 0, to = 0;
  };

  explicit RowCopy(std::shared_ptr<model::Model> model);

  // Copies positions [0, count) of positional slots, and all snapshots. size: of one rank.
  // buffers: one per stack. They are as before after an exception other than graph::StateLost.
  void run(std::vector<graph::BufferRef>& buffers, const model::StateSize& size, const Rows& rows,
           int64_t count);

private:
  struct Key {
    int64_t rows, capacity, count;
    friend bool operator==(const Key&, const Key&) = default;
  };
  std::shared_ptr<graph::Program> compile(const Key& key) const;
  Batch feed(const Key& key, const Rows& rows, int64_t count, bool is_here) const;

  std::shared_ptr<model::Model> model_;
  const std::vector<model::StateStack> stacks_;
  runtime::ProgramCache<Key> programs_{4};
};

} // namespace dllm::decode
