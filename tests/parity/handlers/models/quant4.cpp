// torch/quant4: matrices of bitsandbytes in 4 bits, with plain and with coded scales, and its
// dynamic codes of 8 bits.

#include "ckpt/bitsandbytes/bits4.h"
#include "handlers.h"
#include "model/params/param_map.h"
#include "runner.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::parity {
namespace {

Tensor bytes_of(const std::vector<uint8_t>& values) {
  return Tensor::from(Shape{std::ssize(values)}, std::span<const uint8_t>(values));
}
Tensor floats_of(const std::vector<float>& values) {
  return Tensor::from(Shape{std::ssize(values)}, std::span<const float>(values));
}
Tensor flat(const Tensor& tensor) {
  return tensor.reshaped(Shape{tensor.count()});
}

// bitsandbytes chooses among its two zeros by the sign of a number.
std::vector<uint8_t> with_one_zero(std::vector<uint8_t> pairs) {
  for (uint8_t& pair : pairs) {
    if (pair >> 4 == 8) pair &= 0x0F;
    if ((pair & 15) == 8) pair &= 0xF0;
  }
  return pairs;
}

void check_pairs(Case& c, const std::string& type, const std::vector<uint8_t>& pairs) {
  const auto golden = c.array("packed").as<uint8_t>();
  const std::vector<uint8_t> wanted(golden.begin(), golden.end());
  if (type == "nf4")
    c.equal(bytes_of(pairs), bytes_of(wanted), "packed");
  else
    c.equal(bytes_of(with_one_zero(pairs)), bytes_of(with_one_zero(wanted)), "packed");
}

// The codes are equal, except where two codes are as near but for the rounding of bitsandbytes,
// which finds a code by a table of about 10^5 places. The goldens leave such ties open.
void check_codes(Case& c, std::span<const float> numbers, const ckpt::DynamicCodes& made,
                 int64_t block, const Tensor& golden, const std::string& what) {
  constexpr double kTie = 2e-5;
  const auto& map = ckpt::dynamic_map();
  const auto wanted = golden.as<uint8_t>();
  c.equal(std::ssize(made.codes), golden.count(), what + ": codes");
  double worst = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const float top = made.tops[i / static_cast<size_t>(block)];
    const double x = top > 0 ? static_cast<double>(numbers[i]) / top : 0;
    worst = std::max(worst, std::abs(x - map[made.codes[i]]) - std::abs(x - map[wanted[i]]));
    if (made.codes[i] != wanted[i])
      c.close({kTie, 0}, std::abs(x - map[made.codes[i]]), std::abs(x - map[wanted[i]]), what);
  }
  c.close({1e-7, 0}, worst, 0, what + ": ours is the nearest code");
}

void run_bits4_case(Case& c, const Json& entry) {
  const auto type = entry.at("quant_type").get<std::string>();
  const auto block = entry.at("blocksize").get<int64_t>();
  const bool has_codes = entry.at("double_quant").get<bool>();
  const WeightFormat& format = weight_format(type);
  const Tensor& x = c.array("x");
  c.equal(Json(x.shape().dims()).dump(), entry.at("shape").dump(), "shape");

  const ckpt::Bits4Codes made = ckpt::bits4_codes(format, x.as<float>(), block);
  check_pairs(c, type, made.pairs);
  Json state = {{"quant_type", type},
                {"blocksize", block},
                {"shape", {x.count() / x.shape().dim(-1), x.shape().dim(-1)}}};
  Tensor tops, groups;
  if (!has_codes) {
    tops = floats_of(made.tops);
    c.equal(tops, flat(c.array("absmax")), "absmax");
  } else {
    const auto group = entry.at("state2_blocksize").get<int64_t>();
    float offset = 0;
    const ckpt::DynamicCodes codes = ckpt::coded_tops(made.tops, group, &offset);
    state["nested_blocksize"] = group;
    state["nested_offset"] = offset;
    const auto golden = c.array("absmax_q").as<uint8_t>();
    tops = bytes_of({golden.begin(), golden.end()}); // ties may differ
    groups = floats_of(codes.tops);
    c.close({1e-7, 1e-6}, offset, c.array("absmax_offset").as<float>()[0], "absmax_offset");
    std::vector<float> moved = made.tops;
    for (float& top : moved) top -= offset;
    check_codes(c, moved, codes, group, c.array("absmax_q"), "absmax_q");
    c.close({0, 1e-6}, groups, flat(c.array("absmax2")), "absmax2");
  }
  const auto form = ckpt::Bits4Form::of(state, "quant_state");
  const ckpt::Bits4Matrix matrix(
      form, "x", Box::whole(form.shape), [&](const char* ending, const Box&) {
        const std::string part = ending;
        if (part.empty()) return bytes_of(made.pairs);
        if (part == ".absmax") return tops;
        if (part == ".quant_map") return c.topic().array("code." + type);
        return part == ".nested_absmax" ? groups : c.array("dynamic_code");
      });
  Tensor numbers(DType::f32, form.shape);
  matrix.read_numbers(numbers.mutable_as<float>().data(), nullptr);
  const double largest = std::ranges::max(made.tops);
  c.close({1e-6 * largest, 0}, flat(numbers), flat(c.array("dequant")), "dequant");
  double worst = 0;
  for (size_t i = 0; i < x.as<float>().size(); ++i)
    worst =
        std::max(worst, std::abs(static_cast<double>(x.as<float>()[i]) - numbers.as<float>()[i]));
  c.close({1e-6 * largest, 1e-6}, worst, entry.at("max_err").get<double>(), "max_err");
  if (!form.has_block_rows()) return;
  Tensor blocks(DType::u8, stored_shape(format, form.shape));
  matrix.read_blocks(blocks.mutable_bytes(), nullptr);
  blocks.set_format(&format);
  c.equal(model::dequantize(blocks, {}), numbers, "blocks of the weight format");
}

void run_dynamic_case(Case& c, const Json& entry) {
  const auto block = entry.at("blocksize").get<int64_t>();
  const Tensor& x = c.array("x");
  const ckpt::DynamicCodes codes = ckpt::dynamic_codes(x.as<float>(), block);
  const auto& map = ckpt::dynamic_map();
  c.close({1e-9, 1e-6}, Tensor::from(Shape{256}, std::span<const float>(map)), c.array("code"),
          "code");
  check_codes(c, x.as<float>(), codes, block, c.array("q"), "q");
  c.equal(floats_of(codes.tops), flat(c.array("absmax")), "absmax");
  // Numbers of the golden codes, since ties may differ.
  const auto golden = c.array("q").as<uint8_t>();
  const ckpt::DynamicCodes read{{golden.begin(), golden.end()}, codes.tops};
  Tensor numbers(DType::f32, x.shape());
  for (int64_t i = 0; i < x.count(); ++i)
    numbers.mutable_as<float>()[static_cast<size_t>(i)] = ckpt::dynamic_number(read, block, i);
  c.close({1e-6, 1e-6}, numbers, c.array("dequant"), "dequant");
}

} // namespace

void run_quant4(Topic& topic) {
  for (const Json& entry : topic.list("cases")) {
    topic.run(entry, [&](Case& c) {
      if (entry.at("quant_type") == "dynamic 8-bit map")
        run_dynamic_case(c, entry);
      else
        run_bits4_case(c, entry);
    });
  }
}

} // namespace dllm::parity
