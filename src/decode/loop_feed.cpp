#include "decode/loop_feed.h"

#include "decode/request/policy.h"

#include <algorithm>

namespace dllm::decode {
namespace {

// Arrays of a block, (rows, block); what no position belongs to is nowhere.
struct Blocks {
  std::vector<uint8_t> open, eligible;
  std::vector<int32_t> place, query, top_k;
  std::vector<float> temperature, top_p;

  Blocks(int64_t count, int64_t nowhere)
      : open(static_cast<size_t>(count), 0), eligible(open),
        place(open.size(), static_cast<int32_t>(nowhere)), query(open.size(), 0),
        top_k(open.size(), 0), temperature(open.size(), 0), top_p(open.size(), 1) {}
};

void put_block(Blocks& blocks, const LoopShape& shape, const StepSettings& settings, int64_t r,
               const LoopRow& row) {
  const LoopAsk& plan = *row.plan;
  const Slot& slot = *row.slot;
  const int64_t first = r * shape.pass.window - plan.ask.begin;
  for (int64_t position = std::max(plan.begin, plan.ask.begin); position < plan.end; ++position) {
    const auto at = static_cast<size_t>(r * shape.block + position - plan.begin);
    blocks.open[at] = slot.is_open(position) ? 1 : 0;
    blocks.place[at] = static_cast<int32_t>(first + position);
    blocks.query[at] =
        static_cast<int32_t>(first + predicting(position, settings.shift, plan.ask.begin));
    blocks.temperature[at] = slot.settings.temperature;
    blocks.top_k[at] = slot.settings.top_k;
    blocks.top_p[at] = slot.settings.top_p;
  }
  for (const int64_t position : plan.ask.positions)
    blocks.eligible[static_cast<size_t>(r * shape.block + position - plan.begin)] = 1;
}

void add_blocks(Batch& feed, const LoopShape& shape, const StepSettings& settings,
                std::span<const LoopRow> rows) {
  Blocks blocks(shape.places(), shape.pass.rows * shape.pass.window);
  for (size_t r = 0; r < rows.size(); ++r)
    put_block(blocks, shape, settings, static_cast<int64_t>(r), rows[r]);
  const Shape both{shape.pass.rows, shape.block};
  feed.set("open", Tensor::from(both, blocks.open));
  feed.set("eligible", Tensor::from(both, blocks.eligible));
  feed.set("place", Tensor::from(both, blocks.place));
  feed.set("query", Tensor::from(both, blocks.query));
  feed.set("temperature", Tensor::from(both, blocks.temperature));
  feed.set("top_k", Tensor::from(both, blocks.top_k));
  feed.set("top_p", Tensor::from(both, blocks.top_p));
}

// Numbers of the coming `limit` steps, (steps, rows, block): those the host loop would draw.
Tensor random_numbers(const LoopShape& shape, std::span<const LoopRow> rows, int64_t limit,
                      int word) {
  std::vector<float> numbers(static_cast<size_t>(shape.steps * shape.places()), 0.0f);
  for (size_t r = 0; r < rows.size(); ++r) {
    const Slot& slot = *rows[r].slot;
    // A draw at temperature 0 looks at no number.
    if (word == 0 && !(slot.settings.temperature > 0)) continue;
    for (int64_t step = 0; step < limit; ++step) {
      const int64_t first = step * shape.places() + static_cast<int64_t>(r) * shape.block;
      for (const int64_t position : rows[r].plan->ask.positions) {
        numbers[static_cast<size_t>(first + position - rows[r].plan->begin)] =
            seeded_uniform(slot.settings.seed, slot.steps + step, position, word);
      }
    }
  }
  return Tensor::from(Shape{shape.steps, shape.pass.rows, shape.block}, numbers);
}

void add_tables(Batch& feed, const model::ModelConfig& config, const LoopShape& shape,
                std::span<const LoopRow> rows, int64_t limit) {
  const int64_t count = shape.pass.rows;
  const Shape table{shape.steps, count};
  std::vector<int32_t> counts(static_cast<size_t>(table.count()), 0),
      carry(static_cast<size_t>(count), 0);
  std::vector<float> levels(counts.size(), 0), times(counts.size(), 0);
  std::vector<uint8_t> alive(carry.size(), 0);
  for (size_t r = 0; r < rows.size(); ++r) {
    const LoopTables own = rows[r].session->loop_tables(*rows[r].slot, limit);
    for (size_t step = 0; step < static_cast<size_t>(limit); ++step) {
      const size_t at = step * static_cast<size_t>(count) + r;
      counts[at] = own.count[step];
      levels[at] = own.level[step];
      times[at] = static_cast<float>(own.time[step] * static_cast<double>(config.time_steps));
    }
    carry[r] = own.carry;
    alive[r] = 1;
  }
  feed.set("count", Tensor::from(table, counts));
  feed.set("level", Tensor::from(table, levels));
  if (config.time_conditioning) feed.set("timesteps", Tensor::from(table, times));
  feed.set("carry", Tensor::from(Shape{count}, carry));
  feed.set("alive", Tensor::from(Shape{count}, alive));
}

} // namespace

void add_loop_feed(Batch& feed, const model::ModelConfig& config, const StepSettings& settings,
                   const LoopRule& rule, const LoopShape& shape, std::span<const LoopRow> rows,
                   int64_t limit) {
  add_blocks(feed, shape, settings, rows);
  add_tables(feed, config, shape, rows, limit);
  feed.set("uniform", random_numbers(shape, rows, limit, 0));
  if (rule.uses_chance()) feed.set("chance", random_numbers(shape, rows, limit, 1));
  feed.set("most_steps", Tensor::scalar(static_cast<int32_t>(limit)));
}

} // namespace dllm::decode
