#include "ckpt/bitsandbytes/bits4.h"

#include "base/error.h"
#include "tensor/formats/bits4.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace dllm::ckpt {
namespace {

constexpr int64_t kOwnBlock = 64; // of the weight formats

std::array<float, 256> new_dynamic_map() {
  std::vector<double> made = {0, 1};
  for (int i = 0; i < 7; ++i) {
    const int count = 1 << i;
    for (int j = 0; j < count; ++j) {
      const double middle = 0.1 + 0.9 * (j + 0.5) / count;
      for (const double sign : {-1.0, 1.0}) made.push_back(sign * middle * std::pow(10, i - 6));
    }
  }
  std::ranges::sort(made);
  std::array<float, 256> map{};
  std::ranges::transform(made, map.begin(), [](double x) { return static_cast<float>(x); });
  return map;
}

// Returns the place of the nearest number; of two that are equally near, the first one.
uint8_t nearest_place(const std::array<float, 256>& sorted, float x) {
  const auto* above = std::ranges::lower_bound(sorted, x);
  if (above == sorted.begin()) return 0;
  const auto at = above - sorted.begin();
  if (above == sorted.end() || x - above[-1] <= *above - x) return static_cast<uint8_t>(at - 1);
  return static_cast<uint8_t>(at);
}

float largest_of(std::span<const float> numbers) {
  float top = 0;
  for (const float x : numbers) top = std::max(top, std::abs(x));
  return top;
}

bool is_nf4(const WeightFormat& format) {
  return &format == &weight_format("nf4");
}

} // namespace

const std::array<float, 256>& dynamic_map() {
  static const std::array<float, 256> made = new_dynamic_map();
  return made;
}

DynamicCodes dynamic_codes(std::span<const float> numbers, int64_t block) {
  DynamicCodes made;
  for (size_t begin = 0; begin < numbers.size(); begin += static_cast<size_t>(block)) {
    const auto one =
        numbers.subspan(begin, std::min(static_cast<size_t>(block), numbers.size() - begin));
    const float top = largest_of(one);
    made.tops.push_back(top);
    const float inverse = top > 0 ? 1 / top : 0; // as bitsandbytes rounds
    for (const float x : one) made.codes.push_back(nearest_place(dynamic_map(), x * inverse));
  }
  return made;
}

float dynamic_number(const DynamicCodes& codes, int64_t block, int64_t i) {
  return dynamic_map()[codes.codes[static_cast<size_t>(i)]] *
         codes.tops[static_cast<size_t>(i / block)];
}

DynamicCodes coded_tops(std::span<const float> tops, int64_t group, float* offset) {
  double sum = 0;
  for (const float top : tops) sum += top;
  *offset = tops.empty() ? 0 : static_cast<float>(sum / static_cast<double>(tops.size()));
  std::vector<float> moved(tops.begin(), tops.end());
  for (float& top : moved) top -= *offset;
  return dynamic_codes(moved, group);
}

std::span<const float, 16> bits4_levels(const WeightFormat& format) {
  return is_nf4(format) ? std::span(formats::kNf4Levels) : std::span(formats::kFp4Levels);
}

Bits4Codes bits4_codes(const WeightFormat& format, std::span<const float> numbers, int64_t block) {
  const auto encode = is_nf4(format) ? formats::encode_bits4<formats::kNf4Levels>
                                     : formats::encode_bits4<formats::kFp4Levels>;
  Bits4Codes made;
  if (numbers.empty()) return made;
  std::vector<uint8_t> levels(numbers.size() + numbers.size() % 2);
  const float none = 0;
  encode(&none, 1, &levels.back()); // a last number without a neighbour
  for (size_t begin = 0; begin < numbers.size(); begin += static_cast<size_t>(block)) {
    const auto count = std::min(static_cast<size_t>(block), numbers.size() - begin);
    made.tops.push_back(
        encode(numbers.data() + begin, static_cast<int64_t>(count), levels.data() + begin));
  }
  for (size_t i = 0; i < levels.size(); i += 2)
    made.pairs.push_back(static_cast<uint8_t>(levels[i] << 4 | levels[i + 1]));
  return made;
}

