#pragma once
// Runs a teacher over chunks of text and returns what a cache keeps of them
// (text/data/anchor_cache.h).

#include "base/options.h"
#include "base/task.h"
#include "ckpt/safetensors/safetensors_writer.h"
#include "model/model.h"
#include "runtime/programs.h"
#include "tensor/batch.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::train {

// The options of kind "anchors": layers, store, group, top, shard, shards, fresh.
const Schema& anchor_schema();

// One call at a time. It keeps the teacher alive.
class AnchorPass {
public:
  // Fails with invalid_argument for layers that the teacher lacks, and for a group that does not
  // divide its width. It also fails for top logits of a teacher that sees the tokens that it
  // predicts.
  AnchorPass(std::shared_ptr<model::Model> teacher, const Options& options);

  const std::vector<int64_t>& layers() const { return layers_; }
  int64_t top() const { return top_; }
  model::Model& teacher() const { return *teacher_; }
  // Returns what the numbers depend on in addition to the tokens. Reads every number of the
  // teacher.
  Json settings(const Task* task) const;
  // Returns the arrays of each chunk, which depend on the tokens of the chunk alone. width: the
  // positions of a row of the pass. REQUIRES: no chunk is longer.
  std::vector<ckpt::NamedTensors> run(std::span<const std::vector<int32_t>> chunks, int64_t width,
                                      const Task* task);

private:
  Batch feed(std::span<const std::vector<int32_t>> chunks, int64_t width) const;
  std::shared_ptr<graph::Program> compile(const Batch& feed) const;
  ckpt::NamedTensors arrays_of(const Batch& results, int64_t row, int64_t tokens) const;
  int shift() const;

  std::shared_ptr<model::Model> teacher_;
  std::vector<int64_t> layers_;
  std::string store_;
  int64_t group_, top_;
  model::AttentionKind attention_;
  model::PartList parts_;
  runtime::ProgramCache<std::string> programs_;
};

} // namespace dllm::train
