#include "decode/array/array_program.h"
#include "decode/pass/sampling.h"

#include <algorithm>

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
    std::vector<float> array(static_cast<size_t>(shape_.places() * shape_.width), 0.0f);
    std::vector<uint8_t> given(static_cast<size_t>(shape_.places()), 0);
    for (size_t r = 0; r < rows_.size(); ++r) {
      const Request& request = *rows_[r].request;
      const size_t first = r * static_cast<size_t>(shape_.pass.window);
      std::ranges::copy(request.array, array.begin() + static_cast<int64_t>(first) * shape_.width);
      for (size_t i = 0; i < request.states.size(); ++i)
        given[first + i] = request.states[i] == State::fixed ? 1 : 0;
    }
    const Shape window{shape_.pass.rows, shape_.pass.window};
    feed.set("array",
             Tensor::from(Shape{shape_.pass.rows, shape_.pass.window, shape_.width}, array));
    feed.set("given", Tensor::from(window, given));
  }

  void add_sampling(Batch& feed) const {
    const auto places = static_cast<size_t>(shape_.places());
    SamplingColumns sampling(places, shape_.pass);
    std::vector<float> uniform(places * static_cast<size_t>(shape_.steps), 0);
    for (size_t r = 0; r < rows_.size(); ++r) {
      const Request& request = *rows_[r].request;
      for (int64_t p = 0; p < request.length(); ++p) {
        const size_t at = r * static_cast<size_t>(shape_.pass.window) + static_cast<size_t>(p);
        sampling.put(at, request);
        for (int64_t step = 0; step < limit_ && request.settings.temperature > 0; ++step)
          uniform[static_cast<size_t>(step) * places + at] =
              seeded_uniform(request.settings.seed, request.steps + step, p, 0);
      }
    }
    sampling.add_to(feed, Shape{shape_.places()});
    feed.set("uniform", Tensor::from(Shape{shape_.steps, shape_.places()}, uniform));
  }

  void add_levels(Batch& feed) const {
    const int64_t count = shape_.pass.rows;
    std::vector<float> levels(static_cast<size_t>(shape_.steps * 6 * count), 1.0f);
    std::vector<uint8_t> alive(static_cast<size_t>(shape_.steps * count), 0);
    for (size_t r = 0; r < rows_.size(); ++r) {
      const ArrayRow& row = rows_[r];
      const int64_t most = std::min(limit_, row.session->steps_left(*row.request));
      for (int64_t step = 0; step < most; ++step) {
        const HostLevel now = row.session->level(*row.request, step),
                        next = row.session->level(*row.request, step + 1);
        const float numbers[6] = {now.time,  now.signal,  now.sigma,
                                  next.time, next.signal, next.sigma};
        for (int64_t i = 0; i < 6; ++i)
          levels[static_cast<size_t>((step * 6 + i) * count) + r] = numbers[i];
        alive[static_cast<size_t>(step * count) + r] = 1;
      }
    }
    feed.set("levels", Tensor::from(Shape{shape_.steps, 6, count}, levels));
    feed.set("alive", Tensor::from(Shape{shape_.steps, count}, alive));
    feed.set("most_steps", Tensor::scalar(static_cast<int32_t>(limit_)));
  }

  // Noise of the coming steps. Step 0 of a request has the numbers of its first array.
  void add_noise(Batch& feed) const {
    const auto width = static_cast<size_t>(shape_.width);
    std::vector<float> noise(static_cast<size_t>(shape_.steps * shape_.places()) * width, 0.0f);
    for (int64_t step = 0; step < limit_; ++step) {
      for (size_t r = 0; r < rows_.size(); ++r) {
        const Request& request = *rows_[r].request;
        const int64_t first = step * shape_.places() + static_cast<int64_t>(r) * shape_.pass.window;
        for (int64_t p = 0; p < request.length(); ++p)
          position_normals(request.settings.seed, request.steps + step + 1, p,
                           std::span(noise).subspan(static_cast<size_t>(first + p) * width, width));
      }
    }
    feed.set("noise",
             Tensor::from(Shape{shape_.steps, shape_.pass.rows, shape_.pass.window, shape_.width},
                          noise));
  }

