// Trajectories: lines in both forms, files that are continued, and batches of a loader.

#include "text/data/trajectory.h"

#include "../scratch.h"
#include "../tokenizer/byte_tokenizer.h"
#include "base/error.h"
#include "base/files.h"
#include "base/made_with.h"
#include "text/data/loader.h"
#include "text/data/trajectories.h"
#include "text/data/trajectory_file.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <random>

namespace dllm::text {
namespace {

constexpr int32_t kHidden = 99;

Trajectory sample() {
  Trajectory made;
  made.idx = 7;
  made.prompt = 2;
  made.order = {0, 0, 3, 1, 1, 2};
  return made;
}

TEST(Trajectory, HidesWhatLaterRowsShow) {
  const std::vector<int32_t> ids = {5, 6, 7, 8, 9, 10};
  const Trajectory made = sample();
  EXPECT_EQ(made.rows(), 4);
  const auto row = [&](int64_t number) { return trajectory_row(made, ids, kHidden, number); };
  EXPECT_EQ(row(0), (std::vector<int32_t>{5, 6, 99, 99, 99, 99}));
  EXPECT_EQ(row(1), (std::vector<int32_t>{5, 6, 99, 8, 9, 99}));
  EXPECT_EQ(row(3), ids);
}

TEST(Trajectory, BothFormsKeepIt) {
  const std::vector<int32_t> ids = {5, 6, 7, 8, 9, 10};
  Trajectory made = sample();
  made.key = row_key_text(ids);
  const Trajectory rows = parse_trajectory(rows_line(made, ids, kHidden), "line");
  const Trajectory compact = parse_trajectory(compact_line(made), "line");
  for (const Trajectory* read : {&rows, &compact}) {
    EXPECT_EQ(read->idx, 7);
    EXPECT_EQ(read->prompt, 2);
    EXPECT_EQ(read->order, made.order);
  }
  EXPECT_EQ(rows.tokens, ids);
  EXPECT_EQ(compact.key, made.key);
  EXPECT_LT(compact_line(made).size(), rows_line(made, ids, kHidden).size());
  made.tokens = {5, 6, 1, 2, 3, 4}; // predicted
  EXPECT_EQ(parse_trajectory(compact_line(made), "line").tokens, made.tokens);
  EXPECT_EQ(rows_line(made, ids, kHidden).find(",7]"), std::string::npos) << "shows predictions";
}

// Lines as castlehill writes them: no prompt_len, and no row that hides everything.
TEST(Trajectory, ReadsLinesOfTheOriginal) {
  const Trajectory read = parse_trajectory(
      R"({"idx": 3, "trajectory": [[1, 2, 61, 61, 5], [1, 2, 61, 4, 5], [1, 2, 3, 4, 5]], "nfe": 3})",
      "line");
  EXPECT_EQ(read.prompt, 2);
  EXPECT_EQ(read.order, (std::vector<int32_t>{0, 0, 2, 1, 0}));
}

TEST(Trajectory, NamesWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([1])", "f:3: expected a JSON object"},
      {R"({"idx": 0})", "f:3: there is neither a member order nor trajectory"},
      {R"({"trajectory": [[1]]})", "f:3: member idx is missing"},
      {R"({"idx": -1, "order": []})", "f:3: member idx has -1, which is not in 0 to"},
      {R"({"idx": 0, "trajectory": []})", "f:3: the trajectory has no rows"},
      {R"({"idx": 0, "trajectory": [[1, 2], [1]]})",
       "f:3: row 0 of the trajectory has 2 tokens, its last row has 1"},
      {R"({"idx": 0, "trajectory": [[9, 8], [1, 2]]})",
       "f:3: the first row of the trajectory hides tokens by 9 and by 8"},
      {R"({"idx": 0, "trajectory": [[9, 9], [1, 9], [1, 9]]})",
       "f:3: the last row of the trajectory still hides position 1"},
      {R"({"idx": 0, "trajectory": [[9, 9], [1, 9], [2, 2]]})",
       "f:3: row 1 of the trajectory changes position 0, which row 1 shows"},
      {R"({"idx": 0, "trajectory": [[9], [1]], "prompt_len": 1})",
       "f:3: the trajectory hides position 0, which is in the prompt of 1"},
      {R"({"idx": 0, "trajectory": [[9], [1]], "nfe": 3})",
       "f:3: nfe is 3, but the trajectory has 2 rows"},
      {R"({"idx": 0, "prompt_len": 2, "len": 4, "order": [1]})",
       "f:3: prompt_len 2 and 1 numbers of order are not len 4"},
      {R"({"idx": 0, "prompt_len": 0, "len": 1, "order": [2000000]})",
       "f:3: order has 2000000, a trajectory has at most"},
      {R"({"idx": 0, "prompt_len": 0, "len": 1, "order": ["x"]})",
       "f:3: member order is not made of whole numbers"},
      {R"({"idx": 0, "prompt_len": 0, "len": 1, "order": [1], "tokens": []})",
       "f:3: tokens has 0 numbers, but len is 1"}};
  for (const auto& [line, text] : cases) {
    const std::string got = test::error_text([&, line = line] { parse_trajectory(line, "f:3"); });
    EXPECT_EQ(got.substr(0, std::string_view(text).size()), text) << line;
  }
}

// Any order survives both forms.
TEST(Trajectory, RandomOrdersSurvive) {
  std::mt19937 random(4);
  for (int round = 0; round < 40; ++round) {
    Trajectory made;
    made.idx = round;
    const size_t length = 1 + random() % 30;
    made.prompt = static_cast<int64_t>(random() % length);
    made.order.assign(length, 0);
    std::vector<int32_t> ids(length);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % 90);
    for (size_t i = static_cast<size_t>(made.prompt); i < length; ++i)
      made.order[i] = static_cast<int32_t>(1 + random() % 6);
    EXPECT_EQ(parse_trajectory(rows_line(made, ids, kHidden), "line").order, made.order);
    EXPECT_EQ(parse_trajectory(compact_line(made), "line").order, made.order);
  }
}

