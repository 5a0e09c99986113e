#include "ckpt/scaled/scaled.h"

#include "base/error.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <utility>

namespace dllm::ckpt {
namespace {

constexpr std::string_view kWeight = ".weight", kScaleEndings[] = {"_scale_inv", "_scale"};
// Scales of activations. A product here rounds no activations to 8 bits.
constexpr std::string_view kActivationEndings[] = {".input_scale", ".output_scale", ".k_scale",
                                                   ".v_scale", ".activation_scale"};
constexpr int64_t kUsualBlock = 128;

std::array<float, 256> new_e4m3_numbers() {
  std::array<float, 256> made{};
  for (int byte = 0; byte < 256; ++byte) {
    const int exponent = byte >> 3 & 15, mantissa = byte & 7;
    const float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                     : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
    const float number = exponent == 15 && mantissa == 7 ? NAN : size;
    made[static_cast<size_t>(byte)] = byte >= 128 ? -number : number;
  }
  return made;
}

// Returns the height and width of blocks that a config names: "weight_block_size" of transformers,
// "block_structure" and "group_size" of compressed-tensors. The default is 128 x 128.
std::pair<int64_t, int64_t> named_block(const Json& quantization) {
  std::pair<int64_t, int64_t> named{kUsualBlock, kUsualBlock};
  const auto take = [&](const Json& object) {
    if (!object.is_object()) return;
    for (const char* key : {"weight_block_size", "block_structure"}) {
      const auto found = object.find(key);
      if (found != object.end() && found->is_array() && found->size() == 2 &&
          found->at(0).is_number_integer() && found->at(1).is_number_integer())
        named = {found->at(0).get<int64_t>(), found->at(1).get<int64_t>()};
    }
    const auto group = object.find("group_size");
    if (group != object.end() && group->is_number_integer() && group->get<int64_t>() > 0)
      named = {1, group->get<int64_t>()};
  };
  take(quantization);
  if (!quantization.is_object() || !quantization.contains("config_groups")) return named;
  const Json& groups = quantization.at("config_groups");
  for (const auto& [name, group] : groups.items()) {
    if (group.is_object() && group.contains("weights")) take(group.at("weights"));
  }
  return named;
}

// Sets the size of blocks from the shape of the scales. Returns false when they do not fit.
bool set_block(const Shape& scales, const Json& quantization, ScaledForm& form) {
  const int64_t out = form.shape.dim(0), in = form.shape.dim(1);
  form.height = out, form.width = in;
  if (scales.count() == 1) return true;
  form.height = 1;
  if (scales == Shape{out} || scales == Shape{out, 1}) return true;
  std::tie(form.height, form.width) = named_block(quantization);
  return form.height > 0 && form.width > 0 && form.scale_grid() == scales;
}

} // namespace

float e4m3_to_f32(uint8_t byte) {
  static const std::array<float, 256> numbers = new_e4m3_numbers();
  return numbers[byte];
}

ScaledForms::ScaledForms(const WeightFiles& files, const Json& quantization,
                         const std::string& where) {
  for (const std::string& name : files.names()) {
    for (const std::string_view ending : kScaleEndings) {
      if (name.ends_with(std::string(kWeight) + std::string(ending)))
        add(files, name, quantization, where);
    }
  }
}

void ScaledForms::add(const WeightFiles& files, const std::string& scales, const Json& quantization,
                      const std::string& where) {
  const size_t end = scales.rfind(kWeight) + kWeight.size();
  const std::string name = scales.substr(0, end);
  if (!files.has(name)) return; // packed in another form, which the reader of weights refuses
  const TensorInfo &matrix = files.info(name), &info = files.info(scales);
  if (matrix.type != "F8_E4M3" && matrix.type != "I8") {
    fail_with_hint("numbers of e4m3 and int8 are read", Code::unimplemented,
                   "{}: tensor {} with scales has type {}", where, name, matrix.type);
  }
  if (files.has(name + "_zero_point")) {
    fail_with_hint("quantize with symmetric scales, or dequantize the model in the program that "
                   "wrote it",
                   Code::unimplemented, "{}: tensor {} has zero points, which are not read", where,
                   name);
  }
  ScaledForm form;
  form.shape = matrix.shape;
  form.is_e4m3 = matrix.type == "F8_E4M3";
  form.scales = scales;
  if (!info.dtype || !is_float(*info.dtype)) {
    fail_with_hint("scales of f32, bf16 and f16 are read", Code::unimplemented,
                   "{}: tensor {} has type {}", where, scales, info.type);
  }
  if (form.shape.rank() != 2 || form.shape.count() == 0 ||
      !set_block(info.shape, quantization, form)) {
    fail_with_hint("quantization_config of config.json has the size of blocks", Code::data_loss,
                   "{}: scales {} {} do not fit {} {}", where, scales, info.shape.text(), name,
                   matrix.shape.text());
  }
  forms_[name] = form;
}

const ScaledForm* ScaledForms::find(const std::string& name) const {
  const auto found = forms_.find(name);
  return found == forms_.end() ? nullptr : &found->second;
}

bool ScaledForms::owns(std::string_view name) const {
  for (const std::string_view ending : kScaleEndings) {
    if (name.ends_with(ending) && forms_.contains(name.substr(0, name.size() - ending.size())))
      return true;
  }
  if (forms_.empty()) return false;
  for (const std::string_view ending : kActivationEndings) {
    if (name.ends_with(ending)) return true;
  }
  return false;
}

ScaledMatrix::ScaledMatrix(const WeightFiles& files, const std::string& name,
                           const ScaledForm& form, const Box& box, const Task* task)
    : form_(form), box_(box), bytes_(files.part_copy(name, box, task)),
      scales_(files.tensor_copy(form.scales, task).to(DType::f32, task)) {}

float ScaledMatrix::scale(int64_t row, int64_t column) const {
  const int64_t across = form_.scale_grid().dim(1);
  const int64_t at = row / form_.height * across + column / form_.width;
  return scales_.as<float>()[static_cast<size_t>(at)];
}

void ScaledMatrix::read_numbers(float* to, const Task* task) const {
  const int64_t rows = box_.shape.dim(0), columns = box_.shape.dim(1);
  const auto* from = reinterpret_cast<const uint8_t*>(bytes_.bytes());
  const int64_t together = std::max<int64_t>(1, (int64_t{1} << 18) / std::max<int64_t>(1, columns));
  in_pieces(rows, together, task, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * columns; i < end * columns; ++i) {
      const float number =
          form_.is_e4m3 ? e4m3_to_f32(from[i]) : static_cast<float>(static_cast<int8_t>(from[i]));
      to[i] = number * scale(box_.begin[0] + i / columns, box_.begin[1] + i % columns);
    }
  });
}

Tensor ScaledMatrix::values() const {
  return bytes_;
}

Tensor ScaledMatrix::row_scales() const {
  Tensor made(DType::f32, {box_.shape.dim(0)});
  for (int64_t row = 0; row < made.count(); ++row)
    made.mutable_as<float>()[static_cast<size_t>(row)] = scale(box_.begin[0] + row, 0);
  return made;
}

} // namespace dllm::ckpt
