#include "decode/pass/pass_program.h"
#include "decode/pass/sampling.h"

#include <algorithm>

namespace dllm::decode {
namespace {

// Returns the number that the model gives to a position or to an edge of a span.
int64_t counted(const PassRequest& pass, int64_t position) {
  const auto behind = std::lower_bound(pass.left_out.begin(), pass.left_out.end(), position);
  return position - (behind - pass.left_out.begin());
}

// Returns the place of a position in the window.
int64_t place_in_window(const PassRequest& pass, int64_t position) {
  const auto found = std::find(pass.order.begin(), pass.order.end(), position);
  if (found == pass.order.end()) return counted(pass, position) - pass.begin;
  return pass.end - pass.begin - (pass.order.end() - found);
}

bool is_left_out(const PassRequest& pass, int64_t position) {
  return std::binary_search(pass.left_out.begin(), pass.left_out.end(), position);
}

// Arrays by (row, place in the window). A window that is shorter than the program's is padded with
// positions that attend to no key and are not written to the cache.
struct Windows {
  std::vector<int32_t> ids, positions, limit, write_at;

  Windows(int64_t count, int32_t nowhere)
      : ids(static_cast<size_t>(count), 0), positions(ids), limit(ids),
        write_at(ids.size(), nowhere) {}

  void put(size_t at, const PassRow& row, int64_t position, int32_t id, int32_t first_row) {
    const Request& request = *row.request;
    const int64_t end = row.pass->span_end < 0 ? request.length() : row.pass->span_end;
    const int64_t seen = row.pass->cached ? end : std::min(end, row.pass->end);
    const bool joined = row.pass->together >= 0 && position >= row.pass->together;
    const int64_t reach = joined ? row.pass->end : request.span.limit(position);
    ids[at] = id;
    positions[at] = static_cast<int32_t>(counted(*row.pass, position));
    limit[at] = static_cast<int32_t>(counted(*row.pass, std::min(reach, seen)));
    if (row.pass->cached) write_at[at] = first_row + static_cast<int32_t>(position);
  }
};

// Sets the places of PassRequest::order in the window that begins at `first`.
void put_order(Windows& windows, int64_t first, const PassRow& row, int32_t first_row) {
  const PassRequest& pass = *row.pass;
  int64_t place = pass.end - static_cast<int64_t>(pass.order.size());
  for (const int64_t position : pass.order) {
    const auto at = static_cast<size_t>(first + place - pass.begin);
    windows.ids[at] = row.request->ids[static_cast<size_t>(position)];
    windows.positions[at] = static_cast<int32_t>(position);
    windows.limit[at] = static_cast<int32_t>(place + 1);
    if (pass.cached) windows.write_at[at] = first_row + static_cast<int32_t>(place);
    ++place;
  }
}

void put_window(Windows& windows, int64_t first, const PassRow& row,
                const std::vector<int32_t>& ids, int32_t first_row) {
  const PassRequest& pass = *row.pass;
  for (int64_t position = pass.begin; position < pass.end; ++position) {
    if (is_left_out(pass, position)) continue;
    const auto in_window = static_cast<size_t>(position - pass.begin);
    const int32_t id =
        ids.empty() ? row.request->ids[static_cast<size_t>(position)] : ids[in_window];
    windows.put(static_cast<size_t>(first + counted(pass, position) - pass.begin), row, position,
                id, first_row);
  }
  put_order(windows, first, row, first_row);
}

// Adds the snapshot that each request starts from, and the one that it saves.
void add_state_places(Batch& feed, const PassShape& shape, std::span<const PassRow> rows,
                      const DecodeState& state) {
  if (shape.saved_rows == 0) return;
  const auto count = static_cast<size_t>(shape.rows);
  std::vector<int32_t> from(count, -1), to(count, static_cast<int32_t>(state.nowhere())),
      length(count, 0);
  for (size_t r = 0; r < rows.size(); ++r) {
    const SavedPass pass =
        state.saved_pass(rows[r].cache_row, rows[r].pass->begin, rows[r].pass->final_end);
    const auto first = static_cast<int32_t>(state.own_row(rows[r].cache_row) * model::kSnapshots);
    if (pass.from >= 0) from[r] = first + static_cast<int32_t>(pass.from);
    if (pass.to >= 0) to[r] = first + static_cast<int32_t>(pass.to);
    length[r] = static_cast<int32_t>(pass.length);
  }
  feed.set("from", Tensor::from(Shape{shape.rows}, from));
  feed.set("to", Tensor::from(Shape{shape.rows}, to));
  feed.set("length", Tensor::from(Shape{shape.rows}, length));
}

void add_windows(Batch& feed, const PassShape& shape, std::span<const PassRow> rows,
                 const DecodeState& state) {
  const int64_t copies = shape.guided ? 2 : 1, all = copies * shape.rows;
  Windows windows(all * shape.window, static_cast<int32_t>(state.nowhere()));
  std::vector<float> guidance;
  for (int64_t r = 0; r < static_cast<int64_t>(rows.size()); ++r) {
    const PassRow& row = rows[static_cast<size_t>(r)];
    const auto first_row = static_cast<int32_t>(state.own_row(row.cache_row) * state.capacity());
    put_window(windows, r * shape.window, row, row.pass->ids, first_row);
    if (!shape.guided) continue;
    put_window(windows, (shape.rows + r) * shape.window, row, row.pass->unconditional, 0);
    guidance.push_back(row.pass->guidance);
  }
  guidance.resize(static_cast<size_t>(shape.rows), 0.0f);
  const Shape window{all, shape.window};
  feed.set("ids", Tensor::from(window, windows.ids));
  feed.set("positions", Tensor::from(window, windows.positions));
  feed.set("limit", Tensor::from(window, windows.limit));
  if (shape.guided) feed.set("guidance", Tensor::from(Shape{shape.rows}, guidance));
  if (shape.keys == 0) return;
  add_state_places(feed, shape, rows, state);
  feed.set("write_at", Tensor::from(Shape{all * shape.window}, windows.write_at));
  std::vector<int32_t> read_at;
  for (const PassRow& row : rows) {
    for (int64_t key = 0; key < shape.keys; ++key)
      read_at.push_back(
          static_cast<int32_t>(state.own_row(row.cache_row) * state.capacity() + key));
  }
  read_at.resize(static_cast<size_t>(shape.rows * shape.keys), 0);
  feed.set("read_at", Tensor::from(Shape{shape.rows, shape.keys}, read_at));
}

// Adds the inputs of sliding windows. Layers use them only if every request is causal or the
// windows reach to both sides.
void add_slides(Batch& feed, const model::ModelConfig& config, const PassShape& shape,
                std::span<const PassRow> rows) {
  std::vector<int32_t> start;
  bool causal = true;
  for (int copy = 0; copy < (shape.guided ? 2 : 1); ++copy) {
    for (const PassRow& row : rows) {
      start.push_back(static_cast<int32_t>(row.pass->begin));
      causal = causal && row.request->span.block == 1;
    }
    start.resize(static_cast<size_t>((copy + 1) * shape.rows), 0);
  }
  const auto count = static_cast<int64_t>(start.size());
  feed.set("query_start", Tensor::from(Shape{count}, start));
  feed.set("slides",
           Tensor::scalar(static_cast<int32_t>(causal || config.window_both_sides ? 1 : 0)));
}

// Adds the start of the canvas of every row. For a row without a canvas it is after all positions.
void add_canvases(Batch& feed, const PassShape& shape, std::span<const PassRow> rows) {
  const auto count = static_cast<size_t>(shape.rows);
  std::vector<int32_t> start(static_cast<size_t>(shape.all_rows()), 0),
      canvas(start.size(), INT32_MAX);
  for (size_t i = 0; i < start.size(); ++i) {
    if (i % count >= rows.size()) continue;
    const PassRequest& pass = *rows[i % count].pass;
    start[i] = static_cast<int32_t>(pass.begin);
    if (pass.together >= 0) canvas[i] = static_cast<int32_t>(pass.together);
  }
  feed.set("query_start", Tensor::from(Shape{shape.all_rows()}, start));
  feed.set("canvas_start", Tensor::from(Shape{shape.all_rows()}, canvas));
}

// Adds the number of given positions at the front of every row, for a mask filler that reads the
// prompt. -1: a canvas with holes.
void add_prompts(Batch& feed, const PassShape& shape, std::span<const PassRow> rows) {
  std::vector<int32_t> prompts(static_cast<size_t>(shape.all_rows()), -1);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const size_t row = i % static_cast<size_t>(shape.rows);
    if (row < rows.size() && rows[row].request->prompt > 0)
      prompts[i] = static_cast<int32_t>(rows[row].request->prompt);
  }
  feed.set("filler_start", Tensor::from(Shape{shape.all_rows()}, prompts));
}

// Adds the conditioning of the wanted positions of each pass that has one.
void add_conditioning(Batch& feed, const model::ModelConfig& config, const PassShape& shape,
                      std::span<const PassRow> rows) {
  const auto hidden = static_cast<size_t>(config.hidden_size);
  const auto nowhere = static_cast<int32_t>(shape.positions());
  std::vector<int32_t> at(static_cast<size_t>(shape.capacity), nowhere);
  std::vector<float> numbers(at.size() * hidden, 0.0f);
  size_t i = 0;
  for (int64_t r = 0; r < static_cast<int64_t>(rows.size()); ++r) {
    const PassRequest& pass = *rows[static_cast<size_t>(r)].pass;
    std::copy(pass.conditioning.begin(), pass.conditioning.end(),
              numbers.begin() + static_cast<std::ptrdiff_t>(i * hidden));
    for (const int64_t position : pass.positions) {
      if (!pass.conditioning.empty())
        at[i] = static_cast<int32_t>(r * shape.window + place_in_window(pass, position));
      ++i;
    }
  }
  feed.set("conditioned_at", Tensor::from(Shape{shape.capacity}, at));
  feed.set("conditioning", Tensor::from(Shape{shape.capacity, config.hidden_size}, numbers));
}

void add_times(Batch& feed, const model::ModelConfig& config, const PassShape& shape,
               std::span<const PassRow> rows) {
  std::vector<float> times;
  for (int copy = 0; copy < (shape.guided ? 2 : 1); ++copy) {
    for (const PassRow& row : rows)
      times.push_back(static_cast<float>(row.pass->time * static_cast<double>(config.time_steps)));
    times.resize(static_cast<size_t>((copy + 1) * shape.rows), 0.0f);
  }
  const auto count = static_cast<int64_t>(times.size());
  feed.set("timesteps", Tensor::from(Shape{count}, times));
}

void add_row_adapters(Batch& feed, const PassShape& shape, std::span<const PassRow> rows) {
  std::vector<int32_t> slots(static_cast<size_t>(shape.all_rows()), 0);
  for (size_t i = 0; i < slots.size(); ++i) {
    const size_t row = i % static_cast<size_t>(shape.rows);
    if (row < rows.size()) slots[i] = shape.parts.slot(*rows[row].pass);
  }
  feed.set("adapter", Tensor::from(Shape{shape.all_rows()}, slots));
}

void add_soft(Batch& feed, const PassShape& shape, std::span<const PassRow> rows) {
  const int64_t places = shape.rows * shape.window, width = shape.needs.soft_width;
  std::vector<uint8_t> on(static_cast<size_t>(places), 0);
  std::vector<int32_t> ids(static_cast<size_t>(places * width), 0);
  std::vector<float> weights(ids.size(), 0.0f);
  for (int64_t r = 0; r < static_cast<int64_t>(rows.size()); ++r) {
    const PassRequest& pass = *rows[static_cast<size_t>(r)].pass;
    for (const SoftInput& soft : pass.soft) {
      const int64_t place = r * shape.window + soft.position - pass.begin;
      on[static_cast<size_t>(place)] = 1;
      std::copy(soft.ids.begin(), soft.ids.end(), ids.begin() + place * width);
      std::copy(soft.weights.begin(), soft.weights.end(), weights.begin() + place * width);
    }
  }
  feed.set("soft_on", Tensor::from(Shape{shape.rows, shape.window}, on));
  feed.set("soft_ids", Tensor::from(Shape{shape.rows, shape.window, width}, ids));
  feed.set("soft_weights", Tensor::from(Shape{shape.rows, shape.window, width}, weights));
}

// Adds the token before each wanted position; -1: there is none, or it is banned.
void add_left_tokens(Batch& feed, const PassSettings& settings, const PassShape& shape,
                     std::span<const PassRow> rows) {
  std::vector<int32_t> left;
  for (const PassRow& row : rows) {
    size_t index = 0;
    for (const int64_t position : row.pass->positions) {
      const int32_t token =
          position == 0 ? -1 : row.request->ids[static_cast<size_t>(position - 1)];
      const std::span<const uint8_t> bans = banned_at(row, settings, index++);
      const bool banned = token >= 0 && !bans.empty() && bans[static_cast<size_t>(token)] != 0;
      left.push_back(banned ? -1 : token);
    }
  }
  left.resize(static_cast<size_t>(shape.capacity), -1);
  feed.set("left_token", Tensor::from(Shape{shape.capacity}, left));
}

void add_queries(Batch& feed, const PassSettings& settings, const PassShape& shape,
                 std::span<const PassRow> rows, size_t vocab) {
  const auto capacity = static_cast<size_t>(shape.capacity);
  std::vector<int32_t> query(capacity, 0);
  SamplingColumns sampling(capacity, shape);
  std::vector<float> uniform(capacity, 0);
  std::vector<float> insert_uniform(shape.needs.edits ? capacity : 0, 0);
  std::vector<float> noise(shape.noise ? capacity * vocab : 0, 0);
  size_t i = 0;
  for (int64_t r = 0; r < static_cast<int64_t>(rows.size()); ++r) {
    const PassRow& row = rows[static_cast<size_t>(r)];
    for (const int64_t position : row.pass->positions) {
      const int64_t begin = row.pass->begin;
      const int shift = row.pass->shift < 0 ? settings.shift : row.pass->shift;
      const int64_t from = place_in_window(*row.pass, predicting(position, shift, begin));
      query[i] = static_cast<int32_t>(r * shape.window + from);
      sampling.put(i, *row.request, row.pass->temperature);
      uniform[i] = position_uniform(*row.request, position, 0);
      if (shape.needs.edits) insert_uniform[i] = position_uniform(*row.request, position, 4);
      if (shape.noise)
        row.request->random_source->noise(*row.request, position,
                                          std::span<float>(noise).subspan(i * vocab, vocab));
      ++i;
    }
  }
  feed.set("query", Tensor::from(Shape{shape.capacity}, query));
  feed.set("count", Tensor::scalar(static_cast<int32_t>(i)));
  sampling.add_to(feed, Shape{shape.capacity});
  feed.set("uniform", Tensor::from(Shape{shape.capacity}, uniform));
  if (shape.needs.edits)
    feed.set("insert_uniform", Tensor::from(Shape{shape.capacity}, insert_uniform));
  if (shape.noise)
    feed.set("noise", Tensor::from(Shape{shape.capacity, static_cast<int64_t>(vocab)}, noise));
}

// Adds the banned tokens of each wanted position, and the same with the deferred tokens.
void add_own_bans(Batch& feed, const PassSettings& settings, const PassShape& shape,
                  std::span<const PassRow> rows, size_t vocab, const Workers& workers) {
  const Shape lines{shape.capacity, static_cast<int64_t>(vocab)};
  Tensor banned(DType::u8, lines);
  std::vector<std::span<const uint8_t>> bans;
  for (const PassRow& row : rows) {
    for (size_t i = 0; i < row.pass->positions.size(); ++i)
      bans.push_back(banned_at(row, settings, i));
  }
  const std::span<uint8_t> to = banned.mutable_as<uint8_t>();
  parallel(workers, std::ssize(bans), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    std::ranges::copy(bans[at], to.subspan(at * vocab, vocab).begin());
  });
  feed.set("banned", banned);
  if (!shape.defers) return;
  Tensor both = banned.clone();
  const std::span<uint8_t> all = both.mutable_as<uint8_t>();
  for (size_t i = 0; i < all.size(); ++i) all[i] |= settings.deferred[i % vocab];
  feed.set("banned_or_deferred", both);
}

} // namespace

