#pragma once
// Words in brackets behind a name, as in "org/data[train:10_000,name:small]", and what they choose of a folder laid out
// as model hubs publish data: parts of a data set are folders, their splits are files or folders that begin with the
// name of the split ("train-00000-of-00002.parquet", "small/test.jsonl").

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dllm::text {

// A number where the word has digits alone, in groups or not: "10_000" is 10000.
using SpecValue = std::variant<int64_t, std::string>;

struct SpecWords {
  std::string name; // empty: the text has none
  std::map<std::string, SpecValue> values;
};

// NAME, NAME[KEY:VALUE,...] or KEY=VALUE,...; blanks around words do not count. What stands among KEY=VALUE without "="
// is left out. Where a key comes twice a number in
// brackets has priority over a text in brackets, and that over a value behind "=", which stays a text.
// Fails with invalid_argument for a word without its colon.
SpecWords parse_spec_words(std::string_view text);

// The files of one split and how many of their rows count.
struct SplitFiles {
  std::vector<std::string> paths;
  int64_t rows = 0; // 0: all
};

// What the words choose of the folder `path`: "name" a folder inside, every other key a split and its number of rows, in order
// of name. Without a split all files. Fails with not_found or invalid_argument naming the word.
std::vector<SplitFiles> split_files(const std::string& path, const SpecWords& words);

} // namespace dllm::text
