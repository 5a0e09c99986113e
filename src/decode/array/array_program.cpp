#include "decode/array/array_program.h"
#include "decode/pass/sampling.h"

#include <algorithm>
#include <array>
#include <bit>

namespace dllm::decode {
namespace {

// Most bytes of the arrays in a record.
constexpr int64_t kMostBytes = int64_t{64} << 20;

// The arrays of one share, by (row, place in the window). Places without a position keep their
// initial values.
class ArrayFeed {
public:
  ArrayFeed(const ArrayShape& shape, std::span<const ArrayRow> rows, int64_t limit)
      : shape_(shape), rows_(rows), limit_(limit) {}

  void add_canvases(Batch& feed) const {
    const PassShape& pass = shape_.pass;
    std::vector<uint8_t> given(static_cast<size_t>(pass.positions()), 0);
    for (int64_t at = 0; at < pass.all_rows(); ++at) {
      const auto r = static_cast<size_t>(at % pass.rows);
      if (r >= rows_.size()) continue;
      const Request& request = *rows_[r].request;
      for (int64_t p = 0; p < request.length(); ++p)
        given[static_cast<size_t>(at * pass.window + p)] =
            rows_[r].session->is_given(request, p, at >= pass.rows) ? 1 : 0;
    }
    feed.set("given", Tensor::from(Shape{pass.all_rows(), pass.window}, given));
    feed.set("array", numbers(&Request::array));
    feed.set("previous", numbers(&Request::previous));
    if (!shape_.blocks) return;
    std::vector<int32_t> begins(static_cast<size_t>(pass.rows), 0), ends = begins;
    for (size_t r = 0; r < rows_.size(); ++r) {
      begins[r] = static_cast<int32_t>(rows_[r].request->block_begin());
      ends[r] = static_cast<int32_t>(rows_[r].request->block_end());
    }
    feed.set("block_begin", Tensor::from(Shape{pass.rows}, begins));
    feed.set("block_end", Tensor::from(Shape{pass.rows}, ends));
  }

  void add_sampling(Batch& feed) const {
    const int64_t places = shape_.places();
    const auto lines = static_cast<size_t>(shape_.texts * places);
    SamplingColumns sampling(lines, shape_.pass);
    std::vector<float> uniform(lines, 0);
    for (size_t r = 0; r < rows_.size(); ++r) {
      const Request& request = *rows_[r].request;
      for (int64_t text = 0; text < shape_.texts; ++text) {
        const int64_t first = text * places + static_cast<int64_t>(r) * shape_.pass.window;
        const int64_t step = request.steps + step_of(text, rows_[r]);
        for (int64_t p = 0; p < request.length(); ++p) {
          const auto at = static_cast<size_t>(first + p);
          sampling.put(at, request);
          if (request.settings.temperature > 0)
            uniform[at] = seeded_uniform(request.settings.seed, step, p, 0);
        }
      }
    }
    const Shape shape{shape_.texts * places};
    sampling.add_to(feed, shape);
    feed.set("uniform", Tensor::from(shape, uniform));
  }

  void add_levels(Batch& feed) const {
    const int64_t count = shape_.pass.rows;
    std::vector<float> levels(static_cast<size_t>(shape_.steps * 10 * count), 1.0f);
    std::vector<uint8_t> alive(static_cast<size_t>(shape_.steps * count), 0);
    for (size_t r = 0; r < rows_.size(); ++r) {
      const ArrayRow& row = rows_[r];
      for (int64_t step = 0; step < steps_of(row); ++step) {
        const std::array<float, 10> numbers = numbers_of(row, step);
        for (size_t i = 0; i < numbers.size(); ++i)
          levels[(static_cast<size_t>(step) * 10 + i) * static_cast<size_t>(count) + r] =
              numbers[i];
        alive[static_cast<size_t>(step * count) + r] = 1;
      }
    }
    feed.set("levels", Tensor::from(Shape{shape_.steps, 10, count}, levels));
    feed.set("alive", Tensor::from(Shape{shape_.steps, count}, alive));
    feed.set("most_steps", Tensor::scalar(static_cast<int32_t>(limit_)));
  }

