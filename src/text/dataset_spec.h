#pragma once
// What a dataset is made of, as one line names it:
//
//   SPEC   = PART, or PART + PART + ...
//   PART   = PATH [SLICE or WORDS] [* TIMES]
//   PATH   = a file, a folder, or a pattern of the shell: data/*.jsonl
//   SLICE  = [A:B], rows A to B of the part; A and B are numbers or percents, negative ones count from the end
//   WORDS  = [name:FOLDER,SPLIT:ROWS,...], of a folder laid out as model hubs publish data (spec_words.h): the first
//            ROWS rows of each split that is named, all files without one
//   TIMES  = how often its rows come in an epoch, above 0 and up to 100: 0.5 takes every second row
//
//   web.jsonl*0.3+books/[:90%]+chat.jsonl[:1000]*2.5
//
// What exists under the whole text is that file or folder, whatever characters its name has.

#include "text/readers/readers.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::text {

struct SliceEnd {
  double value = 0;
  bool percent = false;
};

struct SpecPart {
  std::string text; // as it was written
  std::vector<std::string> paths;
  std::optional<SliceEnd> begin, end;
  double times = 1;

  bool is_sliced() const { return begin.has_value() || end.has_value(); }
};

// not_found or invalid_argument naming the part.
std::vector<SpecPart> parse_spec(const std::string& spec);
// One file or folder, whole and once.
bool is_plain(const std::vector<SpecPart>& parts);

// Rows [begin, end) of `count`; not_found when there are none.
struct RowRange {
  int64_t begin = 0, end = 0;
};
RowRange rows_of_slice(const SpecPart& part, int64_t count);

// True when row `index` comes in round `round` of a part whose rows come `times` times.
bool comes_in_round(double times, int64_t round, int64_t index);

// Gives the rows of every part in the order of the parts, each round of a part after the one before. Files are read once a
// round, and once more to count the rows where a percent or a number from the end needs the count. A text counts as
// many rows as it has parts of 4 KiB. Progress counts bytes of all rounds.
std::vector<ReadFile> read_parts(const std::vector<SpecPart>& parts, const ReadSettings& settings,
                                 const RecordSink& sink);

} // namespace dllm::text
