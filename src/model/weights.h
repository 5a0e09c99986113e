#pragma once
// Where the logical tensors of a model come from: safetensors, PyTorch files or GGUF, under the names and in the
// row order of Hugging Face.

#include "base/files.h"
#include "base/task.h"
#include "ckpt/gguf.h"
#include "graph/engine.h"
#include "model/config.h"
#include "model/param_map.h"
#include "tensor/weight_format.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dllm::model {

class WeightSource {
public:
  virtual ~WeightSource() = default;
  // Every tensor of the table is there in its shape and nothing else is: data_loss naming file,
  // tensor, expected, found. Called before anything is allocated.
  virtual void check(const std::vector<ParamSpec>& specs) const = 0;
  // Whether there is a tensor of this name. GGUF files have none but those of the table.
  virtual bool has(const std::string& /*logical*/) const { return false; }
  virtual Shape shape(const std::string& logical) const; // REQUIRES: has()
  virtual DType
  dtype(const std::string& logical) const = 0; // of the numbers in the file; quantized types: f32
  virtual bool quantized() const = 0;          // a GGUF whose matrices are not floats
  virtual int64_t file_bytes(const std::string& logical) const = 0;
  // Any float type.
  virtual Tensor read(const std::string& logical, const Task* task = nullptr) const = 0;
  // A part of it; no more of the file is read than that needs (ckpt/box_reader.h).
  virtual Tensor read_part(const std::string& logical, const Box& box,
                           const Task* task = nullptr) const = 0;
  // The same numbers in `to`, in dtype(), and a view of them.
  virtual Tensor read_part_to(const std::string& logical, const Box& box, std::byte* to,
                              const Task* task = nullptr) const = 0;
  // The format of the file's own bytes; null when it is not in the table of weight formats.
  virtual const WeightFormat* format(const std::string& logical) const;
  // The bytes of a part in the file, as they are, in `to`, and a view of them. REQUIRES: format() is in blocks, and the part
  // begins and ends between them.
  virtual Tensor read_blocks(const std::string& logical, const Box& box, std::byte* to,
                             const Task* task = nullptr) const;
};

// Whether a format is one that this engine multiplies in: blocks are read by the cpu engine alone.
bool engine_reads(const graph::Engine& engine, const WeightFormat& format);
void expect_engine_reads(const graph::Engine& engine, const WeightFormat& format); // unimplemented

// What a source holds besides its weights.
struct OpenedModel {
  ModelConfig config;
  std::shared_ptr<const ckpt::GgufFile> gguf; // null: safetensors or PyTorch
};
OpenedModel open_model(const Source& source); // config.json, or a .gguf file
// Unties opened.config where the file has a head of its own.
std::unique_ptr<WeightSource> open_weights(OpenedModel& opened, const Source& source,
                                           const Task* task = nullptr);

class Model;

// What a new model begins with: normal numbers of (seed, name), ones of norms, zeros of biases.
// whole: the shape of the tensor, of which the values of a part are made.
Tensor first_values(const ParamSpec& spec, const std::string& name, const Shape& whole,
                    const Box& box, const ModelConfig& config, uint64_t seed, const Task* task);

// A place in the model for each stack, in the order in which they are filled: the largest first, so that next to what
// is on the engine there is one stack on the host.
std::vector<std::pair<size_t, const ParamSpec*>>
reserve_largest_first(Model& model, const std::vector<ParamSpec>& specs,
                      const std::function<const WeightFormat&(const ParamSpec&)>& form_of);

// second_head: a tensor that may be there next to the table; empty: none.
std::unique_ptr<WeightSource> open_weight_files(const Source& source,
                                                const std::string& second_head);
std::unique_ptr<WeightSource> open_gguf_weights(std::shared_ptr<const ckpt::GgufFile> file,
                                                const ModelConfig& config);

// The tensor that would be the head, were it not tied; empty: it is not tied, or the family cannot.
std::string own_head_name(const ModelConfig& config);
// config.tie_embeddings becomes false, with a warning, where the tied head lies in the file as well and differs from the table
// in any bit. file: for the warning.
void untie_own_head(ModelConfig& config, const WeightSource& weights, const std::string& file,
                    const Task* task);

} // namespace dllm::model
