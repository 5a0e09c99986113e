#pragma once
// Words in brackets after a name, as in "org/data[train:10_000,name:small]", choose files of a data
// set. Its folder has the layout of model hubs. A part of the data set is a folder, and the name of
// a split's file or folder begins with the split's name ("train-00000-of-00002.parquet",
// "small/test.jsonl").

#include "text/data/row_files.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dllm::text {

// A word of digits is a number; single underscores may group its digits ("10_000" is 10000).
using SpecValue = std::variant<int64_t, std::string>;

struct SpecWords {
  std::string name; // empty when the text has no name
  std::map<std::string, SpecValue> values;
};

// Parses NAME, NAME[KEY:VALUE,...] or KEY=VALUE,...; blanks around words are ignored. A value after
// "=" is always a text, and entries without "=" in that form are ignored. For a repeated key, a
// number in brackets has priority over a text in brackets, and a text in brackets over a value
// after "=". Fails with invalid_argument for a word in brackets without a colon.
SpecWords parse_spec_words(std::string_view text);

// The files of one split and the number of their rows that are used.
struct SplitFiles {
  std::vector<std::string> paths;
  int64_t rows = 0; // 0: all
};

// Returns the files that the words choose in the folder `path` of `files`, in order of split name.
// Key "name" is a folder inside `path`; every other key is a split, and its value the number of
// rows. Without a split all files are chosen. Fails with not_found or invalid_argument naming the
// word.
std::vector<SplitFiles> split_files(const std::string& path, const SpecWords& words,
                                    RowFiles& files);

} // namespace dllm::text
