#include "noise/rows/complement.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dllm::noise {
namespace {

// Returns the rows of x, then the rows of y.
Tensor stacked(const Tensor& x, const Tensor& y) {
  Tensor made(x.dtype(), x.shape().with_dim(0, x.shape()[0] + y.shape()[0]));
  std::memcpy(made.mutable_bytes(), x.bytes(), static_cast<size_t>(x.byte_size()));
  std::memcpy(made.mutable_bytes() + x.byte_size(), y.bytes(), static_cast<size_t>(y.byte_size()));
  return made;
}

struct Halves {
  Tensor ids, targets, weights; // (batch, 2 * seq)
  Tensor masked;                // f32(batch): masked tokens of each row
};

Halves complement_of(const Batch& prepared, const TokenRows& rows, int32_t mask) {
  Halves made{prepared.at("ids").clone(), prepared.at("targets").clone(),
              Tensor(DType::f32, prepared.at("weights").shape()), Tensor(DType::f32, {rows.batch})};
  const auto before = prepared.at("targets").as<int32_t>();
  const auto ids = made.ids.mutable_as<int32_t>(), targets = made.targets.mutable_as<int32_t>();
  std::ranges::fill(targets, -1);
  for (int64_t b = 0; b < rows.batch; ++b) {
    int64_t shown = 0; // tokens that the first mask leaves visible
    for (int64_t i = 0; i < rows.seq; ++i) {
      if (!rows.trainable(b * rows.seq + i)) continue;
      const auto at = static_cast<size_t>(2 * b * rows.seq + i);
      const int32_t clean = rows.ids[static_cast<size_t>(b * rows.seq + i)];
      if (before[at] >= 0) {
        ids[at] = clean;
        continue;
      }
      ids[at] = mask;
      targets[at] = clean;
      made.weights.mutable_as<float>()[at] = 1;
      ++shown;
    }
    made.masked.mutable_as<float>()[static_cast<size_t>(b)] = static_cast<float>(shown);
  }
  return made;
}

} // namespace

void add_complements(Batch& prepared, const TokenRows& rows, int32_t mask, bool counts_masked) {
  const Halves made = complement_of(prepared, rows, mask);
  Tensor normalizer = counts_masked ? stacked(prepared.at("normalizer"), made.masked)
                                    : stacked(prepared.at("normalizer"), prepared.at("normalizer"));
  if (!counts_masked) {
    for (float& count : normalizer.mutable_as<float>()) count /= 2;
  }
  Batch doubled;
  for (const auto& [name, array] : prepared) {
    const bool of_rows =
        array.shape().rank() > 0 && array.shape()[0] == rows.batch && name != "rows";
    const Tensor& other = name == "ids"       ? made.ids
                          : name == "targets" ? made.targets
                          : name == "weights" ? made.weights
                                              : array;
    doubled.set(name, of_rows ? stacked(array, other) : array);
  }
  doubled.set("normalizer", normalizer);
  prepared = std::move(doubled);
}

} // namespace dllm::noise
