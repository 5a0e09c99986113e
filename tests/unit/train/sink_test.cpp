#include "train/sinks/console_sink.h"
#include "train/sinks/event_metrics.h"
#include "train/sinks/jsonl_sink.h"
#include "train/sinks/sink.h"
#include "train/sinks/tensorboard_sink.h"
#include "train/trainer.h"

#include "base/error.h"
#include "base/files.h"
#include "tiny.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <set>
#include <sstream>

namespace dllm::train {
namespace {

Event step(int64_t number) {
  Event event(EventKind::train_step);
  event.set("step", number)
      .set("loss", 2.5)
      .set("lr", 3e-4)
      .set("tokens_per_second", 12345.0)
      .set("mfu", 0.41);
  return event;
}

TEST(ConsoleSink, TheLinePrintsWhatMatters) {
  const std::string line = progress_line(step(25), {25, 100, 30.0, 25}, 120);
  for (const char* part : {"step 25", "[####............]", "25 %", "loss 2.5000", "lr 3.00e-04",
                           "12.3k tok/s", "mfu 41 %", "eta 1:30"}) {
    EXPECT_NE(line.find(part), std::string::npos) << part << " in: " << line;
  }
}

TEST(ConsoleSink, AStepThatWaitedForItsInputShowsIt) {
  Event waited = step(25);
  waited.set("input_wait", 0.25);
  const std::string line = progress_line(waited, {25, 100, 30.0, 25}, 0);
  EXPECT_NE(line.find("input wait 0.25 s"), std::string::npos) << line;
  waited.set("input_wait", 0.001);
  EXPECT_EQ(progress_line(waited, {25, 100, 30.0, 25}, 0).find("input"), std::string::npos);
}

// At any width nothing wraps, and the step is there; the loss stays longer than the rest.
TEST(ConsoleSink, TheLineFitsTheTerminal) {
  for (int columns = 1; columns <= 120; ++columns) {
    const std::string line = progress_line(step(25), {25, 100, 30.0, 25}, columns);
    EXPECT_LE(line.size(), static_cast<size_t>(columns));
    EXPECT_EQ(line.find("step 25"), columns >= 7 ? 0 : std::string::npos) << line;
    EXPECT_EQ(line.find("loss 2.5000") != std::string::npos, columns >= 20) << line;
    EXPECT_EQ(line.find("eta 1:30") != std::string::npos, columns >= 36) << line;
  }
}

TEST(ConsoleSink, AResumedRunCountsTheStepsBefore) {
  // 930 of 1200 were there; 135 more took 27 s, 135 are left.
  const std::string line = progress_line(step(1065), {1065, 1200, 27.0, 135}, 0);
  EXPECT_NE(line.find("88 %"), std::string::npos) << line;
  EXPECT_NE(line.find("eta 0:27"), std::string::npos) << line;
}

TEST(ConsoleSink, MinutesBoundPercentageAndEta) {
  const std::string both = progress_line(step(10), {10, 1000, 90.0, 10, 180.0}, 0);
  EXPECT_NE(both.find("50 %"), std::string::npos) << both;
  EXPECT_NE(both.find("eta 1:30"), std::string::npos) << both;
  const std::string clock = progress_line(step(10), {10, 0, 45.0, 10, 180.0}, 0);
  EXPECT_NE(clock.find("25 %"), std::string::npos) << clock;
  const std::string endless = progress_line(step(10), {10, 0, 45.0, 10}, 0);
  EXPECT_EQ(endless.find('['), std::string::npos) << endless;
}

TEST(ConsoleSink, TokensBoundPercentageAndEta) {
  // 300 of 1000 tokens were there; 200 more took 20 s, 500 are left.
  Event counted = step(10);
  counted.set("tokens", int64_t{500});
  const std::string line = progress_line(counted, {10, 0, 20.0, 4, 0, 1000, 300}, 0);
  EXPECT_NE(line.find("50 %"), std::string::npos) << line;
  EXPECT_NE(line.find("eta 0:50"), std::string::npos) << line;
  const std::string steps = progress_line(counted, {10, 12, 20.0, 4, 0, 1000, 300}, 0);
  EXPECT_NE(steps.find("83 %"), std::string::npos) << steps;
  EXPECT_NE(steps.find("eta 0:10"), std::string::npos) << steps;
}

TEST(JsonlSink, RewindDropsUndoneStepsAndACutLine) {
  const std::string path = testing::TempDir() + "/sink_rewind.jsonl";
  write_file_atomic(path, "{\"note\": 1}\n{\"event\":\"train_step\",\"step\":2}\n"
                          "{\"event\":\"eval\",\"step\":3}\n{\"event\":\"train_step\",\"step\":4}\n"
                          "{\"event\":\"train_st");
  const auto sink = make_sink("jsonl", path, Options(sink_schema()));
  sink->rewind(3);
  sink->write(step(4), {});
  const std::string text = read_text(path);
  EXPECT_TRUE(text.starts_with("{\"note\": 1}\n{\"event\":\"train_step\",\"step\":2}\n"
                               "{\"event\":\"eval\",\"step\":3}\n{"))
      << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
  remove_all(path);
}

TEST(JsonlSink, AppendsOneObjectPerLine) {
  const std::string path = testing::TempDir() + "/sink_test.jsonl";
  remove_all(path);
  Options options(sink_schema());
  for (int run = 0; run < 2; ++run) {
    const auto sink = make_sink("jsonl", path, options);
    for (int i = 0; i < 3; ++i) sink->write(step(i), {});
  }
  std::istringstream lines(read_text(path));
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) {
    EXPECT_EQ(parse_json(line, "line").at("step"), count % 3);
    ++count;
  }
  EXPECT_EQ(count, 6);
  options.set_i64("append", 0);
  options.set_i64("every", 2);
  const auto sink = make_sink("jsonl", path, options);
  for (int i = 0; i < 3; ++i) sink->write(step(i), {});
  const std::string text = read_text(path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  remove_all(path);
}

// Runs `body` in a child whose files end at `bytes`.
template <class F> int with_file_limit(rlim_t bytes, F&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_DFL);
    const rlimit limit{bytes, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_FALSE(WIFSIGNALED(status)) << "signal " << WTERMSIG(status);
  return WEXITSTATUS(status);
}

TEST(JsonlSink, AFullDiskIsReportedOnceAndLosesNoLine) {
  const std::string path = testing::TempDir() + "/sink_full.jsonl";
  remove_all(path);
  const int failed = with_file_limit(100, [&] {
    const auto sink = make_sink("jsonl", path, Options(sink_schema()));
    int errors = 0;
    for (int i = 0; i < 10; ++i) {
      try {
        sink->write(step(i), {});
      } catch (const Error& e) {
        const bool named = e.text().find("sink jsonl: cannot write " + path) != std::string::npos;
        if (!named || e.code() != Code::resource_exhausted) return 2;
        ++errors;
      }
    }
    if (errors != 1) return 3;
    try {
      sink->finish();
      return 4;
    } catch (const Error&) {
    }
    const rlimit room{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &room);
    sink->write(step(10), {});
    sink->finish();
    return 0;
  });
  EXPECT_EQ(failed, 0);
  std::istringstream lines(read_text(path));
  std::string line;
  int64_t count = 0;
  while (std::getline(lines, line)) EXPECT_EQ(parse_json(line, "line").at("step"), count++);
  EXPECT_EQ(count, 11);
  remove_all(path);
}

// One line stands in the file in part, the others wait: each is written once, or never.
TEST(JsonlSink, RewindDropsUndoneStepsThatWait) {
  const std::string path = testing::TempDir() + "/sink_waits.jsonl";
  remove_all(path);
  const int failed = with_file_limit(100, [&] {
    const auto sink = make_sink("jsonl", path, Options(sink_schema()));
    for (int i = 0; i < 6; ++i) {
      try {
        sink->write(step(i), {});
      } catch (const Error&) {
      }
    }
    sink->rewind(3);
    const rlimit room{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &room);
    sink->write(step(4), {});
    sink->finish();
    return 0;
  });
  EXPECT_EQ(failed, 0);
  std::istringstream lines(read_text(path));
  std::string line;
  int64_t count = 0;
  while (std::getline(lines, line)) EXPECT_EQ(parse_json(line, "line").at("step"), count++);
  EXPECT_EQ(count, 5);
  remove_all(path);
}

TEST(JsonlSink, RewindKeepsALink) {
  const std::string path = testing::TempDir() + "/sink_target.jsonl";
  const std::string link = testing::TempDir() + "/sink_link.jsonl";
  write_file_atomic(path, "{\"step\":2}\n{\"step\":4}\n");
  remove_all(link);
  ASSERT_EQ(::symlink(path.c_str(), link.c_str()), 0);
  make_sink("jsonl", link, Options(sink_schema()))->rewind(3);
  EXPECT_TRUE(is_link(link));
  EXPECT_EQ(read_text(path), "{\"step\":2}\n");
  remove_all(link);
  remove_all(path);
}

TEST(JsonlSink, ARunEndsBehindTheStepThatCouldNotBeWritten) {
  auto trainer = tiny_trainer();
  trainer->add_sink("jsonl", "/dev/full", Options(sink_schema()));
  TextSource source;
  std::vector<int64_t> heard;
  const auto listen = [&](const Event& event) {
    heard.push_back(std::get<int64_t>(*event.find("step")));
    return Answer::go_on;
  };
  try {
    trainer->run(source, 5, listen);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::resource_exhausted);
    EXPECT_NE(e.text().find("sink jsonl: cannot write /dev/full"), std::string::npos) << e.text();
  }
  EXPECT_EQ(heard, std::vector<int64_t>{1});
  EXPECT_EQ(trainer->metric("step"), 1);
  EXPECT_TRUE(std::isfinite(trainer->metric("loss")));
  EXPECT_EQ(trainer->steps_done(), 1);
}

Event held_out(int64_t number) {
  Event event(EventKind::eval);
  event.set("step", number).set("loss", 1.25).set("stderr", 0.5);
  return event;
}

TEST(EventMetrics, EveryRowHasANameOfItsOwnAndASentence) {
  std::set<std::string> columns, paths;
  for (const EventMetric& metric : event_metrics()) {
    EXPECT_TRUE(columns.insert(metric.column()).second) << metric.column();
    EXPECT_TRUE(paths.insert(metric.path()).second) << metric.path();
    EXPECT_TRUE(metric.sentence.ends_with('.')) << metric.sentence;
  }
  EXPECT_TRUE(columns.contains("held_out_loss"));
}

// The page lists the table as it is: | `loss` | nats | The number that is minimized. |
TEST(EventMetrics, ThePageAboutTrainingHasTheTable) {
  const std::string page = read_text(DLLM_SOURCE_DIR "/docs/guide/train.md");
  for (const EventMetric& metric : event_metrics()) {
    const std::string row =
        "| `" + metric.column() + "` | " + metric.unit + " | " + metric.sentence + " |";
    EXPECT_NE(page.find(row), std::string::npos) << row;
  }
}

TEST(CsvSink, ALineHasTheNumbersOfItsEventAndNoOthers) {
  const std::string path = testing::TempDir() + "/sink_table.csv";
  remove_all(path);
  const Options options(sink_schema());
  Event odd = step(2);
  odd.set("loss", std::nan("")).set("nll", 0.1).set("part_of_a_script", 7.0);
  for (int start = 0; start < 2; ++start) { // the second one appends, without a second header
    const auto sink = make_sink("csv", path, options);
    if (start == 0) {
      sink->write(step(1), {});
      sink->write(odd, {});
    } else {
      sink->write(held_out(2), {});
    }
    sink->write(Event(EventKind::checkpoint), {});
    sink->finish();
  }
  EXPECT_EQ(
      read_text(path),
      "step,loss,grad_norm,lr,tokens,tokens_per_second,mfu,memory,compiles,skipped,"
      "checkpoint_stall_seconds,input_wait,rank_wait,run_seconds,nll,padding_share,held_out_loss,"
      "held_out_stderr,held_out_bits_per_byte\n"
      "1,2.5,,0.0003,,12345,0.41,,,,,,,,,,,,\n"
      "2,,,0.0003,,12345,0.41,,,,,,,,0.1,,,,\n"
      "2,,,,,,,,,,,,,,,,1.25,0.5,\n");
  make_sink("csv", path, options)->rewind(1);
  const std::string text = read_text(path);
  EXPECT_TRUE(text.ends_with("\n1,2.5,,0.0003,,12345,0.41,,,,,,,,,,,,\n")) << text;
  write_file_atomic(path, "name,age\nx,3\n");
  EXPECT_THROW(make_sink("csv", path, options), Error);
  EXPECT_EQ(read_text(path), "name,age\nx,3\n");
  remove_all(path);
}

// Bit by bit, from the polynomial.
uint32_t slow_crc32c(std::string_view data) {
  uint32_t sum = ~0u;
  for (const char byte : data) {
    sum ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? 0x82F63B78u : 0);
  }
  return ~sum;
}