  // Noise of the coming steps. Step 0 of a request has the numbers of its first array.
  void add_noise(Batch& feed) const {
    const auto width = static_cast<size_t>(shape_.width);
    std::vector<float> noise(static_cast<size_t>(shape_.steps * shape_.array_rows()) * width, 0.0f);
    for (size_t r = 0; r < rows_.size(); ++r) {
      const Request& request = *rows_[r].request;
      const auto length = static_cast<int64_t>(request.array.size() / width);
      for (int64_t step = 0; step < steps_of(rows_[r]); ++step) {
        const int64_t first = step * shape_.array_rows() + static_cast<int64_t>(r) * shape_.length;
        for (int64_t i = 0; i < length; ++i)
          position_normals(request.settings.seed, request.steps + step + 1, i,
                           std::span(noise).subspan(static_cast<size_t>(first + i) * width, width));
      }
    }
    feed.set(
        "noise",
        Tensor::from(Shape{shape_.steps, shape_.pass.rows, shape_.length, shape_.width}, noise));
  }

private:
  // Returns the steps that a row takes in this run.
  int64_t steps_of(const ArrayRow& row) const {
    return std::min(limit_, row.session->steps_left(*row.request));
  }
  // Returns the step of this run whose text is number `text`.
  int64_t step_of(int64_t text, const ArrayRow& row) const {
    return shape_.texts == 1 ? steps_of(row) - 1 : text;
  }

  static std::array<float, 10> numbers_of(const ArrayRow& row, int64_t step) {
    const Request& request = *row.request;
    const HostLevel &now = row.session->level(request, step),
                    &next = row.session->level(request, step + 1),
                    &before = row.session->level(request, step - 1);
    const bool has_previous = request.step_in_block + step > 0;
    return {now.time,   now.signal,  now.sigma,     next.time,    next.signal,
            next.sigma, before.time, before.signal, before.sigma, has_previous ? 1.0f : 0.0f};
  }

  // Returns such numbers of all rows, with zeros where a row has none.
  Tensor numbers(std::vector<float> Request::*of) const {
    const auto each = static_cast<size_t>(shape_.length * shape_.width);
    std::vector<float> all(static_cast<size_t>(shape_.pass.rows) * each, 0.0f);
    for (size_t r = 0; r < rows_.size(); ++r)
      std::ranges::copy(rows_[r].request->*of, all.begin() + static_cast<int64_t>(r * each));
    return Tensor::from(Shape{shape_.pass.rows, shape_.length, shape_.width}, all);
  }

