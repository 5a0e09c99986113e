// castlehill/trajectories: the rows that three kinds of trajectories show, the choice of a row by a
// mask ratio, and the batches of the two collators with recorded draws.
//
// The generators of castlehill omit the shift in part, and run the model causally. Each case names
// attention and shift, which are options here. Its rows of kind entropy begin after the first step;
// ours begin with the row that hides all tokens, which is left out of the comparison. The random
// masks of a row without a trajectory reach its padding there, which no token sees: padding is
// compared as clean.

#include "text/data/trajectories.h"
#include "decode/trajectory/extractor.h"
#include "handlers.h"
#include "noise/objective.h"
#include "noise/rows/trajectory_masks.h"
#include "runner.h"
#include "text/data/collate.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::parity {
namespace {

using Ids = std::vector<int32_t>;

Ids ids_of(Case& c, const std::string& name) {
  const Tensor tensor = c.array(name).to(DType::i32);
  const auto values = tensor.as<int32_t>();
  return {values.begin(), values.end()};
}

std::vector<Ids> rows_of(Case& c, const std::string& name) {
  const Tensor tensor = c.array(name).to(DType::i32);
  const auto width = static_cast<size_t>(tensor.shape()[1]);
  std::vector<Ids> rows;
  for (size_t r = 0; r < static_cast<size_t>(tensor.shape()[0]); ++r) {
    const auto row = tensor.as<int32_t>().subspan(r * width, width);
    rows.emplace_back(row.begin(), row.end());
  }
  return rows;
}

Tensor tensor_of(const std::vector<Ids>& rows) {
  const auto width = rows.empty() ? 0 : std::ssize(rows[0]);
  Ids all;
  for (const Ids& row : rows) all.insert(all.end(), row.begin(), row.end());
  return Tensor::from(Shape{std::ssize(rows), width}, all);
}

// ---- the rows of trajectories ----

struct Source {
  decode::TrajectoryRow row;
  Json options;
};

Source source_of(Case& c, const Json& entry) {
  Source made;
  const std::string kind = entry.at("kind");
  size_t prompt = 0;
  if (kind == "scheduled") {
    made.row.ids = ids_of(c, "prompt");
    const Ids response = ids_of(c, "response");
    made.row.ids.insert(made.row.ids.end(), response.begin(), response.end());
    prompt = entry.at("prompt_len").get<size_t>();
  } else {
    made.row.ids = ids_of(c, "tokens");
    prompt = entry.at("context_len").get<size_t>();
  }
  const size_t most = entry.value("max_seq_len", made.row.ids.size());
  made.row.ids.resize(std::min(most, made.row.ids.size()));
  made.row.given.assign(made.row.ids.size(), 0);
  std::fill_n(made.row.given.begin(), std::min(prompt, made.row.given.size()), uint8_t{1});
  made.options = {{"method", kind == "lr" ? "left_to_right" : kind},
                  {"steps", entry.at("num_steps")}};
  if (kind == "lr") return made;
  made.options["attention"] = entry.at("attention");
  made.options["shift"] = entry.at("shift").get<bool>() ? 1 : 0;
  made.options["suppress_mask"] = false;
  if (entry.contains("entropy_threshold"))
    made.options["threshold"] = entry.at("entropy_threshold");
  return made;
}

// Both forms of a line keep the trajectory.
void check_lines(Case& c, const text::Trajectory& made, const Ids& ids, int32_t mask) {
  const auto order = Tensor::from(Shape{made.length()}, made.order);
  for (const std::string& line : {text::rows_line(made, ids, mask), text::compact_line(made)}) {
    const text::Trajectory read = text::parse_trajectory(line, "line");
    c.equal(Tensor::from(Shape{read.length()}, read.order), order, "order of a line");
    c.equal(read.prompt, made.prompt, "prompt of a line");
  }
}

void run_extraction(Case& c, const Json& entry) {
  const Source source = source_of(c, entry);
  const auto mask = entry.at("mask_id").get<int32_t>();
  std::shared_ptr<model::Model> model;
  if (entry.contains("model")) {
    model = c.topic().model(entry.at("model"));
    model->set_mask_token(mask);
  }
  Options options(decode::trajectory_schema());
  options.set_json(source.options);
  decode::TrajectoryExtractor extractor(model, options, mask);
  c.equal(extractor.mask_id(), mask, "mask token");
  const text::Trajectory made = extractor.run({&source.row, 1}, nullptr).front();
  const int64_t first = entry.at("kind") == "entropy" ? 1 : 0;
  c.equal(made.rows() - first, entry.at("rows").get<int64_t>(), "rows");
  const Ids& last = made.tokens.empty() ? source.row.ids : made.tokens;
  std::vector<Ids> rows;
  for (int64_t r = first; r < made.rows(); ++r)
    rows.push_back(text::trajectory_row(made, last, mask, r));
  c.equal(tensor_of(rows), c.array("rows"), "rows");
  if (made.rows() > 1) check_lines(c, made, source.row.ids, mask);
}

// ---- batches ----

struct Batches {
  std::vector<text::Example> rows;
  std::vector<Ids> orders;
  int64_t width() const {
    size_t longest = 0;
    for (const text::Example& row : rows) longest = std::max(longest, row.ids.size());
    return static_cast<int64_t>(longest);
  }
};

Batch batch_of(const Batches& all) {
  const text::PaddedRows padded = text::pad_rows(all.rows, 0, 0, text::PadSide::right);
  const Shape shape{std::ssize(all.rows), padded.width};
  Batch batch;
  batch.set("ids", Tensor::from(shape, padded.ids));
  batch.set("keep", Tensor::from(shape, padded.keep));
  batch.set("segments", Tensor::from(shape, Ids(padded.seen.begin(), padded.seen.end())));
  if (!padded.trajectory.empty())
    batch.set(text::kTrajectory, Tensor::from(shape, padded.trajectory));
  return batch;
}

Batch prepared(const Batch& raw, Json options, int64_t mask) {
  Options own(noise::objective_schema("open_dllm"));
  options["compat"] = "open-dllm";
  own.set_json(options);
  noise::PrepareContext context;
  context.mask_id = mask;
  context.vocab = mask + 1;
  return noise::make_objective("open_dllm", nullptr, own)->prepare(raw, 0, 0, context);
}

Ids labels_of(const Batch& made) {
  Ids labels;
  for (const int32_t target : made.at("targets").as<int32_t>())
    labels.push_back(target < 0 ? -100 : target);
  return labels;
}

// 1 where the next token of the row is masked.
std::vector<float> left_masks(std::span<const int32_t> ids, int64_t width, int32_t mask) {
  std::vector<float> made;
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool last = static_cast<int64_t>(i) % width == width - 1;
    made.push_back(!last && ids[i + 1] == mask ? 1.0f : 0.0f);
  }
  return made;
}