Bits4Matrix::Form Bits4Matrix::form_of(const Json& state, const std::string& name) {
  constexpr int64_t kLargest = int64_t{1} << 40;
  Form form;
  try {
    const auto type = state.at("quant_type").get<std::string>();
    if (type != "nf4" && type != "fp4")
      fail_with_hint("nf4 and fp4 are read", Code::unimplemented, "{}: quant_type is {}", name,
                     type.substr(0, 40));
    form.format = &weight_format(type);
    form.block = state.at("blocksize").get<int64_t>();
    const auto dims = state.at("shape").get<std::vector<int64_t>>();
    int64_t count = 1;
    for (const int64_t dim : dims) {
      if (dim < 1 || dim > kLargest / count) fail(Code::data_loss, "{}: shape is damaged", name);
      count *= dim;
    }
    form.shape = Shape(dims);
    form.has_codes = state.contains("nested_blocksize");
    if (form.has_codes) {
      form.group = state.at("nested_blocksize").get<int64_t>();
      form.offset = state.at("nested_offset").get<float>();
    }
  } catch (const nlohmann::json::exception& error) {
    fail(Code::data_loss, "{}: {}", name, error.what());
  }
  const auto is_block = [](int64_t block) {
    return block >= 2 && block <= (1 << 20) && block % 2 == 0;
  };
  if (!is_block(form.block) || !is_block(form.group) || form.shape.rank() != 2)
    fail(Code::data_loss, "{}: blocksize {} and shape {} do not fit", name, form.block,
         form.shape.text());
  return form;
}

Bits4Matrix::Bits4Matrix(Form form, std::string name, Tensor pairs, Tensor tops, Tensor groups,
                         const Tensor& levels, const Tensor& map)
    : form_(std::move(form)), name_(std::move(name)), pairs_(std::move(pairs)),
      tops_(std::move(tops)), groups_(std::move(groups)) {
  const int64_t count = form_.shape.count(), blocks = (count + form_.block - 1) / form_.block;
  const auto expect = [&](const Tensor& tensor, DType dtype, int64_t size, const char* what) {
    if (tensor.defined() && tensor.dtype() == dtype && tensor.count() == size) return;
    fail(Code::data_loss, "{}: {} has {} numbers{}, expected {} of {}", name_, what,
         tensor.defined() ? tensor.count() : 0, tensor.defined() ? "" : " (it is missing)", size,
         dtype_name(dtype));
  };
  expect(pairs_, DType::u8, (count + 1) / 2, "the matrix");
  expect(tops_, form_.has_codes ? DType::u8 : DType::f32, blocks, "absmax");
  expect(levels, DType::f32, 16, "quant_map");
  if (!std::ranges::equal(levels.as<float>(), bits4_levels(*form_.format)))
    fail_with_hint("quant_map of bitsandbytes is read", Code::unimplemented,
                   "{}: quant_map has other levels than {}", name_, form_.format->name);
  if (!form_.has_codes) return;
  expect(groups_, DType::f32, (blocks + form_.group - 1) / form_.group, "nested_absmax");
  expect(map, DType::f32, 256, "nested_quant_map");
  map_.assign(map.as<float>().begin(), map.as<float>().end());
}

bool Bits4Matrix::has_block_rows() const {
  return form_.shape.dim(-1) % kOwnBlock == 0 && form_.block % kOwnBlock == 0;
}

int Bits4Matrix::level(int64_t i) const {
  return pairs_.as<uint8_t>()[static_cast<size_t>(i / 2)] >> (i % 2 == 0 ? 4 : 0) & 15;
}

float Bits4Matrix::top(int64_t block) const {
  const auto at = static_cast<size_t>(block);
  if (!form_.has_codes) return tops_.as<float>()[at];
  return map_[tops_.as<uint8_t>()[at]] *
             groups_.as<float>()[at / static_cast<size_t>(form_.group)] +
         form_.offset;
}

void Bits4Matrix::read_blocks(const Box& box, std::byte* to, const Task* task) const {
  using Block = formats::Bits4Block<formats::kNf4Levels>; // blocks of both formats are alike
  auto* block = reinterpret_cast<uint8_t*>(to);
  const BoxRuns runs(form_.shape, box);
  uint8_t levels[kOwnBlock];
  for (int64_t run = 0; run < runs.count(); ++run) {
    if (run % 64 == 0) check_task(task);
    const int64_t begin = runs.begin(run), end = begin + runs.length();
    for (int64_t first = begin; first < end; first += kOwnBlock, block += Block::kBytes) {
      for (int64_t i = 0; i < kOwnBlock; ++i) levels[i] = static_cast<uint8_t>(level(first + i));
      Block::store(top(first / form_.block), levels, block);
    }
  }
}

void Bits4Matrix::read_numbers(const Box& box, float* to, const Task* task) const {
  const std::span<const float, 16> levels = bits4_levels(*form_.format);
  const BoxRuns runs(form_.shape, box);
  for (int64_t run = 0; run < runs.count(); ++run) {
    if (run % 64 == 0) check_task(task);
    const int64_t begin = runs.begin(run), end = begin + runs.length();
    for (int64_t i = begin; i < end; ++i)
      *to++ = levels[static_cast<size_t>(level(i))] * top(i / form_.block);
  }
}

} // namespace dllm::ckpt
