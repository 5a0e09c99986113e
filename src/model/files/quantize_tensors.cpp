#include "model/files/quantize_tensors.h"

#include "base/error.h"
#include "model/families/family.h"
#include "model/files/gguf_names.h"
#include "model/params/number_range.h"
#include "model/params/param_map.h"
#include "tensor/batch.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <mutex>

namespace dllm::model {
namespace {

// Returns the name after the number of the layer, in "blk.3.attn_q.weight" or
// "model.layers.3.self_attn.q_proj.weight".
std::string kind_of(const std::string& name) {
  size_t begin = 0;
  for (size_t at = 0; at < name.size();) {
    const size_t dot = std::min(name.find('.', at), name.size());
    const std::string part = name.substr(at, dot - at);
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string::npos) begin = dot + 1;
    at = dot + 1;
  }
  return begin < name.size() ? name.substr(begin) : name;
}

} // namespace

int64_t total_bytes(const std::vector<QuantizeTensor>& tensors) {
  int64_t bytes = 0;
  for (const QuantizeTensor& tensor : tensors) {
    for (const QuantizePart& part : tensor.parts) bytes += part.bytes_before;
  }
  return bytes;
}

Quantizer::Quantizer(const WeightFormat& format, Task* task)
    : format_(format), task_(task), pool_(allowed_cpus()) {}

void Quantizer::note(const std::string& text) {
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(text);
}

const WeightFormat& Quantizer::fitting(const std::string& name, const Shape& shape,
                                       bool is_matrix) {
  ParamSpec spec;
  spec.role = is_matrix ? ParamRole::weight : ParamRole::norm;
  spec.element = shape;
  const WeightFormat& chosen = storage_format(spec, format_);
  if (is_matrix && &chosen != &format_) {
    note(fmt::format("{}: rows of {} numbers are not whole blocks of {} ({}), stored as {}",
                     kind_of(name), shape.dim(-1), format_.block, format_.name, chosen.name));
  }
  return chosen;
}

double Quantizer::encode_rows(const WeightFormat& format, const Tensor& numbers, std::byte* to) {
  constexpr int64_t kPiece = int64_t{1} << 15; // numbers: a few ms of the search for scales
  const int64_t k = numbers.shape().dim(-1), rows = numbers.count() / k, row = format.row_bytes(k);
  const int64_t step = std::max<int64_t>(1, kPiece / k);
  const float* from = numbers.as<float>().data();
  std::mutex mutex;
  double worst = 0;
  parallel(workers(), (rows + step - 1) / step, [&](int64_t chunk) {
    const int64_t first = chunk * step, count = std::min(step, rows - first);
    const double own =
        quantize_matrix(format, from + first * k, count, k, to + first * row, nullptr);
    const std::lock_guard lock(mutex);
    worst = std::max(worst, own);
  });
  return worst;
}

std::vector<std::byte> Quantizer::encode(const QuantizeTensor& tensor, const QuantizePart& part) {
  check_task(task_);
  std::vector<std::byte> bytes;
  double error = 0;
  if (part.stored != nullptr) {
    bytes.resize(static_cast<size_t>(part.bytes_before));
    part.stored(bytes.data(), task_);
  } else {
    const Tensor numbers = part.read(task_);
    check(tensor.name, numbers, *tensor.format);
    bytes.resize(static_cast<size_t>(weight_bytes(*tensor.format, numbers.shape())));
    error = encode_rows(*tensor.format, numbers, bytes.data());
  }
  count(tensor.name, *tensor.format, part.bytes_before, static_cast<int64_t>(bytes.size()), error,
        &part == &tensor.parts.front());
  advance(part.bytes_before);
  return bytes;
}

void Quantizer::advance(int64_t bytes) {
  done_ += bytes;
  if (task_ != nullptr) task_->set_progress(done_, total_);
}

void Quantizer::check(const std::string& name, const Tensor& numbers,
                      const WeightFormat& format) const {
  const int64_t at = format.is_float() ? -1 : first_non_finite(numbers);
  if (at >= 0) {
    fail_with_hint("bf16 and f32 keep such a number", Code::data_loss,
                   "tensor {} holds {} at {}, which {} would hide", name,
                   numbers.as<float>()[static_cast<size_t>(at)], place_text(numbers.shape(), at),
                   format.name);
  }
  check_number_range(name, numbers, format, task_);
}

void Quantizer::count(const std::string& name, const WeightFormat& format, int64_t before,
                      int64_t after, double error, bool is_new) {
  const std::string own = kind_of(name);
  auto kind = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& one) {
    return one.name == own && one.format == &format;
  });
  if (kind == kinds_.end()) kind = kinds_.insert(kinds_.end(), {own, &format});
  kind->tensors += is_new ? 1 : 0;
  kind->before += before;
  kind->after += after;
  kind->error = std::max(kind->error, error);
}