Tensor arange_rows(const Shape& shape) {
  Ids made;
  for (int64_t i = 0; i < shape.count(); ++i) made.push_back(static_cast<int32_t>(i % shape[1]));
  return Tensor::from(shape, made);
}

// Reads the example and its trajectory, which travels as a line of a file.
void add_example(Case& c, const Json& entry, size_t j, Batches& all) {
  const std::string number = std::to_string(j);
  const auto mask = entry.at("mask_id").get<int32_t>();
  text::Example row;
  row.ids = ids_of(c, "ids" + number);
  for (const int32_t label : ids_of(c, "labels" + number)) row.keep.push_back(label < 0 ? 1 : 0);
  const auto idx = entry.at("sample_idx").at(j).get<int64_t>();
  const auto prompt = entry.at("prompt_len").at(j).get<int64_t>();
  c.equal(row.prompt(), prompt, "prompt_len");
  const Json& missing = entry.at("missing");
  const bool is_missing = std::ranges::find(missing, Json(j)) != missing.end();
  c.check(c.has("rows" + number) != is_missing, "a row is missing or has a trajectory");
  if (is_missing) {
    row.trajectory.assign(row.ids.size(), -1);
  } else {
    text::Trajectory made = text::trajectory_of(rows_of(c, "rows" + number), mask, prompt, "rows");
    made.idx = idx;
    const text::Trajectory read =
        text::parse_trajectory(text::rows_line(made, made.tokens, mask), "line");
    c.equal(read.idx, idx, "idx");
    row.trajectory = read.order;
    row.trajectory.resize(row.ids.size(), 0);
  }
  all.rows.push_back(std::move(row));
}

