#include "ckpt/bitsandbytes/bits4.h"

#include "base/error.h"
#include "base/named_table.h"
#include "base/word_list.h"
#include "tensor/formats/bits4.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

namespace dllm::ckpt {
namespace {

constexpr int64_t kOwnBlock = 64; // of the weight formats
constexpr int64_t kBlocksBetweenChecks = 512;
// Endings of the names of tensors.
constexpr const char *kTops = ".absmax", *kLevels = ".quant_map", *kGroups = ".nested_absmax",
                     *kMap = ".nested_quant_map";

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

std::vector<const WeightFormat*> bits4_formats() {
  std::vector<const WeightFormat*> found;
  for (const WeightFormat* format : weight_formats()) {
    if (format->bitsandbytes != nullptr) found.push_back(format);
  }
  return found;
}

} // namespace

std::string bits4_names(const char* word) {
  return word_list(names_of(bits4_formats(), &WeightFormat::name), word);
}

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
  return *format.bitsandbytes;
}

Bits4Codes bits4_codes(const WeightFormat& format, std::span<const float> numbers, int64_t block,
                       const Workers& workers) {
  constexpr int64_t kChunk = int64_t{1} << 15; // numbers, about; whole blocks
  const std::span<const float, 16> values = bits4_levels(format);
  const formats::NearestFloat nearest(values);
  const auto count = std::ssize(numbers);
  const int64_t step = std::max<int64_t>(1, kChunk / block) * block;
  Bits4Codes made;
  made.pairs.resize(static_cast<size_t>((count + 1) / 2));
  made.tops.resize(static_cast<size_t>((count + block - 1) / block));
  std::vector<double> errors(static_cast<size_t>((count + step - 1) / step));
  parallel(workers, std::ssize(errors), [&](int64_t chunk) {
    const int64_t first = chunk * step, end = std::min(count, first + step);
    std::vector<uint8_t> levels(static_cast<size_t>(step));
    double& error = errors[static_cast<size_t>(chunk)];
    for (int64_t begin = first; begin < end; begin += block) {
      const int64_t own = std::min(block, end - begin);
      const float* x = numbers.data() + begin;
      uint8_t* codes = levels.data() + (begin - first);
      const float top = made.tops[static_cast<size_t>(begin / block)] =
          formats::encode_bits4(nearest, x, own, codes);
      for (int64_t i = 0; i < own && top > 0; ++i)
        error = std::max(error, std::abs(double{values[codes[i]] * top} - x[i]) / top);
    }
    const float none = 0; // next to a last number without a neighbour
    if (end % 2 != 0)
      formats::encode_bits4(nearest, &none, 1, &levels[static_cast<size_t>(end - first)]);
    for (int64_t i = first; i < end; i += 2) {
      const uint8_t* pair = &levels[static_cast<size_t>(i - first)];
      made.pairs[static_cast<size_t>(i / 2)] = static_cast<uint8_t>(pair[0] << 4 | pair[1]);
    }
  });
  for (const double error : errors) made.error = std::max(made.error, error);
  return made;
}