std::vector<int64_t> indices(const std::string& path) {
  std::vector<int64_t> made;
  read_trajectories(path, nullptr,
                    [&](Trajectory&& read, const std::string&) { made.push_back(read.idx); });
  return made;
}

std::string line_of(int64_t idx) {
  Trajectory made = sample();
  made.idx = idx;
  return compact_line(made);
}

const Json kSettings{{"method", "scheduled"}, {"steps", 8}, {"teacher", {{"weights", "ab"}}}};

TEST(TrajectoryFile, GoesOnAfterATornLine) {
  const Scratch folder;
  write_settings(settings_path(folder.path("t.jsonl")), kSettings);
  const std::string whole = line_of(0) + "\n" + line_of(4) + "\n";
  // A line may be cut at any byte.
  const std::string last = line_of(5);
  for (size_t cut = 0; cut <= last.size(); ++cut) {
    const std::string path = folder.write("t.jsonl", whole + last.substr(0, cut));
    TrajectoryFile file(path, kSettings, false, nullptr);
    EXPECT_TRUE(file.has(0) && file.has(4) && !file.has(1));
    EXPECT_EQ(file.has(5), cut == last.size()) << cut;
    file.append(9, line_of(9));
    EXPECT_TRUE(file.has(9));
    const std::vector<int64_t> wanted =
        cut == last.size() ? std::vector<int64_t>{0, 4, 5, 9} : std::vector<int64_t>{0, 4, 9};
    ASSERT_EQ(indices(path), wanted) << cut;
  }
}

TEST(TrajectoryFile, ReplacesNoOtherFile) {
  const Scratch folder;
  const std::string text = folder.write("novel.txt", "Call me Ishmael.\nSome years ago\n");
  test::expect_error(Code::already_exists, "not a file of trajectories",
                     [&] { TrajectoryFile file(text, kSettings, true, nullptr); });
  EXPECT_EQ(std::filesystem::file_size(text), 32) << "the text is as it was";
}

