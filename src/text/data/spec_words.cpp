#include "text/data/spec_words.h"

#include "base/error.h"
#include "base/files.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace dllm::text {
namespace {

constexpr const char* kWordsHint = "write [SPLIT:ROWS] or [name:FOLDER,SPLIT:ROWS]";

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

// Parses digits with single underscores between them.
std::optional<int64_t> whole_number(std::string_view word) {
  std::string digits;
  bool after_digit = false;
  for (const char c : word) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && (c != '_' || !after_digit)) return std::nullopt;
    if (is_digit) digits += c;
    after_digit = is_digit;
  }
  int64_t value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return after_digit && read.ec == std::errc() ? std::optional(value) : std::nullopt;
}

// Calls each(key, value) for "k:v,k:v" with this sign between key and value. Skips empty entries.
// With "=" it also skips entries without the sign.
template <class Each> void each_pair(std::string_view list, char sign, const Each& each) {
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view entry = trimmed(list.substr(begin, end - begin));
    begin = end + 1;
    if (entry.empty()) continue;
    const size_t at = entry.find(sign);
    if (at == std::string_view::npos && sign == '=') continue;
    if (at == std::string_view::npos) {
      fail_with_hint(kWordsHint, Code::invalid_argument, "{} has no {} between a key and its value",
                     entry, sign);
    }
    each(std::string(trimmed(entry.substr(0, at))), std::string(trimmed(entry.substr(at + 1))));
  }
}

// Returns true when `name` is the split's name, or continues it with a sign:
// "train-00000-of-00002".
bool belongs_to(const std::string& name, const std::string& split) {
  return name.starts_with(split) &&
         (name.size() == split.size() ||
          std::string_view("-._").find(name[split.size()]) != std::string_view::npos);
}

std::vector<std::string> files_of_split(const std::string& folder, const std::string& split,
                                        RowFiles& all) {
  std::vector<std::string> files;
  for (const std::string& file : all.list(folder)) {
    std::string_view inside = std::string_view(file).substr(folder.size());
    bool fits = false;
    while (!inside.empty()) {
      const size_t end = std::min(inside.find('/'), inside.size());
      fits = fits || belongs_to(std::string(inside.substr(0, end)), split);
      inside.remove_prefix(std::min(end + 1, inside.size()));
    }
    if (fits) files.push_back(file);
  }
  if (files.empty()) {
    fail_with_hint("name a split by the beginning of the name of its file or folder",
                   Code::not_found, "{} has no split {}", folder, split);
  }
  return files;
}

} // namespace

SpecWords parse_spec_words(std::string_view text) {
  SpecWords made;
  std::map<std::string, SpecValue> texts;
  text = trimmed(text);
  const size_t open = text.rfind('[');
  std::string_view name = trimmed(text.substr(0, open));
  if (name.find('=') != std::string_view::npos) {
    each_pair(name, '=', [&](const std::string& key, std::string value) {
      made.values[key] = std::move(value);
    });
    name = {};
  }
  made.name = name;
  if (open == std::string_view::npos) return made;
  if (!text.ends_with(']')) {
    fail_with_hint(kWordsHint, Code::invalid_argument, "{} does not end with ]", text);
  }
  std::map<std::string, SpecValue> numbers;
  each_pair(text.substr(open + 1, text.size() - open - 2), ':',
            [&](const std::string& key, std::string value) {
              if (const auto number = whole_number(value))
                numbers[key] = *number;
              else
                texts[key] = std::move(value);
            });
  for (const auto& [key, value] : texts) made.values[key] = value;
  for (const auto& [key, value] : numbers) made.values[key] = value;
  return made;
}

std::vector<SplitFiles> split_files(const std::string& path, const SpecWords& words,
                                    RowFiles& files) {
  std::string folder = files.place_of(path);
  if (const auto part = words.values.find("name"); part != words.values.end()) {
    const auto* number = std::get_if<int64_t>(&part->second);
    folder = join_path(folder, number != nullptr ? std::to_string(*number)
                                                 : std::get<std::string>(part->second));
  }
  if (!files.is_folder(folder)) {
    fail_with_hint("use words in brackets with a folder only; rows of a file are [A:B]",
                   Code::not_found, "{} is not a folder", folder);
  }
  std::vector<SplitFiles> made;
  for (const auto& [key, value] : words.values) {
    if (key == "name") continue;
    const auto* rows = std::get_if<int64_t>(&value);
    if (rows == nullptr || *rows < 1) {
      fail_with_hint(kWordsHint, Code::invalid_argument,
                     "the rows of a split are {} for {}, expected a number from 1 on",
                     rows != nullptr ? std::to_string(*rows) : std::get<std::string>(value), key);
    }
    made.push_back({files_of_split(folder, key, files), *rows});
  }
  if (made.empty()) made.push_back({{folder}, 0});
  return made;
}

} // namespace dllm::text
