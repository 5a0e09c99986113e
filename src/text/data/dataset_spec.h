#pragma once
// A SPEC names in one line the files and rows of a dataset:
//
//   SPEC   = PART, or PART + PART + ...
//   PART   = PATH [SLICE or WORDS] [* TIMES]
//   PATH   = a file, a folder, a pattern of the shell (data/*.jsonl), or the address of a data set
//            of the hub (hf://datasets/org/name@revision/data/*.jsonl, hub/name.h)
//   SLICE  = [A:B], rows A to B - 1 of the part; A and B are numbers or percents, and negative
//            values count from the end
//   WORDS  = [name:FOLDER,SPLIT:ROWS,...], the first ROWS rows of each named split, or all files
//            without a split; the folder has the layout of model hubs (spec_words.h)
//   TIMES  = how often the rows come in an epoch, above 0 and up to 100; 0.5 takes every second row
//
//   web.jsonl*0.3+books/[:90%]+chat.jsonl[:1000]*2.5
//
// A SPEC or PART that is the path of a file or folder means that path, whatever characters it has.

#include "text/data/row_files.h"
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
  std::string text; // the PART as the caller wrote it
  std::vector<std::string> paths;
  std::optional<SliceEnd> begin, end;
  double times = 1;

  bool is_sliced() const { return begin.has_value() || end.has_value(); }
  bool counts_from_end() const; // an end is a percent or a negative number
  // The last row that is needed is known before any row is read.
  bool is_limited() const { return end.has_value() && !counts_from_end(); }
};

// Fails with not_found or invalid_argument naming the part. Data sets of the hub stay in `files`.
std::vector<SpecPart> parse_spec(const std::string& spec, RowFiles& files);
// Returns true for one file or folder of this machine without slice and TIMES.
bool is_plain(const std::vector<SpecPart>& parts);

// Rows [begin, end).
struct RowRange {
  int64_t begin = 0, end = 0;
};
// Returns the slice of a part that has `count` rows. Fails with not_found for an empty slice.
RowRange rows_of_slice(const SpecPart& part, int64_t count);

// Returns true when row `index` comes in round `round` of a part whose rows come `times` times.
bool comes_in_round(double times, int64_t round, int64_t index);

// Passes the rows of every part to `sink`, part after part and round after round. It reads files
// once per round, and once more when a percent or negative number in a slice needs the number of
// rows. Each 4 KiB of a text file count as one row. Files of the hub that are not in the cache are
// read by ranges where a part is limited, or with option stream. Otherwise they are loaded into the
// cache, one after another. Progress counts the bytes of all rounds, and the bytes to load.
std::vector<ReadFile> read_parts(const std::vector<SpecPart>& parts, const ReadSettings& settings,
                                 RowFiles& files, const RecordSink& sink);

} // namespace dllm::text
