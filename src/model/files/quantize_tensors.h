#pragma once
// The tensors that `dllm quantize` writes: the source of their numbers, their formats, and the
// report.

#include "base/json.h"
#include "base/threads/parallel.h"
#include "model/files/weights.h"
#include "model/params/part.h"

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace dllm::model {

// A tensor of the output and its parts, whose rows follow one another.
struct QuantizePart {
  int64_t bytes_before;
  std::function<Tensor(const Task*)> read; // f32 (rows, k) or (k)
  // Writes the bytes of the part unchanged; null unless the input has the format of the output.
  std::function<void(std::byte*, const Task*)> stored;
};
struct QuantizeTensor {
  std::string name;
  Shape shape;
  const WeightFormat* format;
  std::vector<QuantizePart> parts;
};

// Returns the sum of bytes_before.
int64_t total_bytes(const std::vector<QuantizeTensor>& tensors);

class Quantizer {
public:
  Quantizer(const WeightFormat& format, Task* task);

  const WeightFormat& format() const { return format_; }
  Task* task() const { return task_; }
  void set_total(int64_t bytes) { total_ = bytes; }
  // Adds a note to the report. Each text is added once.
  void note(const std::string& text);
  // Returns the format of a tensor, and adds a note when it is not format().
  const WeightFormat& fitting(const std::string& name, const Shape& shape, bool is_matrix);
  // Returns the bytes of one part in the format of the tensor.
  std::vector<std::byte> encode(const QuantizeTensor& tensor, const QuantizePart& part);
  Workers workers() { return {&pool_, task_}; }
  // Moves the progress on.
  void advance(int64_t bytes);
  // Fails with data_loss for a number that is not finite and that the format would hide, and with
  // out_of_range for one that the format makes infinite.
  void check(const std::string& name, const Tensor& numbers, const WeightFormat& format) const;
  // Counts a tensor that was written.
  void count(const std::string& name, const WeightFormat& format, int64_t before, int64_t after,
             double error, bool is_new = true);
  Json report() const;

private:
  double encode_rows(const WeightFormat& format, const Tensor& numbers, std::byte* to);

  struct Kind {
    std::string name;
    const WeightFormat* format;
    int64_t tensors = 0, before = 0, after = 0;
    double error = 0;
  };
  const WeightFormat& format_;
  Task* task_;
  ThreadPool pool_;
  std::vector<Kind> kinds_; // in the order of the output
  std::vector<std::string> notes_;
  int64_t done_ = 0, total_ = 0;
};

std::vector<QuantizeTensor> tensors_of_gguf(const std::shared_ptr<const ckpt::GgufFile>& file,
                                            Quantizer& work);
// Lists the tensors under the names of a GGUF file, or of a Hugging Face folder. part_name: the
// network whose tensors have its name in front.
std::vector<QuantizeTensor> tensors_of_model(const std::shared_ptr<const WeightSource>& weights,
                                             const ModelConfig& config, bool to_gguf,
                                             Quantizer& work,
                                             const std::string& part_name = kBasePart);

} // namespace dllm::model
