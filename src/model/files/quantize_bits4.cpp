#include "model/files/quantize_bits4.h"

#include "base/error.h"
#include "ckpt/bitsandbytes/bits4.h"
#include "ckpt/safetensors/safetensors_writer.h"
#include "model/families/family.h"
#include "model/params/number_range.h"

#include <nlohmann/json.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace dllm::model {
namespace {

constexpr int64_t kBlock = 64, kGroup = 256; // as bitsandbytes chooses them
constexpr size_t kStateBytes = 320;          // JSON and blanks, so that its size is known before

template <class T> Tensor copied(DType dtype, const Shape& shape, const std::vector<T>& values) {
  Tensor made(dtype, shape);
  std::ranges::copy(values, made.mutable_as<T>().begin());
  return made;
}

// The tensors of one matrix: their names and shapes at once, their numbers when they are written.
class Matrix {
public:
  Matrix(std::string name, Shape shape, const WeightFormat& format, bool has_codes)
      : name_(std::move(name)), shape_(std::move(shape)), format_(format), has_codes_(has_codes) {}

  std::vector<ckpt::TensorSpec> specs() const {
    const int64_t count = shape_.count(), blocks = (count + kBlock - 1) / kBlock;
    std::vector<ckpt::TensorSpec> made = {
        {name_, DType::u8, {(count + 1) / 2, 1}},
        {name_ + ".absmax", has_codes_ ? DType::u8 : DType::f32, {blocks}},
        {name_ + ".quant_map", DType::f32, {16}},
        {state_name(), DType::u8, {static_cast<int64_t>(kStateBytes)}}};
    if (has_codes_) {
      made.push_back({name_ + ".nested_absmax", DType::f32, {(blocks + kGroup - 1) / kGroup}});
      made.push_back({name_ + ".nested_quant_map", DType::f32, {256}});
    }
    return made;
  }

  // Returns one of the tensors. read: returns the numbers of the matrix, f32. The scales of all
  // matrices stay in memory, so each matrix is read twice.
  Tensor tensor(const ckpt::TensorSpec& spec, const std::function<Tensor()>& read) {
    const std::string part = spec.name.substr(name_.size());
    if (part.empty()) return pairs_of(read(), spec);
    if (part == ".quant_map") {
      const auto levels = ckpt::bits4_levels(format_);
      return copied(DType::f32, spec.shape, std::vector<float>(levels.begin(), levels.end()));
    }
    if (part == ".nested_quant_map") {
      const auto& map = ckpt::dynamic_map();
      return copied(DType::f32, spec.shape, std::vector<float>(map.begin(), map.end()));
    }
    if (tops_.empty()) take_tops(codes_of(read()));
    if (part == ".absmax") {
      return has_codes_ ? copied(DType::u8, spec.shape, codes_.codes)
                        : copied(DType::f32, spec.shape, tops_);
    }
    if (part == ".nested_absmax") return copied(DType::f32, spec.shape, codes_.tops);
    return copied(DType::u8, spec.shape, state());
  }

  // Returns the largest error of a block over the largest number of the block. REQUIRES: the
  // matrix itself was written.
  double error() const { return error_; }

private:
  Tensor pairs_of(const Tensor& numbers, const ckpt::TensorSpec& spec) {
    error_ = error_of(numbers);
    return copied(DType::u8, spec.shape, codes_of(numbers).pairs);
  }
  double error_of(const Tensor& numbers) const {
    std::vector<std::byte> stored(static_cast<size_t>(format_.block_bytes));
    std::vector<float> padded(kBlock);
    const auto all = numbers.as<float>();
    double worst = 0;
    for (size_t begin = 0; begin < all.size(); begin += kBlock) {
      std::ranges::fill(padded, 0.0f);
      std::ranges::copy(all.subspan(begin, std::min<size_t>(kBlock, all.size() - begin)),
                        padded.begin());
      worst = std::max(worst, format_.quantize(padded.data(), kBlock, stored.data(), nullptr));
    }
    return worst;
  }
  std::string state_name() const {
    return fmt::format("{}.quant_state.bitsandbytes__{}", name_, format_.name);
  }
  ckpt::Bits4Codes codes_of(const Tensor& numbers) const {
    return ckpt::bits4_codes(format_, numbers.as<float>(), kBlock);
  }
  void take_tops(const ckpt::Bits4Codes& made) {
    tops_ = made.tops;
    if (has_codes_) codes_ = ckpt::coded_tops(tops_, kGroup, &offset_);
  }
  std::vector<uint8_t> state() const {
    Json made = {{"quant_type", format_.name},
                 {"blocksize", kBlock},
                 {"dtype", "float32"},
                 {"shape", shape_.dims()}};
    if (has_codes_) {
      made["nested_blocksize"] = kGroup;
      made["nested_dtype"] = "float32";
      made["nested_offset"] = offset_;
    }
    std::string text = made.dump();
    if (text.size() > kStateBytes) fail(Code::internal, "the state of {} is too long", name_);
    text.resize(kStateBytes, ' ');
    return {text.begin(), text.end()};
  }

