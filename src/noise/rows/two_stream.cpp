#include "noise/rows/two_stream.h"

#include "base/error.h"
#include "noise/loss/token_ce.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace dllm::noise {
namespace {

// Returns each row of `first` with the same row of `second` after it.
template <class T> Tensor side_by_side(const Tensor& first, const Tensor& second) {
  const int64_t batch = first.shape()[0], seq = first.shape()[1];
  Tensor made(first.dtype(), {batch, 2 * seq});
  const auto out = made.mutable_as<T>();
  const auto row = static_cast<size_t>(seq);
  for (size_t b = 0; b < static_cast<size_t>(batch); ++b) {
    std::ranges::copy(first.as<T>().subspan(b * row, row), out.subspan(2 * b * row).begin());
    std::ranges::copy(second.as<T>().subspan(b * row, row), out.subspan((2 * b + 1) * row).begin());
  }
  return made;
}

Tensor counted_positions(int64_t batch, int64_t seq) {
  Tensor positions(DType::i32, {batch, seq});
  const auto out = positions.mutable_as<int32_t>();
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<int32_t>(i % static_cast<size_t>(seq));
  return positions;
}

} // namespace

Batch two_streams(const TokenCeArrays& made, const Batch& source, bool padding_hidden) {
  if (source.has("mask")) {
    fail_with_hint("leave array mask out", Code::invalid_argument,
                   "rows of two streams have their own attention mask, array mask cannot be given");
  }
  const Shape shape = made.ids.shape();
  const Tensor clean = source.at("ids").to(DType::i32);
  Tensor none(DType::i32, shape);
  std::ranges::fill(none.mutable_as<int32_t>(), -1);
  Batch rows = source;
  for (const char* name : {"keep", "labels", "keys", "segments", "positions"}) rows.remove(name);
  rows.set("ids", side_by_side<int32_t>(made.ids, clean));
  rows.set("targets", side_by_side<int32_t>(made.targets, none));
  rows.set("weights", side_by_side<float>(made.weights, Tensor(DType::f32, shape)));
  rows.set("normalizer", made.normalizer);
  rows.set("t", made.t);
  const Tensor* given = source.find("positions");
  const Tensor positions =
      given != nullptr ? given->to(DType::i32) : counted_positions(shape[0], shape[1]);
  rows.set("positions", side_by_side<int32_t>(positions, positions));
  if (!padding_hidden) return rows;
  if (const Tensor* segments = source.find("segments"))
    rows.set("segments", side_by_side<int32_t>(segments->to(DType::i32), segments->to(DType::i32)));
  if (const Tensor* keys = source.find("keys"))
    rows.set("keys", side_by_side<uint8_t>(keys->to(DType::u8), keys->to(DType::u8)));
  return rows;
}

void add_next_tokens(Batch& prepared, const Batch& source, double weight, int shift) {
  const TokenRows rows = token_rows(source, 0, true);
  const int64_t seq = prepared.at("ids").shape()[1] / 2;
  const int64_t first = seq - rows.seq; // compat: the source lacks the first column
  Tensor limit(DType::i32, {rows.batch, 2 * seq});
  Tensor targets = prepared.at("targets").clone(), weights = prepared.at("weights").clone();
  const auto limits = limit.mutable_as<int32_t>(), target = targets.mutable_as<int32_t>();
  const auto of_target = weights.mutable_as<float>();
  for (int64_t row = 0; row < rows.batch; ++row) {
    for (int64_t i = 0; i < seq; ++i) {
      const int64_t noised = row * 2 * seq + i, clean = noised + seq,
                    token = row * rows.seq + i - first;
      limits[static_cast<size_t>(noised)] = static_cast<int32_t>(2 * seq);
      limits[static_cast<size_t>(clean)] = static_cast<int32_t>(seq + i + 1);
      if (weight == 0 || i < first || !rows.trainable(token)) continue;
      // The hidden state that predicts the token.
      const auto place = static_cast<size_t>(clean - 1 + shift);
      target[place] = rows.ids[static_cast<size_t>(token)];
      of_target[place] = static_cast<float>(weight);
    }
  }
  prepared.set("limit", std::move(limit));
  prepared.set("targets", std::move(targets));
  prepared.set("weights", std::move(weights));
}

namespace {

// "1000:16".
std::pair<int64_t, int64_t> step_and_length(const std::string& text) {
  std::pair<int64_t, int64_t> made{-1, -1};
  const char *begin = text.data(), *end = begin + text.size();
  const auto first = std::from_chars(begin, end, made.first);
  const bool two = first.ec == std::errc{} && first.ptr != end && *first.ptr == ':';
  const auto second = two ? std::from_chars(first.ptr + 1, end, made.second) : first;
  if (two && second.ec == std::errc{} && second.ptr == end && made.first >= 0 && made.second > 0 &&
      made.second <= 1 << 24)
    return made;
  fail_with_hint("write STEP:LENGTH, such as 0:4,1000:16", Code::invalid_argument,
                 "block_steps has '{}', expected STEP:LENGTH", text);
}

} // namespace

OptionSpec BlockSteps::option() {
  return option_list("block_steps", {},
                     "Block lengths from an update on, STEP:LENGTH with rising steps, such as "
                     "0:4,1000:16; empty: block_length all the time.");
}

BlockSteps::BlockSteps(const Options& options) {
  for (const std::string& text : options.list("block_steps")) {
    steps_.push_back(step_and_length(text));
    const auto count = steps_.size();
    if (count > 1 && steps_[count - 1].first <= steps_[count - 2].first) {
      fail(Code::invalid_argument, "block_steps has step {} after step {}, steps must rise",
           steps_[count - 1].first, steps_[count - 2].first);
    }
  }
}

PrepareContext BlockSteps::at(int64_t step, const PrepareContext& context) const {
  PrepareContext made = context;
  for (const auto& [from, length] : steps_) {
    if (step >= from || context.held_out) made.block_length = length;
  }
  return made;
}

void BlockSteps::note(Batch& prepared, const PrepareContext& context) const {
  if (!steps_.empty())
    prepared.set("block_length", Tensor::scalar(static_cast<int32_t>(context.block_length)));
}

int64_t needed_block_length(const Objective& objective, const PrepareContext& context) {
  if (context.block_length > 0) return context.block_length;
  fail_with_hint(
      "set block_length = 32 (--block-length 32), or \"dllm\": {\"block_length\"} in config.json",
      Code::failed_precondition,
      "objective {} needs a block length and neither the option nor the model has one",
      objective.name());
}

} // namespace dllm::noise