private:
  const ArrayShape& shape_;
  std::span<const ArrayRow> rows_;
  int64_t limit_;
};

} // namespace

ArrayShape array_shape(const PassShape& pass, const PassSettings& settings, int64_t width,
                       int64_t steps) {
  ArrayShape shape{pass, width, 1};
  shape.pass.set(settings);
  shape.pass.capacity = shape.places();
  const int64_t line =
      static_cast<int64_t>(sizeof(float)) * (width + PredictionColumns(shape.pass.needs).count);
  const int64_t most = std::max<int64_t>(1, kMostBytes / (shape.places() * line));
  shape.steps = std::min(round_up(steps, 1), most);
  return shape;
}

ArrayRecord::ArrayRecord(const PredictionNeeds& needs, const ArrayShape& shape, PassShares shares,
                         Tensor lines, Tensor arrays, int64_t steps)
    : needs_(needs), shape_(shape), shares_(std::move(shares)), lines_(std::move(lines)),
      arrays_(std::move(arrays)), steps_(steps) {}

size_t ArrayRecord::place(int64_t step, int64_t row) const {
  const RowPlace& own = shares_.places()[static_cast<size_t>(row)];
  return static_cast<size_t>((own.share * shape_.steps + step) * shape_.places() +
                             own.row * shape_.pass.window);
}

Prediction ArrayRecord::prediction(int64_t step, int64_t row, int64_t position) const {
  const PredictionColumns columns(needs_);
  const auto count = static_cast<size_t>(columns.count);
  const size_t at = place(step, row) + static_cast<size_t>(position);
  return prediction_of(lines_.as<int32_t>().subspan(at * count, count), columns, position);
}

std::vector<float> ArrayRecord::array(int64_t step, int64_t row, int64_t length) const {
  const auto width = static_cast<size_t>(shape_.width);
  const auto own =
      arrays_.as<float>().subspan(place(step, row) * width, static_cast<size_t>(length) * width);
  return {own.begin(), own.end()};
}

ArrayProgram::ArrayProgram(std::shared_ptr<model::Model> model, const PassSettings& settings,
                           const ArrayRule& rule)
    : model_(std::move(model)), settings_(settings), rule_(rule) {}

ArrayRecord ArrayProgram::run(std::span<const ArrayRow> rows, const DecodeState& state,
                              const Weights& weights, int64_t limit, const Task* task) {
  std::vector<PassRow> passes;
  int64_t steps = 1;
  for (const ArrayRow& row : rows) {
    passes.push_back({row.request, row.pass});
    steps = std::max(steps, row.session->steps_left(*row.request));
  }
  steps = std::min(steps, limit);
  PassShares shares(passes, state, model_->engine().mesh());
  PassShape pass = pass_shape(model_->config(), passes, state.shape(), 0, {}, shares.most_rows());
  set_parts(pass.parts, *rows[0].pass, *model_, weights, rule_.other_parts());
  const ArrayShape shape = array_shape(pass, settings_, rule_.width(model_->config()), steps);
  steps = std::min(steps, shape.steps);
  const std::shared_ptr<graph::Program> program = programs_.get(shape, [&] {
    auto graph = std::make_shared<graph::Graph>("denoise_array");
    build_array_loop(*graph, *model_, rule_, shape);
    return model_->engine().compile(std::move(graph));
  });
  const std::vector<Batch> feeds = shares.feeds([&](int64_t share) {
    Batch feed;
    add_window_feed(feed, model_->config(), settings_, shape.pass,
                    shares.of(share, std::span<const PassRow>(passes)), state);
    const std::vector<ArrayRow> own = shares.of(share, rows);
    const ArrayFeed made(shape, own, steps);
    made.add_canvases(feed);
    made.add_sampling(feed);
    made.add_levels(feed);
    if (rule_.solver().uses_noise()) made.add_noise(feed);
    return feed;
  });
  const std::vector<graph::BufferRef> outputs =
      run_pass(program, model_->engine(), weights.of(shape.pass.parts.list), feeds, nullptr, task);
  return {settings_.needs, shape, std::move(shares), outputs[0]->read(), outputs[1]->read(), steps};
}

} // namespace dllm::decode
