#include "noise/rows/canvas_rows.h"

#include "base/error.h"

#include <algorithm>

namespace dllm::noise {

Answer answer_of(const TokenRows& rows, int64_t row) {
  Answer made;
  bool found = false;
  for (int64_t i = 0; i < rows.seq; ++i) {
    const int64_t at = row * rows.seq + i;
    const int32_t segment = rows.segments.empty() ? 1 : rows.segments[static_cast<size_t>(at)];
    if (segment > 1) {
      fail_with_hint("set the loader option pack to false", Code::invalid_argument,
                     "row {} holds several texts, objective diffusion_gemma takes one text per row",
                     row);
    }
    if (segment == 1) made.text = i + 1;
    if (!rows.trainable(at)) continue;
    if (!found) made.begin = i;
    found = true;
    made.end = i + 1;
  }
  return made;
}

CanvasDraws canvas_draws(const TokenRows& rows, int64_t block, const Batch& batch,
                         const TimeSampler& times, uint64_t seed, int64_t step) {
  const auto global = batch.global_rows(rows.batch);
  CanvasDraws made;
  made.time = times.draws(rows.batch, 1, global, seed, step);
  for (int64_t b = 0; b < rows.batch; ++b) {
    const Key key = stream_key(seed, Stream::mask, static_cast<uint64_t>(step),
                               static_cast<uint64_t>(global.first + b));
    uint64_t next = 0;
    const auto uniform = [&] { return uniform_from_bits(random_bits_at(key, next++)); };
    made.block.push_back(uniform());
    made.coin.push_back(uniform());
    for (int64_t i = 0; i < rows.seq + block; ++i) {
      made.mask.push_back(uniform());
      made.token.push_back(uniform());
    }
  }
  inject_draws(batch, "u_t", made.time);
  inject_draws(batch, "u_block", made.block);
  inject_draws(batch, "u_condition", made.coin);
  inject_draws(batch, "u_mask", made.mask);
  inject_draws(batch, "u_token", made.token);
  return made;
}

CanvasRows::CanvasRows(const TokenRows& rows, int64_t block)
    : ids(DType::i32, {rows.batch, rows.seq + block}), targets(DType::i32, ids.shape()),
      weights(DType::f32, ids.shape()), positions(DType::i32, ids.shape()),
      keys(DType::u8, ids.shape()), normalizer(DType::f32, {rows.batch}),
      t(DType::f32, {rows.batch}), context(DType::i32, {rows.batch}),
      conditioned(DType::f32, {rows.batch}) {
  const int64_t seq = rows.seq, all = seq + block;
  std::ranges::fill(targets.mutable_as<int32_t>(), -1);
  for (int64_t b = 0; b < rows.batch; ++b) {
    const auto from = rows.ids.subspan(static_cast<size_t>(b * seq), static_cast<size_t>(seq));
    std::ranges::copy(from, ids.mutable_as<int32_t>().begin() + b * all);
    for (int64_t i = 0; i < seq; ++i) {
      const auto at = static_cast<size_t>(b * seq + i), to = static_cast<size_t>(b * all + i);
      positions.mutable_as<int32_t>()[to] = static_cast<int32_t>(i);
      keys.mutable_as<uint8_t>()[to] = rows.segments.empty() || rows.segments[at] != 0 ? 1 : 0;
    }
  }
}

void CanvasRows::train_text(const TokenRows& rows, int64_t row, const Answer& answer,
                            double weight) {
  if (weight == 0 || answer.text < 2) return;
  const int64_t all = ids.shape()[1];
  for (int64_t i = 0; i + 1 < answer.text; ++i) {
    const auto to = static_cast<size_t>(row * all + i);
    targets.mutable_as<int32_t>()[to] = rows.ids[static_cast<size_t>(row * rows.seq + i + 1)];
    weights.mutable_as<float>()[to] =
        static_cast<float>(weight / static_cast<double>(answer.text - 1));
  }
}

int64_t CanvasRows::fill_canvas(const TokenRows& rows, int64_t row, const Answer& answer,
                                const CanvasDraws& draws, const CanvasNoise& noise) {
  const int64_t all = ids.shape()[1], block = all - rows.seq;
  const int64_t blocks = (answer.end - answer.begin + block - 1) / block;
  if (blocks == 0) return 0;
  const auto b = static_cast<size_t>(row);
  const int64_t chosen =
      std::min(static_cast<int64_t>(draws.block[b] * static_cast<double>(blocks)), blocks - 1);
  const int64_t begin = answer.begin + chosen * block;
  const double time = t.as<float>()[b];
  context.mutable_as<int32_t>()[b] = static_cast<int32_t>(begin);
  int64_t counted = 0;
  for (int64_t j = 0; j < block; ++j) {
    const int64_t place = begin + j;
    if (place >= answer.end && noise.fill < 0) break;
    const int64_t at = row * rows.seq + place;
    const auto draw = static_cast<size_t>(row * all + place),
               to = static_cast<size_t>(row * all + rows.seq + j);
    const bool filled = place >= answer.end;
    const int32_t clean =
        filled ? static_cast<int32_t>(noise.fill) : rows.ids[static_cast<size_t>(at)];
    const bool trained = filled || rows.trainable(at);
    const bool noised = trained && draws.mask[draw] < time;
    const auto drawn = static_cast<int32_t>(
        std::min(static_cast<int64_t>(draws.token[draw] * static_cast<double>(noise.vocab)),
                 noise.vocab - 1));
    ids.mutable_as<int32_t>()[to] = noised ? drawn : clean;
    positions.mutable_as<int32_t>()[to] = static_cast<int32_t>(place);
    keys.mutable_as<uint8_t>()[to] = 1;
    if (!trained) continue; // given inside of an answer: stays clean
    targets.mutable_as<int32_t>()[to] = clean;
    weights.mutable_as<float>()[to] = 1;
    ++counted;
  }
  return counted;
}

} // namespace dllm::noise
