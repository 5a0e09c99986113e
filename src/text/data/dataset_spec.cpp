#include "text/data/dataset_spec.h"

#include "base/error.h"
#include "base/files.h"
#include "hub/name.h"
#include "text/data/part_files.h"
#include "text/data/spec_words.h"

#include <glob.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <utility>

namespace dllm::text {

namespace {

constexpr double kMostTimes = 100;
constexpr const char* kGrammarHint =
    "write PATH, PATH[A:B], FOLDER[SPLIT:ROWS] or PATH*TIMES, joined by +: a.jsonl[:1000]*2+folder";

// An address of the hub is taken apart first: it may end in rows and times.
bool exists(const std::string& path) {
  return !hub::is_address(path) && (file_exists(path) || is_directory(path));
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = read.ec == std::errc() && read.ptr == text.data() + text.size();
  return whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<SliceEnd> slice_end(std::string_view text, const std::string& part) {
  if (text.empty()) return std::nullopt;
  const bool percent = text.back() == '%';
  const auto value = number_of(percent ? text.substr(0, text.size() - 1) : text);
  const double most = percent ? 100 : 1e15;
  if (!value || std::abs(*value) > most || (!percent && *value != std::floor(*value))) {
    fail_with_hint(
        "write ends of a slice as whole numbers or percents up to 100: [:1000], [90%:], [-50:]",
        Code::invalid_argument, "{}: {} is not the end of a slice", part, text);
  }
  return SliceEnd{*value, percent};
}

std::vector<std::string> paths_of(const std::string& path, const std::string& part,
                                  RowFiles& files) {
  if (hub::is_address(path)) return {files.place_of(path)};
  if (exists(path)) return {path};
  glob_t found{};
  const int status = ::glob(path.c_str(), 0, nullptr, &found);
  std::vector<std::string> paths;
  for (size_t i = 0; status == 0 && i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  if (!paths.empty()) return paths;
  if (path == part)
    fail_with_hint(kGrammarHint, Code::not_found, "there is no file or folder {}", path);
  fail_with_hint(kGrammarHint, Code::not_found, "{}: there is no file or folder {}", part, path);
}

// Returns true for "[train:100]" and false for "[10:100]": words have a name before the first
// colon.
bool has_words(std::string_view brackets) {
  const size_t colon = brackets.find(':');
  const size_t first = brackets.find_first_not_of(' ');
  return colon != std::string_view::npos && first < colon &&
         std::string_view("+-.0123456789").find(brackets[first]) == std::string_view::npos;
}

// Makes one part for each named split.
std::vector<SpecPart> chosen_splits(const SpecPart& whole, const std::string& words,
                                    RowFiles& files) {
  const SpecWords parsed = parse_spec_words(words);
  std::vector<SpecPart> made;
  for (SplitFiles& split : split_files(parsed.name, parsed, files)) {
    made.push_back(whole);
    made.back().paths = std::move(split.paths);
    if (split.rows > 0) made.back().end = SliceEnd{static_cast<double>(split.rows), false};
  }
  return made;
}

std::vector<SpecPart> parse_part(const std::string& text, RowFiles& files) {
  SpecPart part;
  part.text = text;
  if (text.empty()) {
    fail_with_hint(kGrammarHint, Code::invalid_argument, "a part of the data has no name");
  }
  std::string path = text;
  if (exists(path)) {
    part.paths = {path};
    return {part};
  }
  const size_t star = path.rfind('*');
  const auto times =
      star == std::string::npos ? std::nullopt : number_of(std::string_view(path).substr(star + 1));
  if (times) {
    if (*times <= 0 || *times > kMostTimes) {
      fail_with_hint("leave the part out, or repeat it less", Code::invalid_argument,
                     "{}: its rows are repeated {} times, expected more than 0 and at most {}",
                     text, *times, kMostTimes);
    }
    part.times = *times;
    path.resize(star);
  }
  const size_t open = path.rfind('[');
  const size_t colon = open == std::string::npos ? open : path.find(':', open);
  if (path.ends_with(']') && colon != std::string::npos && !exists(path)) {
    const std::string_view all = path;
    if (has_words(all.substr(open + 1))) return chosen_splits(part, path, files);
    part.begin = slice_end(all.substr(open + 1, colon - open - 1), text);
    part.end = slice_end(all.substr(colon + 1, path.size() - colon - 2), text);
    path.resize(open);
  }
  part.paths = paths_of(path, text, files);
  return {part};
}

// Thrown by a sink to leave a file when the rows of a slice are complete; caught where it is read.
struct EndOfSlice {};

class PartReader {
public:
  PartReader(const SpecPart& part, const ReadSettings& settings, RowFiles& files,
             ReadProgress& progress)
      : part_(part), settings_(settings), progress_(progress),
        files_(std::make_unique<PartFiles>(part.paths, files,
                                           part.is_limited() || settings.options.boolean("stream"),
                                           settings.task)) {}

  int64_t rounds() const { return static_cast<int64_t>(std::ceil(part_.times)); }
  int64_t bytes() const {
    return files_->bytes() * (rounds() + (part_.counts_from_end() ? 1 : 0)) +
           files_->bytes_to_load();
  }

  std::vector<ReadFile> read(const RecordSink& sink) {
    progress_.loaded = [this] { return files_->loaded(); };
    int64_t count = INT64_MAX;
    if (part_.counts_from_end()) {
      count = 0;
      read_files([&](Record&&) { ++count; });
    }
    const RowRange range = rows_of_slice(part_, count);
    std::vector<ReadFile> read;
    for (int64_t round = 0; round < rounds(); ++round) {
      const int64_t before = progress_.done;
      auto files = read_round(round, range, sink);
      progress_.done = before + files_->bytes();
      if (round == 0) read = std::move(files);
    }
    progress_.done += files_->bytes_to_load();
    progress_.loaded = nullptr;
    return read;
  }

private:
  std::vector<ReadFile> read_round(int64_t round, const RowRange& range, const RecordSink& sink) {
    int64_t index = 0;
    bool first = true, gap = false;
    auto files = read_files([&](Record&& record) {
      const int64_t place = index++ - range.begin;
      if (place < 0 || !comes_in_round(part_.times, round, place)) {
        gap = true;
      } else {
        if (first || gap) record.starts = true; // the row before it is another one
        first = gap = false;
        sink(std::move(record));
      }
      if (index >= range.end) throw EndOfSlice{};
    });
    if (round == 0 && index <= range.begin) {
      fail(Code::not_found, "{}: there are no rows from {} on, it has {}", part_.text, range.begin,
           index);
    }
    return files;
  }

  std::vector<ReadFile> read_files(const RecordSink& sink) {
    std::vector<ReadFile> read;
    try {
      for (size_t i = 0; i < files_->count(); ++i) {
        const auto file = files_->open(i, [this] { progress_.report(settings_.task, 0); });
        read.push_back({file->path(), file->stamp()});
        read_record_file(file, settings_, progress_, sink);
      }
    } catch (const EndOfSlice&) {
    }
    return read;
  }

  const SpecPart& part_;
  const ReadSettings& settings_;
  ReadProgress& progress_;
  std::unique_ptr<PartFiles> files_;
};

} // namespace

bool SpecPart::counts_from_end() const {
  const auto from_end = [](const std::optional<SliceEnd>& place) {
    return place && (place->percent || place->value < 0);
  };
  return from_end(begin) || from_end(end);
}

std::vector<SpecPart> parse_spec(const std::string& spec, RowFiles& files) {
  std::vector<SpecPart> parts;
  if (exists(spec)) return parse_part(spec, files);
  for (size_t begin = 0; begin <= spec.size();) {
    const size_t end = std::min(spec.find('+', begin), spec.size());
    for (SpecPart& part : parse_part(spec.substr(begin, end - begin), files))
      parts.push_back(std::move(part));
    begin = end + 1;
  }
  return parts;
}

bool is_plain(const std::vector<SpecPart>& parts) {
  return parts.size() == 1 && parts[0].paths.size() == 1 && !parts[0].is_sliced() &&
         parts[0].times == 1 && !hub::is_address(parts[0].paths[0]);
}

RowRange rows_of_slice(const SpecPart& part, int64_t count) {
  const auto place = [&](const std::optional<SliceEnd>& end, int64_t otherwise) {
    if (!end) return otherwise;
    const double all = static_cast<double>(count);
    double at = end->percent ? std::floor(all * end->value / 100) : end->value;
    if (end->value < 0) at += all;
    return static_cast<int64_t>(std::clamp(at, 0.0, std::min(all, 1e18)));
  };
  const RowRange range{place(part.begin, 0), place(part.end, count)};
  if (range.begin >= range.end)
    fail(Code::not_found, "{}: there are no rows from {} to {}", part.text, range.begin, range.end);
  return range;
}

bool comes_in_round(double times, int64_t round, int64_t index) {
  const double part = std::min(times - static_cast<double>(round), 1.0);
  const auto place = static_cast<double>(index);
  return std::floor((place + 1) * part) > std::floor(place * part);
}

std::vector<ReadFile> read_parts(const std::vector<SpecPart>& parts, const ReadSettings& settings,
                                 RowFiles& files, const RecordSink& sink) {
  ReadProgress progress;
  std::vector<PartReader> readers;
  for (const SpecPart& part : parts) {
    readers.emplace_back(part, settings, files, progress);
    progress.total += readers.back().bytes();
  }
  std::vector<ReadFile> read;
  for (PartReader& reader : readers) {
    const auto done = reader.read(sink);
    read.insert(read.end(), done.begin(), done.end());
  }
  return read;
}

} // namespace dllm::text