Json Quantizer::report() const {
  Json kinds = Json::array();
  int64_t tensors = 0, before = 0, after = 0;
  for (const Kind& kind : kinds_) {
    kinds.push_back({{"name", kind.name},
                     {"format", kind.format->name},
                     {"tensors", kind.tensors},
                     {"bytes_before", kind.before},
                     {"bytes_after", kind.after},
                     {"error", kind.error}});
    tensors += kind.tensors;
    before += kind.before;
    after += kind.after;
  }
  return {{"format", format_.name}, {"tensors", tensors}, {"bytes_before", before},
          {"bytes_after", after},   {"kinds", kinds},     {"notes", notes_}};
}

// --- input: a GGUF file, under its own names ---

std::vector<QuantizeTensor> tensors_of_gguf(const std::shared_ptr<const ckpt::GgufFile>& file,
                                            Quantizer& work) {
  constexpr int64_t kNumbers = int64_t{1} << 24; // of a part
  std::vector<QuantizeTensor> tensors;
  for (const auto& [name, info] : file->tensors()) {
    const ckpt::GgmlTypeInfo* type = ckpt::ggml_type_info(info.type);
    if (type == nullptr || !type->readable) file->tensor(name); // fails and names the type
    const bool is_matrix = info.shape.rank() > 1 && name.ends_with(".weight") &&
                           name.find("ffn_gate_inp") == std::string::npos;
    const Shape shape = info.shape.rank() == 0 ? Shape{1} : info.shape;
    const WeightFormat& format = work.fitting(name, shape, is_matrix);
    QuantizeTensor made{name, shape, &format, {}};
    const int64_t k = shape.dim(-1), rows = shape.count() / k;
    const int64_t row = k / type->block * type->bytes, step = std::max<int64_t>(1, kNumbers / k);
    const bool same = ckpt::ggml_weight_format(info.type) == &format;
    for (int64_t begin = 0; begin < rows; begin += step) {
      const int64_t end = std::min(rows, begin + step);
      QuantizePart part;
      part.bytes_before = (end - begin) * row;
      part.read = [file, name = name, begin, end, k](const Task* task) {
        check_task(task);
        Tensor numbers(DType::f32, {end - begin, k});
        file->dequantize(name, numbers.mutable_as<float>(), begin, end);
        return numbers;
      };
      if (same)
        part.stored = [file, name = name, begin, end](std::byte* to, const Task* task) {
          file->read_stored(name, to, begin, end, task);
        };
      made.parts.push_back(std::move(part));
    }
    tensors.push_back(std::move(made));
  }
  return tensors;
}

// --- input: the logical tensors of a model ---

namespace {

// Returns the numbers in the output's order of rows.
Tensor read_logical(const WeightSource& weights, const std::string& name, const ModelConfig& config,
                    bool to_gguf, const Task* task) {
  Tensor numbers = weights.read(name, task).to(DType::f32, task);
  if (to_gguf && turns_pairs(name, config)) numbers = pairs_from_halves(numbers, config.head_dim);
  if (to_gguf && is_centered_norm(name, config)) {
    Tensor more(DType::f32, numbers.shape());
    std::transform(numbers.as<float>().begin(), numbers.as<float>().end(),
                   more.mutable_as<float>().begin(), [](float x) { return x + 1.0f; });
    return more;
  }
  return numbers;
}

} // namespace

std::vector<QuantizeTensor> tensors_of_model(const std::shared_ptr<const WeightSource>& weights,
                                             const ModelConfig& config, bool to_gguf,
                                             Quantizer& work, const std::string& part_name) {
  std::vector<QuantizeTensor> tensors;
  std::map<std::string, size_t> known; // experts of one layer are one tensor of a GGUF file
  for (const ParamSpec& spec : find_family(config.family).params(config)) {
    const bool is_matrix = !is_vector(spec.role) && spec.role != ParamRole::router;
    for (int64_t layer = 0; layer < spec.copies(); ++layer) {
      for (const ParamPiece& piece : spec.pieces) {
        const std::string logical = qualified_name(part_name, spec.logical_name(piece, layer));
        const GgufPlace place = to_gguf ? gguf_place(logical, config) : GgufPlace{logical};
        if (place.name.empty()) {
          fail(Code::unimplemented, "GGUF has no name for tensor {} of family {}", logical,
               config.family);
        }
        QuantizePart part;
        part.bytes_before = weights->file_bytes(logical);
        part.read = [weights, logical, config, to_gguf](const Task* task) {
          return read_logical(*weights, logical, config, to_gguf, task);
        };
        const auto [found, is_new] = known.try_emplace(place.name, tensors.size());
        if (is_new) {
          Shape shape = spec.logical_shape(piece);
          const WeightFormat& format = work.fitting(place.name, shape, is_matrix);
          if (to_gguf && is_single_row(logical)) shape = Shape{shape.dim(-1)};
          if (place.expert >= 0) shape = shape.with_front(config.experts.count);
          tensors.push_back({place.name, shape, &format, {}});
        }
        tensors[found->second].parts.push_back(std::move(part));
      }
    }
  }
  return tensors;
}

} // namespace dllm::model
