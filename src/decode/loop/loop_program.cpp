#include "decode/loop/loop_program.h"

#include "decode/pass/sampling.h"
#include "decode/request/policy.h"

#include <algorithm>

namespace dllm::decode {
namespace {

// The arrays of the blocks, (rows, block). Entries without a position keep their initial values,
// and their place is `nowhere`.
struct Blocks {
  std::vector<uint8_t> open, eligible;
  std::vector<int32_t> place, query;
  SamplingColumns sampling;

  Blocks(const LoopShape& shape, int64_t nowhere)
      : open(static_cast<size_t>(shape.places()), 0), eligible(open),
        place(open.size(), static_cast<int32_t>(nowhere)), query(open.size(), 0),
        sampling(open.size(), shape.pass) {}
};

void put_block(Blocks& blocks, const LoopShape& shape, const PassSettings& settings, int64_t r,
               const LoopRow& row) {
  const LoopPlan& plan = *row.plan;
  const Request& request = *row.request;
  const int64_t first = r * shape.pass.window - plan.pass.begin;
  for (int64_t position = std::max(plan.begin, plan.pass.begin); position < plan.end; ++position) {
    const auto at = static_cast<size_t>(r * shape.block + position - plan.begin);
    blocks.open[at] = request.is_open(position) ? 1 : 0;
    blocks.place[at] = static_cast<int32_t>(first + position);
    blocks.query[at] =
        static_cast<int32_t>(first + predicting(position, settings.shift, plan.pass.begin));
    blocks.sampling.put(at, request);
  }
  for (const int64_t position : plan.pass.positions)
    blocks.eligible[static_cast<size_t>(r * shape.block + position - plan.begin)] = 1;
}

void add_blocks(Batch& feed, const LoopShape& shape, const PassSettings& settings,
                std::span<const LoopRow> rows) {
  Blocks blocks(shape, shape.pass.rows * shape.pass.window);
  for (size_t r = 0; r < rows.size(); ++r)
    put_block(blocks, shape, settings, static_cast<int64_t>(r), rows[r]);
  const Shape both{shape.pass.rows, shape.block};
  feed.set("open", Tensor::from(both, blocks.open));
  feed.set("eligible", Tensor::from(both, blocks.eligible));
  feed.set("place", Tensor::from(both, blocks.place));
  feed.set("query", Tensor::from(both, blocks.query));
  blocks.sampling.add_to(feed, both);
}

// Returns the random numbers (steps, rows, block) of the coming `limit` steps. The loop on the host
// draws the same ones.
Tensor random_numbers(const LoopShape& shape, std::span<const LoopRow> rows, int64_t limit,
                      int word) {
  std::vector<float> numbers(static_cast<size_t>(shape.steps * shape.places()), 0.0f);
  for (size_t r = 0; r < rows.size(); ++r) {
    const Request& request = *rows[r].request;
    // A draw at temperature 0 uses no random number.
    if (word == 0 && !(request.settings.temperature > 0)) continue;
    for (int64_t step = 0; step < limit; ++step) {
      const int64_t first = step * shape.places() + static_cast<int64_t>(r) * shape.block;
      for (const int64_t position : rows[r].plan->pass.positions) {
        numbers[static_cast<size_t>(first + position - rows[r].plan->begin)] =
            seeded_uniform(request.settings.seed, request.steps + step, position, word);
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
    const LoopTables own = rows[r].session->loop_tables(*rows[r].request, limit);
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

void add_loop_feed(Batch& feed, const model::ModelConfig& config, const PassSettings& settings,
                   const LoopRule& rule, const LoopShape& shape, std::span<const LoopRow> rows,
                   int64_t limit) {
  add_blocks(feed, shape, settings, rows);
  add_tables(feed, config, shape, rows, limit);
  feed.set("uniform", random_numbers(shape, rows, limit, 0));
  if (rule.uses_chance()) feed.set("chance", random_numbers(shape, rows, limit, 1));
  feed.set("most_steps", Tensor::scalar(static_cast<int32_t>(limit)));
}

namespace {

// Most predictions in a record: about 40 MB.
constexpr int64_t kMostLines = int64_t{1} << 20;

} // namespace

LoopRecord::LoopRecord(const PassSettings& settings, const LoopShape& shape, PassShares shares,
                       Tensor answer)
    : settings_(settings), shape_(shape), shares_(std::move(shares)), answer_(std::move(answer)) {}

std::span<const int32_t> LoopRecord::answer_of(int64_t row) const {
  const size_t size = answer_.as<int32_t>().size() / static_cast<size_t>(shares_.count());
  const int64_t share = shares_.places()[static_cast<size_t>(row)].share;
  return answer_.as<int32_t>().subspan(static_cast<size_t>(share) * size, size);
}

std::span<const int32_t> LoopRecord::line(int64_t step, int64_t row, int64_t place) const {
  const int64_t columns = record_columns(settings_.needs);
  const int64_t at = (step * shape_.places() + place_of(row) * shape_.block + place) * columns;
  return answer_of(row).subspan(static_cast<size_t>(at), static_cast<size_t>(columns));
}

int64_t LoopRecord::steps(int64_t row) const {
  const int64_t at =
      shape_.steps * shape_.places() * record_columns(settings_.needs) + place_of(row);
  return answer_of(row)[static_cast<size_t>(at)];
}

bool LoopRecord::goes_on(int64_t row) const {
  // The flags are stored after the step counts.
  const int64_t at =
      shape_.steps * shape_.places() * record_columns(settings_.needs) + shape_.pass.rows;
  return answer_of(row)[static_cast<size_t>(at + place_of(row))] != 0;
}

int64_t LoopRecord::most_steps() const {
  int64_t most = 0;
  for (int64_t row = 0; row < std::ssize(shares_.places()); ++row)
    most = std::max(most, steps(row));
  return most;
}

Prediction LoopRecord::prediction(int64_t step, int64_t row, int64_t place,
                                  int64_t position) const {
  return prediction_of(line(step, row, place), PredictionColumns(settings_.needs), position);
}

int32_t LoopRecord::after(int64_t step, int64_t row, int64_t place) const {
  return line(step, row, place).back();
}

LoopShape loop_shape(const PassShape& pass, const PassSettings& settings, int64_t block,
                     int64_t steps) {
  LoopShape shape{pass, round_up(block, 1), 1};
  shape.pass.set(settings);
  shape.pass.soft = settings.needs.soft_width > 0;
  shape.pass.capacity = shape.places();
  const int64_t most = std::max<int64_t>(1, kMostLines / shape.places());
  shape.steps = std::min(round_up(std::min(steps, kMostLines), 1), most);
  return shape;
}

LoopProgram::LoopProgram(std::shared_ptr<model::Model> model, PassSettings settings,
                         std::unique_ptr<LoopRule> rule)
    : model_(std::move(model)), settings_(std::move(settings)), rule_(std::move(rule)) {}

LoopShape LoopProgram::shape_of(std::span<const LoopRow> rows, std::span<const PassRow> passes,
                                const PassShares& shares, const DecodeState& state,
                                const Weights& weights, int64_t least_rows) const {
  int64_t block = 1, steps = 1;
  for (const LoopRow& row : rows) {
    block = std::max(block, std::min(row.request->block_length, row.request->length()));
    steps = std::max(steps, row.plan->most_steps);
  }
  PassShape pass = pass_shape(model_->config(), passes, state.shape(), shares.part_of(least_rows),
                              {}, shares.most_rows());
  set_parts(pass.parts, rows[0].plan->pass, *model_, weights);
  return loop_shape(pass, settings_, block, steps);
}

LoopRecord LoopProgram::run(std::span<const LoopRow> rows, DecodeState& state,
                            const Weights& weights, int64_t limit, int64_t least_rows,
                            const Task* task) {
  std::vector<PassRow> passes;
  for (const LoopRow& row : rows) passes.push_back({row.request, &row.plan->pass, row.cache_row});
  PassShares shares(passes, state, model_->engine().mesh());
  const LoopShape shape = shape_of(rows, passes, shares, state, weights, least_rows);
  const std::shared_ptr<graph::Program> program = programs_.get(shape, [&] {
    auto graph = std::make_shared<graph::Graph>("denoise_loop");
    build_loop(*graph, *model_, *rule_, shape);
    return model_->engine().compile(std::move(graph));
  });
  const std::vector<Batch> feeds = shares.feeds([&](int64_t share) {
    Batch feed;
    add_window_feed(feed, model_->config(), settings_, shape.pass,
                    shares.of(share, std::span<const PassRow>(passes)), state);
    add_loop_feed(feed, model_->config(), settings_, *rule_, shape, shares.of(share, rows),
                  std::min(limit, shape.steps));
    return feed;
  });
  const bool cached = shape.pass.keys > 0;
  const std::vector<graph::BufferRef> outputs =
      run_pass(program, model_->engine(), weights.of(shape.pass.parts.list), feeds,
               cached ? &state : nullptr, task);
  return {settings_, shape, std::move(shares), outputs[cached ? state.stacks().size() : 0]->read()};
}

} // namespace dllm::decode
