#pragma once
// Reads the logical tensors of a model from safetensors, PyTorch files or GGUF, under the names and
// in the row order of Hugging Face.

#include "base/files.h"
#include "base/task.h"
#include "ckpt/gguf/gguf.h"
#include "graph/engine.h"
#include "model/config.h"
#include "model/params/param_map.h"
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
  // Checks that the source has every tensor of the table in its shape, and no other tensor. Fails
  // with data_loss naming file, tensor, expected, found. Called before anything is allocated.
  virtual void check(const std::vector<ParamSpec>& specs) const = 0;
  // Returns true when the source has a tensor of this name. GGUF files have only the tensors of the
  // table.
  virtual bool has(const std::string& /*logical*/) const { return false; }
  virtual Shape shape(const std::string& logical) const; // REQUIRES: has()
  // Returns the type of the numbers in the file. Quantized types count as f32.
  virtual DType dtype(const std::string& logical) const = 0;
  virtual bool quantized() const = 0; // true for a GGUF whose matrices are not floats
  virtual int64_t file_bytes(const std::string& logical) const = 0;
  // Returns the tensor in any float type.
  virtual Tensor read(const std::string& logical, const Task* task = nullptr) const = 0;
  // Returns a part of the tensor. Only the bytes that it needs are read from the file
  // (ckpt/box_reader.h).
  virtual Tensor read_part(const std::string& logical, const Box& box,
                           const Task* task = nullptr) const = 0;
  // Writes the numbers of a part to `to`, in dtype(), and returns a view of them.
  virtual Tensor read_part_to(const std::string& logical, const Box& box, std::byte* to,
                              const Task* task = nullptr) const = 0;
  // Returns the format of the bytes in the file; null when the table of weight formats does not
  // have it.
  virtual const WeightFormat* format(const std::string& logical) const;
  // Copies the unchanged bytes of a part from the file to `to` and returns a view of them.
  // REQUIRES: format() is in blocks, and the part begins and ends between blocks.
  virtual Tensor read_blocks(const std::string& logical, const Box& box, std::byte* to,
                             const Task* task = nullptr) const;
  // Return the unchanged numbers of a part, and a scale for each of its rows. REQUIRES: format() is
  // int8.
  struct ScaledRows {
    Tensor values, scales;
  };
  virtual ScaledRows read_rows(const std::string& logical, const Box& box,
                               const Task* task = nullptr) const;
};

// The content of a source in addition to its weights.
struct OpenedModel {
  ModelConfig config;
  std::shared_ptr<const ckpt::GgufFile> gguf; // null: the files are safetensors or PyTorch
};
OpenedModel open_model(const Source& source); // reads config.json or a .gguf file
// Opens the weights. Unties opened.config where the file has a head of its own.
std::unique_ptr<WeightSource> open_weights(OpenedModel& opened, const Source& source,
                                           const Task* task = nullptr);

// Returns option "weights" of loads and conversions: live or ema.
OptionSpec weights_option();
// Returns `weights` for choice "live". For "ema" it returns a source that reads the moving averages
// of a checkpoint, and `weights` for tensors that the run did not train. `network` is the part that
// the weights belong to. Fails with failed_precondition for an empty `checkpoint`; check() fails
// for one without averages.
std::unique_ptr<WeightSource> chosen_weights(const std::string& choice,
                                             std::unique_ptr<WeightSource> weights,
                                             const std::string& checkpoint,
                                             const std::string& network = ckpt::kBasePart);

class Model;

// Returns the first values of a part: normal numbers of (seed, name), 1 for norms, 0 for biases.
// `whole` is the shape of the tensor; the values of a part are those numbers of the whole tensor.
Tensor first_values(const ParamSpec& spec, const std::string& name, const Shape& whole,
                    const Box& box, const ModelConfig& config, uint64_t seed, const Task* task);

// Reserves an entry in the model for each stack and returns the entries in the order of filling.
// The largest stack comes first, so that the host holds one stack in addition to the stacks on the
// engine.
std::vector<std::pair<size_t, const ParamSpec*>>
reserve_largest_first(Model& model, const std::vector<ParamSpec>& specs,
                      const std::function<const WeightFormat&(const ParamSpec&)>& form_of);

// Opens safetensors or PyTorch files. `second_head` is a tensor that may exist in addition to the
// table; empty: none.
std::unique_ptr<WeightSource> open_weight_files(const Source& source,
                                                const std::string& second_head);
std::unique_ptr<WeightSource> open_gguf_weights(std::shared_ptr<const ckpt::GgufFile> file,
                                                const ModelConfig& config);

// Returns the name of the tensor that would be the head if it were not tied. Returns "" when the
// head is not tied or the family cannot untie it.
std::string own_head_name(const ModelConfig& config);
// Unties the head, with a warning, where the file has a head that differs from the table in any
// bit. `file` is named in the warning.
void untie_own_head(ModelConfig& config, const WeightSource& weights, const std::string& file,
                    const Task* task);

} // namespace dllm::model