int64_t predicting(int64_t position, int shift, int64_t begin) {
  return std::max(position - shift, begin);
}

void add_window_feed(Batch& feed, const model::ModelConfig& config, const PassSettings& settings,
                     const PassShape& shape, std::span<const PassRow> rows,
                     const DecodeState& state) {
  add_windows(feed, shape, rows, state);
  if (config.canvas)
    add_canvases(feed, shape, rows);
  else if (!config.sliding.empty())
    add_slides(feed, config, shape, rows);
  if (config.time_conditioning) add_times(feed, config, shape, rows);
  if (shape.parts.is_by_row) add_row_adapters(feed, shape, rows);
  if (config.filler.reads_prompt && shape.keys == 0) add_prompts(feed, shape, rows);
  if (shape.soft) add_soft(feed, shape, rows);
  if (shape.biased)
    feed.set("logit_bias", Tensor::from(Shape{config.vocab_size}, settings.logit_bias));
  if (shape.bans && !shape.own_bans)
    feed.set("banned", Tensor::from(Shape{config.vocab_size}, settings.banned));
}

std::span<const uint8_t> banned_at(const PassRow& row, const PassSettings& settings, size_t index) {
  return row.banned.empty() ? settings.banned : *row.banned[index];
}

Batch pass_feed(const model::ModelConfig& config, const PassSettings& settings,
                const PassShape& shape, std::span<const PassRow> rows, const DecodeState& state,
                const Workers& workers) {
  Batch feed;
  add_window_feed(feed, config, settings, shape, rows, state);
  if (shape.capacity == 0) return feed;
  add_queries(feed, settings, shape, rows, static_cast<size_t>(config.vocab_size));
  if (shape.needs.conditions) add_conditioning(feed, config, shape, rows);
  if (shape.needs.looks_left) add_left_tokens(feed, settings, shape, rows);
  if (shape.own_bans) {
    add_own_bans(feed, settings, shape, rows, static_cast<size_t>(config.vocab_size), workers);
  } else if (shape.defers) {
    std::vector<uint8_t> both = settings.deferred;
    for (size_t i = 0; i < settings.banned.size(); ++i) both[i] |= settings.banned[i];
    feed.set("banned_or_deferred", Tensor::from(Shape{config.vocab_size}, both));
  }
  return feed;
}

} // namespace dllm::decode
