// Widens weights in blocks with plain operations, for engines that do not multiply the codes
// themselves. A product reads the codes of its matrix and widens them right there. So no wide copy
// of a model is stored. The files of tensor/formats define the bytes.

#include "graph/ops/build.h"

#include "base/error.h"
#include "base/named_table.h"
#include "tensor/formats/levels.h"

#include <vector>

namespace dllm::graph::ops {
namespace {

Value word(Value like, int32_t value) {
  return scalar_i32(*like.graph, value);
}

Value bits_and(Value x, int32_t mask) {
  return logical_and(x, word(x, mask));
}

Value right(Value x, int32_t bits) {
  return shift_right_logical(x, word(x, bits));
}

Value left(Value x, int32_t bits) {
  return shift_left(x, word(x, bits));
}

// The bytes of all blocks of a weight, u8(blocks, bytes of a block).
class BlockBytes {
public:
  explicit BlockBytes(Value bytes) : bytes_(bytes) {}

  // Returns bytes as i32(blocks, shape..).
  Value part(int64_t begin, const Shape& shape) const {
    return convert(raw(begin, shape), DType::i32);
  }
  // Returns bytes as signed numbers f32(blocks, shape..).
  Value integers(int64_t begin, const Shape& shape) const {
    return convert(bitcast(raw(begin, shape), DType::i8), DType::f32);
  }
  // Returns words of four bytes, i32(blocks, shape..). The last axis of `shape` is 1.
  Value words(int64_t begin, const Shape& shape) const {
    const Value low = logical_or(part(begin, shape), left(part(begin + 1, shape), 8));
    const Value high = logical_or(part(begin + 2, shape), left(part(begin + 3, shape), 8));
    return logical_or(low, left(high, 16));
  }
  // Return the number of f32, or of f16, that begins at a byte: f32(blocks, 1, .., 1) with `rank`
  // axes.
  Value single(int64_t begin, int64_t rank) const {
    return bitcast(words(begin, ones(rank)), DType::f32);
  }
  Value half(int64_t begin, int64_t rank) const;

private:
  static Shape ones(int64_t rank) {
    return Shape(std::vector<int64_t>(static_cast<size_t>(rank - 1), 1));
  }
  Value raw(int64_t begin, const Shape& shape) const {
    std::vector<int64_t> dims{bytes_.dim(0)};
    dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
    return reshape(slice_axis(bytes_, 1, begin, begin + shape.count()), Shape(std::move(dims)));
  }