  const ArrayShape& shape_;
  std::span<const ArrayRow> rows_;
  int64_t limit_;
};

} // namespace

ArrayShape array_shape(const PassShape& pass, const PassSettings& settings,
                       const ArrayPolicy& policy, const model::ModelConfig& config, int64_t steps,
                       ArrayTexts texts) {
  const ArrayRule& rule = policy.rule();
  ArrayShape shape{pass, rule.length(config, pass.window), rule.width(config),
                   rule.states_width(config)};
  shape.previous = policy.keeps_previous();
  shape.blocks = rule.block_length() > 0;
  shape.pass.set(settings);
  shape.pass.capacity = shape.places();
  const bool all = texts == ArrayTexts::all;
  int64_t numbers = shape.array_rows() * shape.width * (shape.previous ? 2 : 1); // of a step
  if (all) {
    numbers += shape.read_rows() * shape.read_width();
    numbers += shape.places() * PredictionColumns(shape.pass.needs).count;
  }
  const int64_t bytes = static_cast<int64_t>(sizeof(float)) * numbers;
  shape.steps = std::min(round_up(steps, 1), std::max<int64_t>(1, kMostBytes / bytes));
  shape.texts = all ? shape.steps : texts == ArrayTexts::last ? 1 : 0;
  return shape;
}

ArrayRecord::ArrayRecord(const PredictionNeeds& needs, const ArrayShape& shape, ArrayTexts texts,
                         PassShares shares, Tensor answer, int64_t steps, std::vector<int64_t> ends)
    : needs_(needs), shape_(shape), texts_(texts), shares_(std::move(shares)),
      answer_(std::move(answer)), steps_(steps), ends_(std::move(ends)) {}

std::span<const int32_t> ArrayRecord::answer_at(int64_t row, int64_t first) const {
  const int64_t lines = shape_.texts * shape_.places() * PredictionColumns(shape_.pass.needs).count;
  const int64_t each = shape_.records() * shape_.record() + lines;
  return answer_.as<int32_t>().subspan(static_cast<size_t>(place(row).share * each + first));
}

bool ArrayRecord::has_text(int64_t step, int64_t row) const {
  return texts_ == ArrayTexts::all ||
         (texts_ == ArrayTexts::last && ends_[static_cast<size_t>(row)] == step);
}

Prediction ArrayRecord::prediction(int64_t step, int64_t row, int64_t position) const {
  const PredictionColumns columns(needs_);
  const auto count = static_cast<size_t>(columns.count);
  const int64_t text = shape_.texts == 1 ? 0 : step;
  const int64_t at = text * shape_.places() + place(row).row * shape_.pass.window + position;
  const int64_t first = shape_.records() * shape_.record() + at * columns.count;
  return prediction_of(answer_at(row, first).first(count), columns, position);
}

std::vector<float> ArrayRecord::numbers(int64_t record, int64_t step, int64_t row,
                                        size_t count) const {
  const int64_t at = step * shape_.array_rows() + place(row).row * shape_.length;
  std::vector<float> own;
  own.reserve(count);
  for (const int32_t bits :
       answer_at(row, record * shape_.record() + at * shape_.width).first(count))
    own.push_back(std::bit_cast<float>(bits));
  return own;
}

std::vector<float> ArrayRecord::array(int64_t step, int64_t row, size_t count) const {
  return numbers(0, step, row, count);
}

std::vector<float> ArrayRecord::previous(int64_t step, int64_t row, size_t count) const {
  return shape_.previous ? numbers(1, step, row, count) : std::vector<float>();
}

ArrayProgram::ArrayProgram(std::shared_ptr<model::Model> model, const PassSettings& settings,
                           const ArrayPolicy& policy)
    : model_(std::move(model)), settings_(settings), policy_(policy) {}

namespace {

// Returns what a run of these steps has to read.
ArrayTexts texts_of(std::span<const ArrayRow> rows, int64_t steps, bool watched) {
  if (watched) return ArrayTexts::all;
  const bool ends = std::ranges::any_of(
      rows, [&](const ArrayRow& row) { return row.session->steps_left(*row.request) <= steps; });
  return ends ? ArrayTexts::last : ArrayTexts::none;
}

} // namespace

ArrayRecord ArrayProgram::run(std::span<const ArrayRow> rows, const DecodeState& state,
                              const Weights& weights, int64_t limit, bool watched,
                              const Task* task) {
  std::vector<PassRow> passes;
  int64_t steps = 1;
  for (const ArrayRow& row : rows) {
    passes.push_back({row.request, row.pass});
    steps = std::max(steps, row.session->steps_left(*row.request));
  }
  steps = std::min(steps, limit);
  PassShares shares(passes, state, model_->engine().mesh());
  const model::ModelConfig& config = model_->config();
  PassShape pass = pass_shape(config, passes, state.shape(), 0, {}, shares.most_rows());
  set_parts(pass.parts, *rows[0].pass, *model_, weights, policy_.rule().other_parts());
  const ArrayShape most =
      array_shape(pass, settings_, policy_, config, steps, texts_of(rows, steps, watched));
  steps = std::min(steps, most.steps);
  const ArrayTexts texts = texts_of(rows, steps, watched);
  ArrayShape shape = most;
  if (texts == ArrayTexts::none) shape.texts = 0;
  const std::shared_ptr<graph::Program> program = programs_.get(shape, [&] {
    auto graph = std::make_shared<graph::Graph>("denoise_array");
    build_array_loop(*graph, *model_, policy_, shape);
    return model_->engine().compile(std::move(graph));
  });
  const std::vector<Batch> feeds = shares.feeds([&](int64_t share) {
    Batch feed;
    add_window_feed(feed, config, settings_, shape.pass,
                    shares.of(share, std::span<const PassRow>(passes)), state);
    const std::vector<ArrayRow> own = shares.of(share, rows);
    const ArrayFeed made(shape, own, steps);
    made.add_canvases(feed);
    made.add_sampling(feed);
    made.add_levels(feed);
    if (policy_.solver().uses_noise()) made.add_noise(feed);
    return feed;
  });
  const std::vector<graph::BufferRef> outputs =
      run_pass(program, model_->engine(), weights.of(shape.pass.parts.list), feeds, nullptr, task);
  std::vector<int64_t> ends;
  for (const ArrayRow& row : rows) {
    const int64_t left = row.session->steps_left(*row.request);
    ends.push_back(left <= steps ? left - 1 : -1);
  }
  return {settings_.needs,    shape, texts,          std::move(shares),
          outputs[0]->read(), steps, std::move(ends)};
}

} // namespace dllm::decode