// Sets the recorded draws: the jitter, then those of the rows without a trajectory.
void set_draws(Case& c, const Json& entry, const Batches& all, Batch& batch) {
  int64_t count = 0;
  for (const Json& draws : entry.at("draws")) count += draws.get<int64_t>();
  c.equal(c.has("u") ? c.array("u").count() : 0, count, "number of draws");
  if (count == 0) return;
  const auto draws = c.array("u").as<float>();
  if (entry.at("missing").empty()) return batch.set("u_jitter", Tensor::from(Shape{1}, draws));
  const auto row = entry.at("missing").at(0).get<size_t>();
  const auto width = static_cast<size_t>(all.width());
  std::vector<float> masks(all.rows.size() * width, 1.0f);
  std::ranges::copy(draws, masks.begin() +
                               static_cast<std::ptrdiff_t>(row * width + width - draws.size()));
  batch.set("u_mask", Tensor::from(Shape{std::ssize(all.rows), all.width()}, masks));
}

// Sets values of padding to `clean`.
template <class T> Tensor without_padding(const Tensor& values, const Tensor& seen, T clean) {
  Tensor made = values.clone();
  for (size_t i = 0; i < made.template as<T>().size(); ++i) {
    if (seen.as<int32_t>()[i] == 0) made.template mutable_as<T>()[i] = clean;
  }
  return made;
}

void compare_batch(Case& c, const Batch& raw, const Batch& made, int32_t mask) {
  const Tensor seen = raw.at("segments");
  const Shape shape = seen.shape();
  c.equal(seen, c.array("out.attention_mask"), "attention_mask");
  c.equal(made.at("ids"), without_padding<int32_t>(c.array("out.input_ids"), seen, 0), "input_ids");
  c.equal(Tensor::from(shape, labels_of(made)), c.array("out.labels"), "labels");
  c.equal(raw.at("ids"), c.array("out.casual_input_ids"), "casual_input_ids");
  Ids labels;
  for (size_t i = 0; i < raw.at("ids").as<int32_t>().size(); ++i)
    labels.push_back(raw.at("keep").as<uint8_t>()[i] != 0 ? -100 : raw.at("ids").as<int32_t>()[i]);
  c.equal(Tensor::from(shape, labels), c.array("out.casual_labels"), "casual_labels");
  Tensor next(DType::i32, shape); // of left_mask: 1 where the next token is no padding
  for (size_t i = 0; i + 1 < seen.as<int32_t>().size(); ++i)
    next.mutable_as<int32_t>()[i] = seen.as<int32_t>()[i + 1];
  c.equal(Tensor::from(shape, left_masks(made.at("ids").as<int32_t>(), shape[1], mask)),
          without_padding<float>(c.array("out.left_mask"), next, 0.0f), "left_mask");
  c.equal(arange_rows(shape), c.array("out.position_ids"), "position_ids");
  c.equal(made.at("mask_ratio"), c.array("out.mask_ratio"), "mask_ratio");
}

void run_collator(Case& c, const Json& entry) {
  Batches all;
  for (size_t j = 0; j < entry.at("prompt_len").size(); ++j) add_example(c, entry, j, all);
  Batch raw = batch_of(all);
  set_draws(c, entry, all, raw);
  // The ratio of the first update of a ramp. A current ratio above the largest is not raised.
  const double current = entry.at("current_mask_ratio"), most = entry.at("max_mask_ratio");
  const Json options{{"trajectory_min_ratio", current},
                     {"trajectory_max_ratio", std::max(current, most)},
                     {"trajectory_ramp", 100}};
  Options own(noise::objective_schema("open_dllm"));
  own.set_json(options);
  const float jitter = raw.has("u_jitter") ? raw.at("u_jitter").as<float>()[0] : 0.0f;
  c.close({1e-12, 0}, noise::TrajectoryMasks(own).jittered(0, jitter), entry.at("used_ratio"),
          "used_ratio");
  const auto mask = entry.at("mask_id").get<int32_t>();
  compare_batch(c, raw, prepared(raw, options, mask), mask);
}