TEST(TrajectoryFile, RefusesOtherFiles) {
  const Scratch folder;
  const std::string path = folder.write("t.jsonl", line_of(0) + "\nno JSON\n" + line_of(1) + "\n");
  EXPECT_NE(test::error_text([&] {
              TrajectoryFile file(path, kSettings, false, nullptr);
            }).find("t.jsonl:2"),
            std::string::npos);
  const std::string twice = folder.write("u.jsonl", line_of(3) + "\n" + line_of(3) + "\n");
  EXPECT_NE(test::error_text([&] {
              TrajectoryFile file(twice, kSettings, false, nullptr);
            }).find("u.jsonl:2: idx 3 has a trajectory in an earlier line"),
            std::string::npos);
}

// Lines that were made in another way are not continued, and the error says how they were made.
TEST(TrajectoryFile, RefusesOtherSettings) {
  const Scratch folder;
  const std::string path = folder.path("t.jsonl");
  TrajectoryFile(path, kSettings, false, nullptr).append(0, line_of(0));
  const auto opened = [&](const Json& changed, bool fresh = false) {
    Json settings = kSettings;
    settings.merge_patch(changed);
    return test::error_text([&] { TrajectoryFile file(path, settings, fresh, nullptr); });
  };
  EXPECT_EQ(opened(Json::object()), "no error");
  EXPECT_EQ(opened({{"steps", 4}}), path + " was made with steps 8, here 4");
  EXPECT_EQ(opened({{"teacher", {{"weights", "cd"}}}}),
            path + " was made with teacher.weights \"ab\", here \"cd\"");
  EXPECT_EQ(opened({{"teacher", nullptr}}),
            path + " was made with teacher {\"weights\":\"ab\"}, here null");
  EXPECT_EQ(opened({{"lines", "rows"}}), path + " was made with lines null, here \"rows\"");
  EXPECT_EQ(indices(path), std::vector<int64_t>{0}) << "a refused call changes nothing";
  EXPECT_EQ(opened({{"steps", 4}}, true), "no error");
  EXPECT_EQ(indices(path), std::vector<int64_t>{}) << "fresh begins again";
  EXPECT_EQ(opened(Json::object()), "no error") << "a file without lines has no settings";
  TrajectoryFile(path, kSettings, false, nullptr).append(0, line_of(0));
  remove_all(settings_path(path));
  EXPECT_NE(opened(Json::object()).find("is missing, which says how it was made"),
            std::string::npos);
}

TEST(TrajectoryFile, HasOneWriter) {
  const Scratch folder;
  const std::string path = folder.path("t.jsonl");
  const auto opened = [&] {
    return test::error_text([&] { TrajectoryFile file(path, kSettings, false, nullptr); });
  };
  {
    const TrajectoryFile first(path, kSettings, false, nullptr);
    EXPECT_EQ(opened(), path + " is in use: another process writes to it");
  }
  EXPECT_EQ(opened(), "no error");
}

// ---- batches ----

std::shared_ptr<Dataset> data_of(const std::vector<std::string>& answers) {
  Options options(dataset_schema());
  options.set_i64("append_eos", 0);
  auto data = std::make_shared<Dataset>(make_byte_tokenizer(), options);
  for (const std::string& answer : answers)
    data->add(Json{{"prompt", "ab"}, {"response", answer}}.dump());
  return data;
}

Options loader_options(const Json& settings) {
  Options options(loader_schema());
  options.set_json(settings);
  return options;
}

Trajectory trajectory_for(const Dataset& data, int64_t row, const std::vector<int32_t>& order) {
  Trajectory made;
  made.idx = row;
  made.prompt = 2;
  made.order = {0, 0};
  made.order.insert(made.order.end(), order.begin(), order.end());
  made.key = row_key_text(data.row(row).ids);
  return made;
}

