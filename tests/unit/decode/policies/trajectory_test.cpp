// Extraction of trajectories: what each kind shows, and files that a stopped call continues.

#include "base/error.h"
#include "decode/trajectory/extract_file.h"
#include "text/data/trajectory_file.h"
#include "unit/decode/requests.h"
#include "unit/test_files.h"
#include "unit/text/scratch.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dllm::decode {
namespace {

Options options_of(const Json& settings) {
  Options options(trajectory_schema());
  options.set_json(settings);
  return options;
}

TrajectoryRow row_of(int64_t idx, int64_t length, int64_t prompt) {
  TrajectoryRow row;
  row.idx = idx;
  for (int64_t i = 0; i < length; ++i) {
    row.ids.push_back(static_cast<int32_t>((i * 7 + idx * 3) % kMask));
    row.given.push_back(i < prompt ? 1 : 0);
  }
  return row;
}

std::vector<int64_t> hidden_counts(const text::Trajectory& made) {
  std::vector<int64_t> counts;
  for (int64_t row = 0; row < made.rows(); ++row)
    counts.push_back(std::ranges::count_if(made.order, [&](int32_t o) { return o > row; }));
  return counts;
}

text::Trajectory extract(const Json& settings, const TrajectoryRow& row) {
  TrajectoryExtractor extractor(tiny_model(), options_of(settings), -1);
  return extractor.run({&row, 1}, nullptr).front();
}

TEST(Trajectories, ScheduledShowsTheSameNumberInEachRow) {
  const TrajectoryRow row = row_of(4, 14, 4);
  const text::Trajectory made = extract({{"method", "scheduled"}, {"steps", 4}}, row);
  EXPECT_EQ(made.idx, 4);
  EXPECT_EQ(made.prompt, 4);
  EXPECT_TRUE(made.tokens.empty()) << "the tokens of the data";
  EXPECT_EQ(hidden_counts(made), (std::vector<int64_t>{10, 7, 4, 1, 0})); // spec 17.5
}

TEST(Trajectories, LeftToRightNeedsNoModel) {
  const TrajectoryRow row = row_of(0, 12, 3);
  TrajectoryExtractor extractor(nullptr, options_of({{"method", "left_to_right"}, {"steps", 4}}),
                                5);
  const text::Trajectory made = extractor.run({&row, 1}, nullptr).front();
  EXPECT_EQ(hidden_counts(made), (std::vector<int64_t>{9, 7, 5, 3, 1, 0})); // spec 17.5
  EXPECT_TRUE(std::ranges::is_sorted(made.order));
}

TEST(Trajectories, BlockWiseEndsABlockBeforeTheNext) {
  const TrajectoryRow row = row_of(1, 17, 3);
  const text::Trajectory made = extract({{"method", "block_wise"}, {"block_length", 5}}, row);
  EXPECT_EQ(made.rows(), 15) << "threshold 0 shows one token in each row";
  for (size_t i = 3; i < 17; ++i)
    EXPECT_EQ((made.order[i] - 1) / 5, static_cast<int32_t>((i - 3) / 5)) << i;
  EXPECT_EQ(made.tokens.size(), 17u);
  EXPECT_EQ(std::ranges::count(made.tokens, kMask), 0);
  const text::Trajectory fast =
      extract({{"method", "block_wise"}, {"block_length", 5}, {"threshold", 100}}, row);
  EXPECT_EQ(fast.rows(), 4) << "a block in each row";
}

TEST(Trajectories, EntropyKeepsItsBudget) {
  const TrajectoryRow row = row_of(1, 24, 4);
  const text::Trajectory made =
      extract({{"method", "entropy"}, {"steps", 3}, {"threshold", 0}}, row);
  EXPECT_EQ(hidden_counts(made), (std::vector<int64_t>{20, 19, 18, 17, 0}));
  const text::Trajectory data =
      extract({{"method", "entropy"}, {"steps", 3}, {"threshold", 0}, {"fill", "data"}}, row);
  EXPECT_TRUE(data.tokens.empty());
}

// A trajectory is that of its row, whatever the other rows of the pass are.
TEST(Trajectories, RowsDoNotDependOnEachOther) {
  const std::vector<TrajectoryRow> rows = {row_of(0, 12, 3), row_of(1, 40, 2), row_of(2, 9, 9),
                                           row_of(3, 13, 0)};
  for (const char* kind : {"scheduled", "entropy", "block_wise"}) {
    const Json settings{{"method", kind}};
    TrajectoryExtractor together(tiny_model(), options_of(settings), -1);
    const std::vector<text::Trajectory> made = together.run(rows, nullptr);
    for (size_t r = 0; r < rows.size(); ++r) {
      const text::Trajectory alone = extract(settings, rows[r]);
      EXPECT_EQ(made[r].order, alone.order) << kind << r;
      EXPECT_EQ(made[r].tokens, alone.tokens) << kind << r;
    }
    EXPECT_EQ(made[2].rows(), 1) << "nothing is hidden";
  }
}

// Attention and shift of the teacher change what it is certain of.
TEST(Trajectories, UseAttentionAndShift) {
  const TrajectoryRow row = row_of(1, 30, 4);
  const auto order = [&](const Json& settings) { return extract(settings, row).order; };
  const auto usual = order(Json::object());
  EXPECT_EQ(usual, order({{"attention", "bidirectional"}, {"shift", 0}}));
  EXPECT_NE(usual, order({{"attention", "causal"}}));
  EXPECT_NE(usual, order({{"shift", 1}}));
  const TrajectoryRow whole = row_of(1, 10, 0);
  EXPECT_EQ(extract({{"shift", 1}}, whole).prompt, 1) << "no state predicts the first token";
  EXPECT_EQ(extract({{"shift", 0}}, whole).prompt, 0);
}

TEST(Trajectories, NameWhatIsWrong) {
  EXPECT_EQ(test::error_text([] {
              extract({{"method", "scheduled"}, {"threshold", 1}}, row_of(0, 9, 1));
            }),
            "method scheduled does not use option threshold");
  EXPECT_EQ(test::error_text([] {
              TrajectoryExtractor(nullptr, options_of({{"method", "entropy"}}), 3);
            }),
            "method entropy needs a model");
  EXPECT_EQ(test::error_text([] { extract(Json::object(), row_of(3, 70, 1)); }),
            "row 3 has 70 tokens, the model has 64 positions");
  TrajectoryRow foreign = row_of(3, 9, 1);
  foreign.ids[5] = 400;
  EXPECT_EQ(test::error_text([&] { extract(Json::object(), foreign); }),
            "row 3 has the token 400, the model has 31");
}

// ---- files ----

// Rows of ids come from a file: a dataset of a host has texts.
std::shared_ptr<text::Dataset> rows_in(const text::Scratch& folder, int64_t rows) {
  text::TokenRows tokens;
  for (int64_t r = 0; r < rows; ++r) {
    const TrajectoryRow row = row_of(r, 9 + r % 5, 0);
    tokens.add(row.ids, {}, true);
  }
  const std::string path = folder.path("rows.tok");
  text::save_token_file(path, tokens, {kVocab, {}, 0}, true, nullptr);
  return text::Dataset::open(path, nullptr, Options(text::dataset_schema()), nullptr);
}

std::string content(const std::string& path) {
  const InputFile file(path);
  const Bytes bytes = file.read(0, file.size());
  return {reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(file.size())};
}

TEST(Trajectories, AStoppedCallGoesOn) {
  const text::Scratch folder;
  const auto data = rows_in(folder, 11);
  const auto model = tiny_model();
  for (const char* format : {"compact", "rows"}) {
    const std::string whole = folder.path(std::string("whole.") + format),
                      parts = folder.path(std::string("parts.") + format);
    const Json base{{"batch", 3}, {"lines", format}, {"steps", 4}};
    EXPECT_EQ(extract_trajectories(*data, model, whole, options_of(base), nullptr), 11);
    Json few = base;
    few["limit"] = 4;
    EXPECT_EQ(extract_trajectories(*data, model, parts, options_of(few), nullptr), 4);
    // A call that is killed in a line leaves part of it.
    write_file_atomic(parts, content(parts) + content(whole).substr(0, 20));
    EXPECT_EQ(extract_trajectories(*data, model, parts, options_of(few), nullptr), 4);
    EXPECT_EQ(extract_trajectories(*data, model, parts, options_of(base), nullptr), 3);
    EXPECT_EQ(extract_trajectories(*data, model, parts, options_of(base), nullptr), 0);
    EXPECT_EQ(content(parts), content(whole));
  }
}

TEST(Trajectories, ACancelledCallKeepsItsLines) {
  const text::Scratch folder;
  const auto data = rows_in(folder, 6);
  const std::string path = folder.path("t.jsonl");
  Task task;
  task.cancel_at_check(40);
  const Options options = options_of({{"batch", 1}});
  EXPECT_THROW(extract_trajectories(*data, tiny_model(), path, options, &task), Error);
  int64_t kept = 0;
  text::read_trajectories(path, nullptr, [&](text::Trajectory&&, const std::string&) { ++kept; });
  Task again;
  EXPECT_EQ(extract_trajectories(*data, tiny_model(), path, options, &again), 6 - kept);
  EXPECT_EQ(again.done(), again.total());
}

TEST(Trajectories, LeaveShortRowsOut) {
  const text::Scratch folder;
  const auto data = rows_in(folder, 5); // 9 to 13 tokens
  const Options options = options_of({{"least", 11}, {"length", 12}});
  const std::string path = folder.path("t.jsonl");
  EXPECT_EQ(extract_trajectories(*data, tiny_model(), path, options, nullptr), 3);
  std::vector<int64_t> lengths;
  text::read_trajectories(path, nullptr, [&](text::Trajectory&& made, const std::string&) {
    lengths.push_back(made.length());
    EXPECT_EQ(made.prompt, made.length() / 4) << "a quarter is the context";
  });
  EXPECT_EQ(lengths, (std::vector<int64_t>{11, 12, 12}));
}

} // namespace
} // namespace dllm::decode