  std::string name_;
  Shape shape_;
  const WeightFormat& format_;
  bool has_codes_;
  std::vector<float> tops_;
  ckpt::DynamicCodes codes_; // of the scales
  float offset_ = 0;
  double error_ = 0;
};

// bitsandbytes packs the matrices of linear modules. Heads, tables and routers stay as they are.
bool is_packed(const ParamSpec& spec, const ParamPiece& piece) {
  return spec.role == ParamRole::weight && spec.layers > 0 && !piece.transpose;
}

Tensor numbers_of(const WeightSource& weights, const std::string& name, Quantizer& work) {
  const Tensor numbers = weights.read(name, work.task()).to(DType::f32, work.task());
  check_number_range(name, numbers, work.format(), work.task());
  return numbers;
}

} // namespace

bool is_bits4(const WeightFormat& format) {
  return &format == &weight_format("nf4") || &format == &weight_format("fp4");
}

void write_bits4_folder(const std::string& folder,
                        const std::shared_ptr<const WeightSource>& weights,
                        const ModelConfig& config, bool has_codes, Quantizer& work) {
  std::vector<ckpt::TensorSpec> specs;
  std::map<std::string, Matrix> matrices;              // by the name of the matrix
  std::map<std::string, std::string> matrix_of, plain; // by the names of tensors
  int64_t total = 0;
  for (const ParamSpec& spec : find_family(config.family).params(config)) {
    for (int64_t layer = 0; layer < spec.copies(); ++layer) {
      for (const ParamPiece& piece : spec.pieces) {
        const std::string name = spec.logical_name(piece, layer);
        const Shape shape = spec.logical_shape(piece);
        total += weights->file_bytes(name);
        if (!is_packed(spec, piece)) {
          specs.push_back({name, weights->dtype(name), shape});
          plain[name] = name;
          continue;
        }
        const auto& own =
            matrices.try_emplace(name, name, shape, work.format(), has_codes).first->second;
        for (const ckpt::TensorSpec& part : own.specs()) {
          matrix_of[part.name] = name;
          specs.push_back(part);
        }
      }
    }
  }
  work.set_total(total);
  constexpr int64_t kShard = int64_t{5} << 30;
  ckpt::WeightWriter writer(folder, "model", specs, kShard, {{"format", "pt"}});
  for (const ckpt::TensorSpec& spec : writer.order()) {
    check_task(work.task());
    if (plain.contains(spec.name)) {
      const Tensor numbers = weights->read(spec.name, work.task()).to(spec.dtype, work.task());
      writer.write(spec.name, numbers, work.task());
      work.count(spec.name, weight_format(dtype_name(spec.dtype)), weights->file_bytes(spec.name),
                 numbers.byte_size(), 0);
      continue;
    }
    const std::string& name = matrix_of.at(spec.name);
    Matrix& matrix = matrices.at(name);
    const auto read = [&] { return numbers_of(*weights, name, work); };
    writer.write(spec.name, matrix.tensor(spec, read), work.task());
    if (spec.name == name) {
      int64_t bytes = 0;
      for (const ckpt::TensorSpec& part : matrix.specs())
        bytes += part.shape.count() * dtype_size(part.dtype);
      work.count(name, work.format(), weights->file_bytes(name), bytes, matrix.error());
    }
  }
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