  Value bytes_;
};

// The exponents of f32 begin 112 lower than those of f16. Compilers may flush denormal f32 to 0, so
// a denormal f16 is made of its integer.
Value BlockBytes::half(int64_t begin, int64_t rank) const {
  const Value bits = logical_or(part(begin, ones(rank)), left(part(begin + 1, ones(rank)), 8));
  const Value mantissa = bits_and(bits, 1023), exponent = bits_and(right(bits, 10), 31);
  const Value wide =
      select(equal(exponent, word(bits, 31)), full_like(bits, 255), add(exponent, word(bits, 112)));
  const Value normal = bitcast(logical_or(left(wide, 23), left(mantissa, 13)), DType::f32);
  const Value denormal = multiply(convert(mantissa, DType::f32), scalar(*bits.graph, 0x1p-24f));
  const Value size = select(equal(exponent, word(bits, 0)), denormal, normal);
  return select(greater(bits, word(bits, 0x7fff)), negate(size), size);
}

// Returns the numbers 0, step, 2 step, .. along `axis` of `rank` axes; other axes have extent 1.
Value shifts(Graph& graph, int64_t rank, int64_t axis, int64_t count, int32_t step) {
  std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
  dims[static_cast<size_t>(axis)] = count;
  const Value index = iota(graph, Shape(std::move(dims)), DType::i32, axis);
  return multiply(index, scalar_i32(graph, step));
}

// Returns the codes of `bytes` bytes, i32(blocks, 2, bytes): the low halves and then the high ones.
Value nibbles(const BlockBytes& block, int64_t begin, int64_t bytes) {
  const Value packed = block.part(begin, Shape{1, bytes});
  return bits_and(shift_right_logical(packed, shifts(*packed.graph, 3, 1, 2, 4)), 15);
}

// Returns 16 times the fifth bits of 32 numbers, i32(blocks, 2, 16). Bit i is for number i.
Value fifth_bits(const BlockBytes& block, int64_t begin) {
  const Value bits = block.words(begin, Shape{1, 1});
  Graph& graph = *bits.graph;
  const Value place = add(shifts(graph, 3, 1, 2, 16), shifts(graph, 3, 2, 16, 1));
  return left(bits_and(shift_right_logical(bits, place), 1), 4);
}

Value from_code(Value code, int32_t middle) {
  return convert(middle == 0 ? code : subtract(code, word(code, middle)), DType::f32);
}

// Returns the levels of codes. A tree of 15 choices runs on vector units; a table in memory would
// be read number by number.
template <class Level> Value levels_of(Value code, const Level (&levels)[16]) {
  std::vector<Value> chosen;
  for (const Level level : levels) chosen.push_back(scalar(*code.graph, static_cast<float>(level)));
  for (int32_t bit = 1; bit < 16; bit *= 2) {
    const Value is_set = not_equal(bits_and(code, bit), word(code, 0));
    std::vector<Value> next;
    for (size_t i = 0; i < chosen.size(); i += 2) {
      next.push_back(select(is_set, broadcast(chosen[i + 1], code.shape()),
                            broadcast(chosen[i], code.shape())));
    }
    chosen = std::move(next);
  }
  return chosen[0];
}

// --- one function for each format or family of formats. The result is f32(blocks, ..) in the order
// of the numbers ---

Value widen_f16(const BlockBytes& block) {
  return block.half(0, 2);
}

template <const float (&kLevels)[16]> Value widen_bits4(const BlockBytes& block) {
  return multiply(levels_of(nibbles(block, 4, 32), kLevels), block.single(0, 3));
}

Value widen_q8_0(const BlockBytes& block) {
  return multiply(block.half(0, 2), block.integers(2, Shape{32}));
}

Value widen_q4_0(const BlockBytes& block) {
  return multiply(block.half(0, 3), from_code(nibbles(block, 2, 16), 8));
}

Value widen_q4_1(const BlockBytes& block) {
  const Value levels = from_code(nibbles(block, 4, 16), 0);
  return add(multiply(block.half(0, 3), levels), block.half(2, 3));
}

Value widen_q5_0(const BlockBytes& block) {
  const Value code = logical_or(nibbles(block, 6, 16), fifth_bits(block, 2));
  return multiply(block.half(0, 3), from_code(code, 16));
}

Value widen_q5_1(const BlockBytes& block) {
  const Value code = logical_or(nibbles(block, 8, 16), fifth_bits(block, 4));
  return add(multiply(block.half(0, 3), from_code(code, 0)), block.half(2, 3));
}

Value widen_iq4_nl(const BlockBytes& block) {
  return multiply(block.half(0, 3), levels_of(nibbles(block, 2, 16), formats::kIq4Levels));
}

// The scale is half of the power of two.
Value widen_mxfp4(const BlockBytes& block) {
  const Value e = block.part(0, Shape{1, 1});
  const Value low = shift_left(full_like(e, 0x00200000), e);
  const Value bits = select(less(e, word(e, 2)), low, left(subtract(e, word(e, 1)), 23));
  return multiply(bitcast(bits, DType::f32),
                  levels_of(nibbles(block, 1, 16), formats::kE2m1Doubled));
}

// q4_k and q5_k: group 2c + h is the halves h of 32 bytes. The codes are i32(blocks, 4, 2, 32).
Value widen_groups(const BlockBytes& block, Value code) {
  const Shape four{4, 1, 1};
  const Value first = block.part(4, four), second = block.part(8, four),
              third = block.part(12, four);
  const auto joined = [](Value low, Value high) {
    return reshape(concat({low, high}, 1), Shape{low.dim(0), 4, 2, 1});
  };
  const auto with_top = [](Value low, Value top) {
    return logical_or(low, left(right(top, 6), 4));
  };
  const Value scale = joined(bits_and(first, 63), with_top(bits_and(third, 15), first));
  const Value minimum = joined(bits_and(second, 63), with_top(right(third, 4), second));
  const Value step = multiply(block.half(0, 4), convert(scale, DType::f32));
  const Value least = multiply(block.half(2, 4), convert(minimum, DType::f32));
  return subtract(multiply(step, convert(code, DType::f32)), least);
}

Value group_nibbles(const BlockBytes& block, int64_t begin) {
  const Value packed = block.part(begin, Shape{4, 1, 32});
  return bits_and(shift_right_logical(packed, shifts(*packed.graph, 4, 2, 2, 4)), 15);
}

Value widen_q4_k(const BlockBytes& block) {
  return widen_groups(block, group_nibbles(block, 16));
}

// Bit j of byte i is the fifth bit of number i of group j.
Value widen_q5_k(const BlockBytes& block) {
  const Value bytes = block.part(16, Shape{1, 1, 32});
  Graph& graph = *bytes.graph;
  const Value group = add(shifts(graph, 4, 1, 4, 2), shifts(graph, 4, 2, 2, 1));
  const Value fifth = left(bits_and(shift_right_logical(bytes, group), 1), 4);
  return widen_groups(block, logical_or(group_nibbles(block, 48), fifth));
}

// Part p of half h has its low bits in half p / 2 of the 32 bytes p % 2 of half h. Its high bits
// are the pairs p of the 32 bytes of half h. Codes have axes blocks, h, p / 2, p % 2, numbers.
Value widen_q6_k(const BlockBytes& block) {
  const Value low = block.part(0, Shape{2, 1, 2, 32}), high = block.part(128, Shape{2, 1, 1, 32});
  Graph& graph = *low.graph;
  const Value low_bits = bits_and(shift_right_logical(low, shifts(graph, 5, 2, 2, 4)), 15);
  const Value pair = add(shifts(graph, 5, 2, 2, 4), shifts(graph, 5, 3, 2, 2));
  const Value high_bits = left(bits_and(shift_right_logical(high, pair), 3), 4);
  const Value code = from_code(logical_or(low_bits, high_bits), 32);
  const Value scale = multiply(block.half(208, 3), block.integers(192, Shape{16, 1}));
  return multiply(scale, reshape(code, Shape{code.dim(0), 16, 16}));
}

struct PlainForm {
  const char* format;
  Value (*widen)(const BlockBytes&);
};

constexpr PlainForm kPlainForms[] = {
    {"f16", widen_f16},
    {"q8_0", widen_q8_0},
    {"q4_0", widen_q4_0},
    {"q4_1", widen_q4_1},
    {"q5_0", widen_q5_0},
    {"q5_1", widen_q5_1},
    {"q4_k", widen_q4_k},
    {"q5_k", widen_q5_k},
    {"q6_k", widen_q6_k},
    {"iq4_nl", widen_iq4_nl},
    {"mxfp4", widen_mxfp4},
    {"nf4", widen_bits4<formats::kNf4Levels>},
    {"fp4", widen_bits4<formats::kFp4Levels>},
};

} // namespace

Value widen_blocks(const WeightFormat& format, Value bytes) {
  const PlainForm* const form = find_named(kPlainForms, format.name, &PlainForm::format);
  if (form == nullptr)
    fail(Code::internal, "weight format {} has no row in graph/ops/widen_blocks.cpp", format.name);
  const Shape numbers = number_shape(&format, bytes.shape());
  const int64_t blocks = bytes.shape().count() / format.block_bytes;
  const Value flat = reshape(bytes, Shape{blocks, format.block_bytes});
  return reshape(form->widen(BlockBytes(flat)), numbers);
}

} // namespace dllm::graph::ops