Bits4Form Bits4Form::of(const Json& state, const std::string& name) {
  constexpr int64_t kLargest = int64_t{1} << 40;
  Bits4Form form;
  try {
    const auto type = state.at("quant_type").get<std::string>();
    form.format = find_weight_format(type);
    if (form.format == nullptr || form.format->bitsandbytes == nullptr)
      fail_with_hint(bits4_names("and") + " are read", Code::unimplemented, "{}: quant_type is {}",
                     name, type.substr(0, 40));
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
  const auto is_block = [](int64_t size) {
    return size >= 2 && size <= (1 << 20) && size % 2 == 0;
  };
  if (!is_block(form.block) || !is_block(form.group) || form.shape.rank() != 2)
    fail(Code::data_loss, "{}: blocksize {} and shape {} do not fit", name, form.block,
         form.shape.text());
  return form;
}

Json Bits4Form::to_json() const {
  Json made = {{"quant_type", format->name},
               {"blocksize", block},
               {"dtype", "float32"},
               {"shape", shape.dims()}};
  if (!has_codes) return made;
  made["nested_blocksize"] = group;
  made["nested_dtype"] = "float32";
  made["nested_offset"] = offset;
  return made;
}

std::vector<Bits4Form::Part> Bits4Form::parts() const {
  const int64_t count = shape.count(), blocks = (count + block - 1) / block;
  std::vector<Part> made = {{"", DType::u8, {(count + 1) / 2, 1}},
                            {kTops, has_codes ? DType::u8 : DType::f32, {blocks}},
                            {kLevels, DType::f32, {16}}};
  if (!has_codes) return made;
  made.push_back({kGroups, DType::f32, {(blocks + group - 1) / group}});
  made.push_back({kMap, DType::f32, {256}});
  return made;
}

std::string Bits4Form::state_ending() const {
  return std::string(kBits4State) + format->name;
}

bool Bits4Form::has_block_rows() const {
  return shape.dim(-1) % kOwnBlock == 0 && block % kOwnBlock == 0;
}

Bits4Matrix::Bits4Matrix(const Bits4Form& form, const std::string& name, const Box& box,
                         const Read& read)
    : form_(form), box_(box) {
  const BoxRuns runs(form_.shape, box_);
  const int64_t last = runs.count() - 1;
  first_pair_ = runs.begin(0) / 2;
  const int64_t end_pair = (runs.begin(last) + runs.length() + 1) / 2;
  pairs_ = read("", {{first_pair_, 0}, {end_pair - first_pair_, 1}});
  for (const Bits4Form::Part& part : form_.parts()) {
    const std::string_view ending = part.ending;
    if (ending.empty()) continue;
    const Tensor values = read(part.ending, Box::whole(part.shape));
    if (ending == kTops) tops_ = values;
    if (ending == kGroups) groups_ = values;
    if (ending == kMap) map_ = values;
    if (ending == kLevels && !std::ranges::equal(values.as<float>(), bits4_levels(*form_.format)))
      fail_with_hint("quant_map of bitsandbytes is read", Code::unimplemented,
                     "{}: quant_map has other levels than {}", name, form_.format->name);
  }
}

int Bits4Matrix::level(int64_t i) const {
  return pairs_.as<uint8_t>()[static_cast<size_t>(i / 2 - first_pair_)] >> (i % 2 == 0 ? 4 : 0) &
         15;
}

float Bits4Matrix::top(int64_t block) const {
  const auto at = static_cast<size_t>(block);
  if (!form_.has_codes) return tops_.as<float>()[at];
  return map_.as<float>()[tops_.as<uint8_t>()[at]] *
             groups_.as<float>()[at / static_cast<size_t>(form_.group)] +
         form_.offset;
}

void Bits4Matrix::read_blocks(std::byte* to, const Task* task) const {
  using Block = formats::Bits4Block<formats::kNf4Levels>; // all blocks of 4 bits are alike
  auto* block = reinterpret_cast<uint8_t*>(to);
  const BoxRuns runs(form_.shape, box_);
  uint8_t levels[kOwnBlock];
  int64_t done = 0;
  for (int64_t run = 0; run < runs.count(); ++run) {
    const int64_t begin = runs.begin(run), end = begin + runs.length();
    for (int64_t first = begin; first < end; first += kOwnBlock, block += Block::kBytes) {
      if (done++ % kBlocksBetweenChecks == 0) check_task(task);
      for (int64_t i = 0; i < kOwnBlock; ++i) levels[i] = static_cast<uint8_t>(level(first + i));
      Block::store(top(first / form_.block), levels, block);
    }
  }
}

void Bits4Matrix::read_numbers(float* to, const Task* task) const {
  const std::span<const float, 16> levels = bits4_levels(*form_.format);
  const BoxRuns runs(form_.shape, box_);
  int64_t done = 0;
  for (int64_t run = 0; run < runs.count(); ++run) {
    const int64_t begin = runs.begin(run), end = begin + runs.length();
    for (int64_t i = begin; i < end; ++i) {
      if (done++ % (kOwnBlock * kBlocksBetweenChecks) == 0) check_task(task);
      *to++ = levels[static_cast<size_t>(level(i))] * top(i / form_.block);
    }
  }
}

} // namespace dllm::ckpt
