#include "model/files/quantize_bits4.h"

#include "base/error.h"
#include "ckpt/bitsandbytes/bits4.h"
#include "ckpt/safetensors/safetensors_writer.h"
#include "model/families/family.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace dllm::model {
namespace {

using ckpt::Bits4Form;

constexpr int64_t kStateBytes = 320; // JSON and blanks, so that its size is known before

template <class T> Tensor copied(const Shape& shape, DType dtype, std::span<const T> values) {
  Tensor made(dtype, shape);
  std::ranges::copy(values, made.mutable_as<T>().begin());
  return made;
}

// The tensors of one matrix: their names and shapes at once, their numbers when they are written.
class Matrix {
public:
  Matrix(std::string name, const Bits4Form& form) : name_(std::move(name)), form_(form) {}

  const std::string& name() const { return name_; }
  std::vector<ckpt::TensorSpec> specs() const {
    std::vector<ckpt::TensorSpec> made;
    for (const Bits4Form::Part& part : form_.parts())
      made.push_back({name_ + part.ending, part.dtype, part.shape});
    made.push_back({name_ + form_.state_ending(), DType::u8, {kStateBytes}});
    return made;
  }
  int64_t bytes() const {
    int64_t bytes = 0;
    for (const ckpt::TensorSpec& part : specs())
      bytes += part.shape.count() * dtype_size(part.dtype);
    return bytes;
  }
  // Returns the largest error of a block over the largest number of the block. REQUIRES: a tensor
  // of codes or scales was returned.
  double error() const { return error_; }

  // Returns one of the tensors. pack: returns the codes of the matrix. The scales of all matrices
  // stay in memory, so each matrix is packed twice: for its scales, and for its codes.
  Tensor tensor(const ckpt::TensorSpec& spec, const std::function<ckpt::Bits4Codes()>& pack) {
    const std::string part = spec.name.substr(name_.size());
    const auto floats = [&](std::span<const float> values) {
      return copied(spec.shape, DType::f32, values);
    };
    const auto bytes = [&](std::span<const uint8_t> values) {
      return copied(spec.shape, DType::u8, values);
    };
    if (part.empty()) return bytes(pack().pairs);
    if (part == ".quant_map") return floats(ckpt::bits4_levels(*form_.format));
    if (part == ".nested_quant_map") return floats(ckpt::dynamic_map());
    if (tops_.empty()) take_scales(pack());
    if (part == ".absmax") return form_.has_codes ? bytes(codes_.codes) : floats(tops_);
    if (part == ".nested_absmax") return floats(codes_.tops);
    const std::string text = state();
    return bytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }

private:
  void take_scales(const ckpt::Bits4Codes& made) {
    tops_ = made.tops;
    error_ = made.error;
    if (form_.has_codes) codes_ = ckpt::coded_tops(tops_, form_.group, &form_.offset);
  }
  std::string state() const {
    std::string text = form_.to_json().dump();
    if (std::ssize(text) > kStateBytes) fail(Code::internal, "the state of {} is too long", name_);
    text.resize(kStateBytes, ' ');
    return text;
  }

  std::string name_;
  Bits4Form form_;
  std::vector<float> tops_;
  ckpt::DynamicCodes codes_; // of the scales
  double error_ = 0;
};

// bitsandbytes packs the matrices of linear modules. Heads, tables and routers stay as they are.
bool is_packed(const ParamSpec& spec, const ParamPiece& piece) {
  return spec.role == ParamRole::weight && spec.layers > 0 && !piece.transpose;
}

ckpt::Bits4Codes packed(const WeightSource& weights, const std::string& name, Quantizer& work) {
  const Tensor numbers = weights.read(name, work.task()).to(DType::f32, work.task());
  work.check(name, numbers, work.format());
  const int64_t block = Bits4Form().block;
  return ckpt::bits4_codes(work.format(), numbers.as<float>(), block, work.workers());
}

// What a folder will hold, in any order.
struct Plan {
  std::vector<ckpt::TensorSpec> specs;
  std::map<std::string, Matrix> matrices;   // by the name of the matrix
  std::map<std::string, Matrix*> matrix_of; // by the names of their tensors
  int64_t bytes = 0;                        // that are read
};

Plan planned(const WeightSource& weights, const ModelConfig& config, const Bits4Form& of_all) {
  Plan plan;
  for (const ParamSpec& spec : find_family(config.family).params(config)) {
    for (int64_t layer = 0; layer < spec.copies(); ++layer) {
      for (const ParamPiece& piece : spec.pieces) {
        const std::string name = spec.logical_name(piece, layer);
        Bits4Form form = of_all;
        form.shape = spec.logical_shape(piece);
        const int64_t bytes = weights.file_bytes(name);
        if (!is_packed(spec, piece)) {
          plan.specs.push_back({name, weights.dtype(name), form.shape});
          plan.bytes += bytes;
          continue;
        }
        plan.bytes += 2 * bytes; // it is packed twice
        Matrix& own = plan.matrices.try_emplace(name, name, form).first->second;
        for (const ckpt::TensorSpec& part : own.specs()) {
          plan.matrix_of[part.name] = &own;
          plan.specs.push_back(part);
        }
      }
    }
  }
  return plan;
}

} // namespace

void write_bits4_folder(const std::string& folder,
                        const std::shared_ptr<const WeightSource>& weights,
                        const ModelConfig& config, bool has_codes, Quantizer& work) {
  const Plan plan = planned(*weights, config, {.format = &work.format(), .has_codes = has_codes});
  work.set_total(plan.bytes);
  constexpr int64_t kShard = int64_t{5} << 30;
  ckpt::WeightWriter writer(folder, "model", plan.specs, kShard, {{"format", "pt"}});
  for (const ckpt::TensorSpec& spec : writer.order()) {
    check_task(work.task());
    const auto found = plan.matrix_of.find(spec.name);
    const std::string& name = found == plan.matrix_of.end() ? spec.name : found->second->name();
    const int64_t bytes = weights->file_bytes(name);
    if (found == plan.matrix_of.end()) {
      const Tensor numbers = weights->read(name, work.task()).to(spec.dtype, work.task());
      writer.write(name, numbers, work.task());
      work.count(name, weight_format(dtype_name(spec.dtype)), bytes, numbers.byte_size(), 0);
      work.advance(bytes);
      continue;
    }
    const auto pack = [&] {
      ckpt::Bits4Codes made = packed(*weights, name, work);
      work.advance(bytes);
      return made;
    };
    writer.write(spec.name, found->second->tensor(spec, pack), work.task());
  }
  for (const auto& [name, matrix] : plan.matrices)
    work.count(name, work.format(), weights->file_bytes(name), matrix.bytes(), matrix.error());
  writer.close();
}

Json bits4_config(const WeightFormat& format, bool has_codes) {
  return {{"quant_method", "bitsandbytes"},
          {"load_in_4bit", true},
          {"load_in_8bit", false},
          {"bnb_4bit_quant_type", format.name},
          {"bnb_4bit_use_double_quant", has_codes},
          {"bnb_4bit_compute_dtype", "float32"},
          {"bnb_4bit_quant_storage", "uint8"},
          {"llm_int8_skip_modules", nullptr},
          {"llm_int8_enable_fp32_cpu_offload", false},
          {"llm_int8_has_fp16_weight", false},
          {"llm_int8_threshold", 6.0}};
}

} // namespace dllm::model