TEST(Loader, CarriesTheOrderOfARow) {
  const Scratch folder;
  const auto data = data_of({"cdef", "gh", "ijk"});
  const std::string path =
      folder.write("t.jsonl", compact_line(trajectory_for(*data, 2, {3, 1, 2})) + "\n" +
                                  compact_line(trajectory_for(*data, 0, {2, 2, 1, 3})) + "\n");
  const Json base{{"batch", 3}, {"length", 7}, {"pack", false}, {"shuffle", false}};
  const auto numbers = [&](Json settings) {
    settings.update(base);
    settings["trajectories"] = path;
    const Batch batch = Loader(data, loader_options(settings)).next();
    const auto all = batch.at(kTrajectory).as<int32_t>();
    return std::vector<int32_t>(all.begin(), all.end());
  };
  EXPECT_EQ(numbers({}), (std::vector<int32_t>{0,  0,  2,  2,  1, 3, 0, //
                                               -1, -1, -1, -1, 0, 0, 0, //
                                               0,  0,  3,  1,  2, 0, 0}));
  EXPECT_EQ(numbers({{"pad_side", "left"}}), (std::vector<int32_t>{0, 0, 0, 2,  2,  1,  3,  //
                                                                   0, 0, 0, -1, -1, -1, -1, //
                                                                   0, 0, 0, 0,  3,  1,  2}));
}

TEST(Loader, CutsTheOrderWithItsRow) {
  const Scratch folder;
  const auto data = data_of({"cdef"});
  const std::string path =
      folder.write("t.jsonl", compact_line(trajectory_for(*data, 0, {4, 2, 1, 3})) + "\n");
  const auto numbers = [&](const char* side) {
    const Batch batch = Loader(data, loader_options({{"batch", 1},
                                                     {"length", 4},
                                                     {"pack", false},
                                                     {"truncate", side},
                                                     {"trajectories", path}}))
                            .next();
    const auto all = batch.at(kTrajectory).as<int32_t>();
    return std::vector<int32_t>(all.begin(), all.end());
  };
  EXPECT_EQ(numbers("right"), (std::vector<int32_t>{0, 0, 4, 2}));
  EXPECT_EQ(numbers("left"), (std::vector<int32_t>{4, 2, 1, 3}));
}

TEST(Loader, RefusesTrajectoriesOfOtherData) {
  const Scratch folder;
  const auto data = data_of({"cdef"}), other = data_of({"cdeg"});
  const auto opened = [&](const std::string& line, Json settings) {
    settings["trajectories"] = folder.write("t.jsonl", line + "\n");
    settings["length"] = 8;
    return test::error_text([&] { Loader(data, loader_options(settings)); });
  };
  const Json rows{{"pack", false}};
  Trajectory made = trajectory_for(*other, 0, {1, 2, 3, 4});
  EXPECT_NE(opened(compact_line(made), rows)
                .find("t.jsonl:1: the trajectory of row 0 is of another text: its key is"),
            std::string::npos);
  made.key.clear();
  EXPECT_EQ(opened(compact_line(made), rows), "no error") << "the prompts agree";
  made.tokens = {97, 120, 1, 2, 3, 4};
  EXPECT_NE(opened(compact_line(made), rows).find("token 1 of the prompt is 120, expected"),
            std::string::npos);
  made.tokens.clear();
  made.idx = 1;
  EXPECT_NE(opened(compact_line(made), rows).find("idx is 1, but the data has 1 rows"),
            std::string::npos);
  made.idx = 0;
  made.order.push_back(5);
  EXPECT_NE(opened(compact_line(made), rows).find("it has 7 tokens, the row has 6"),
            std::string::npos);
  made.order.pop_back();
  EXPECT_NE(opened(compact_line(made), {{"pack", true}})
                .find("trajectories is for rows that are not packed"),
            std::string::npos);
  EXPECT_NE(opened(compact_line(made), {{"pack", false}, {"eos_block", 8}}).find("eos_block"),
            std::string::npos);
}

} // namespace
} // namespace dllm::text