// Random masks: our rows, one for each example, are laid end to end for the comparison.
void run_random(Case& c, const Json& entry) {
  Batches all;
  std::vector<float> ratios, draws;
  for (size_t j = 0; j < entry.at("lengths").size(); ++j) {
    text::Example row;
    row.ids = ids_of(c, "ids" + std::to_string(j));
    c.equal(std::ssize(row.ids), entry.at("lengths").at(j).get<int64_t>(), "length");
    row.keep.assign(row.ids.size(), 0);
    all.rows.push_back(row);
    ratios.push_back(c.array("u_ratio" + std::to_string(j)).as<float>()[0]);
  }
  const auto width = static_cast<size_t>(all.width());
  draws.assign(all.rows.size() * width, 1.0f);
  for (size_t j = 0; j < all.rows.size(); ++j)
    std::ranges::copy(c.array("u_mask" + std::to_string(j)).as<float>(),
                      draws.begin() + static_cast<std::ptrdiff_t>(j * width));
  Batch raw = batch_of(all);
  raw.set("t", Tensor::from(Shape{std::ssize(all.rows)}, ratios));
  raw.set("u_mask", Tensor::from(Shape{std::ssize(all.rows), all.width()}, draws));
  const auto mask = entry.at("mask_id").get<int32_t>();
  const Batch made = prepared(raw,
                              {{"min_mask_ratio", entry.at("min_mask_ratio")},
                               {"max_mask_ratio", entry.at("max_mask_ratio")}},
                              mask);
  const Ids labels = labels_of(made);
  const std::vector<float> left = left_masks(made.at("ids").as<int32_t>(), all.width(), mask);
  Ids got_ids, got_labels, clean, clean_labels, seen, positions;
  std::vector<float> got_left, got_ratios;
  for (size_t j = 0; j < all.rows.size(); ++j) {
    for (size_t i = 0; i < all.rows[j].ids.size(); ++i) {
      const size_t at = j * width + i;
      got_ids.push_back(made.at("ids").as<int32_t>()[at]);
      got_labels.push_back(labels[at]);
      got_left.push_back(i + 1 < all.rows[j].ids.size() ? left[at] : 0.0f);
      got_ratios.push_back(made.at("mask_ratio").as<float>()[j]);
      clean.push_back(raw.at("ids").as<int32_t>()[at]);
      // Nothing before the second example predicts its first token.
      clean_labels.push_back(i == 0 && j > 0 ? -100 : clean.back());
      seen.push_back(raw.at("segments").as<int32_t>()[at]);
      positions.push_back(static_cast<int32_t>(i));
    }
  }
  const Shape shape{1, std::ssize(got_ids)};
  const std::pair<const char*, const Ids*> same[] = {
      {"input_ids", &got_ids},          {"labels", &got_labels},   {"casual_input_ids", &clean},
      {"casual_labels", &clean_labels}, {"attention_mask", &seen}, {"position_ids", &positions}};
  for (const auto& [name, values] : same)
    c.equal(Tensor::from(shape, *values), c.array(std::string("out.") + name), name);
  c.equal(Tensor::from(shape, got_left), c.array("out.left_mask"), "left_mask");
  c.equal(Tensor::from(shape, got_ratios), c.array("out.mask_ratio"), "mask_ratio");
}

} // namespace

void run_trajectories(Topic& topic) {
  for (const Json& entry : topic.list("cases"))
    topic.run(entry, [&](Case& c) { run_extraction(c, entry); });
  topic.run(std::string("selection"), [&](Case& c) {
    for (const Json& entry : topic.list("selection")) {
      const auto rows = entry.at("rows").get<int64_t>();
      const double ratio = entry.at("ratio");
      c.equal(noise::linear_row(rows, ratio), entry.at("index").get<int64_t>(),
              "index of " + entry.dump());
    }
  });
  for (const Json& entry : topic.list("collators")) {
    const std::string kind = entry.at("kind");
    topic.run(entry, [&](Case& c) {
      c.check(kind == "trajectory" || kind == "random", "kind " + kind);
      kind == "random" ? run_random(c, entry) : run_collator(c, entry);
    });
  }
}

} // namespace dllm::parity