uint64_t number_at(std::string_view bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i)
    value |= uint64_t{static_cast<uint8_t>(bytes[at + i])} << (8 * i);
  return value;
}

TEST(TensorboardSink, ARecordHasItsLengthAndMaskedChecksums) {
  EXPECT_EQ(slow_crc32c("123456789"), 0xE3069283u); // RFC 3720
  const auto masked = [](std::string_view data) {
    const uint32_t sum = slow_crc32c(data);
    return ((sum >> 15) | (sum << 17)) + 0xA282EAD8u;
  };
  for (const std::string& data :
       {std::string(), std::string("a\nb\0c", 5), std::string(700, 'x')}) {
    const std::string record = framed_record(data);
    ASSERT_EQ(record.size(), data.size() + 16);
    EXPECT_EQ(number_at(record, 0, 8), data.size());
    EXPECT_EQ(number_at(record, 8, 4), masked(record.substr(0, 8)));
    EXPECT_EQ(record.substr(12, data.size()), data);
    EXPECT_EQ(number_at(record, 12 + data.size(), 4), masked(data));
  }
}

TEST(TensorboardSink, AStartWithoutACheckpointReplacesTheFiles) {
  const std::string folder = testing::TempDir() + "/sink_events";
  remove_all(folder);
  Options options(sink_schema());
  for (const int append : {1, 1}) {
    options.set_i64("append", append);
    const auto sink = make_sink("tensorboard", folder, options);
    sink->write(step(1), {});
    sink->write(held_out(1), {});
    sink->rewind(0);
    sink->finish();
  }
  EXPECT_EQ(list_directory(folder).size(), 2u);
  write_file_atomic(folder + "/notes", "mine");
  options.set_i64("append", 0);
  make_sink("tensorboard", folder, options);
  EXPECT_EQ(list_directory(folder).size(), 2u);
  EXPECT_EQ(read_text(folder + "/notes"), "mine");
  remove_all(folder);
}

TEST(Sink, UnknownKindAndBadPathAreErrors) {
  const Options options(sink_schema());
  EXPECT_THROW(make_sink("nowhere", "", options), Error);
  EXPECT_THROW(make_sink("tensorboard", "", options), Error);
  EXPECT_THROW(make_sink("tensorboard", "/dev/null/x", options), Error);
  EXPECT_THROW(make_sink("csv", testing::TempDir(), options), Error);
  EXPECT_THROW(make_sink("jsonl", "", options), Error);
  EXPECT_THROW(make_sink("jsonl", "/nowhere/at/all.jsonl", options), Error);
  EXPECT_THROW(make_sink("jsonl", testing::TempDir(), options), Error);
  const std::string pipe = testing::TempDir() + "/sink_pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(make_sink("jsonl", pipe, options), Error); // opening it would wait for a reader
  remove_all(pipe);
}

} // namespace
} // namespace dllm::train
