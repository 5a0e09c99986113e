#include "text/readers/row_shape.h"

#include "base/error.h"
#include "base/options.h"
#include "text/unicode.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace dllm::text {

RecordKeys record_keys(const Options& options) {
  RecordKeys keys;
  const std::pair<const char*, std::string RecordKeys::*> rows[] = {
      {"text_key", &RecordKeys::text},
      {"prompt_key", &RecordKeys::prompt},
      {"response_key", &RecordKeys::response},
      {"instruction_key", &RecordKeys::instruction},
      {"messages_key", &RecordKeys::messages}};
  for (const auto& [option, member] : rows) {
    keys.*member = options.str(option);
    if (options.is_set(option)) keys.chosen.push_back(member);
  }
  return keys;
}

std::string shown_columns(const std::vector<std::string>& names) {
  constexpr size_t kMost = 20, kLongest = 40;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i)
    shown.push_back(replace_invalid(std::string_view(names[i]).substr(0, kLongest)));
  if (names.size() > kMost) shown.push_back(fmt::format("and {} more", names.size() - kMost));
  return fmt::format("the columns are {}", fmt::join(shown, ", "));
}

namespace {

using Option = std::string RecordKeys::*;

// A member of a row: its name is fixed, or an option sets it.
struct Member {
  Member(const char* fixed) : name(fixed) {}
  Member(Option of) : option(of) {}
  std::string name;
  Option option = nullptr;
};

struct Entry {
  RowShape::Kind kind;
  std::vector<Member> members;
  std::string optional = {};
};

// Returns the table of shapes. A row may fit several. An instruction precedes a text, because the
// text of such a row is instruction and answer in one.
std::vector<Entry> shape_table() {
  using Kind = RowShape::Kind;
  using Keys = RecordKeys;
  return {{Kind::instruction, {&Keys::instruction, "output"}, "input"},
          {Kind::instruction, {&Keys::instruction, &Keys::response}, "context"},
          {Kind::text, {&Keys::text}},
          {Kind::answer, {&Keys::prompt, &Keys::response}},
          {Kind::answer, {&Keys::prompt, "completion"}},
          {Kind::ids, {"ids"}},
          {Kind::chat, {&Keys::messages}},
          {Kind::chat, {"conversations"}},
          {Kind::turns, {"data"}},
          {Kind::pair, {"chosen", "rejected"}}};
}

} // namespace

RowShapes::RowShapes(const RecordKeys& keys) : keys_(keys) {
  std::vector<Entry> table = shape_table();
  const auto chosen = [&](const Entry& entry) {
    uint32_t bits = 0;
    for (size_t i = 0; i < keys.chosen.size(); ++i) {
      const bool has = std::any_of(entry.members.begin(), entry.members.end(),
                                   [&](const Member& m) { return m.option == keys.chosen[i]; });
      if (has) bits |= uint32_t{1} << i;
    }
    return bits;
  };
  std::stable_partition(table.begin(), table.end(),
                        [&](const Entry& entry) { return chosen(entry) != 0; });
  for (const Entry& entry : table) {
    RowShape shape{
        entry.kind, {}, entry.optional.empty() ? -1 : add(entry.optional), chosen(entry)};
    for (const Member& member : entry.members)
      shape.members.push_back(add(member.option != nullptr ? keys.*member.option : member.name));
    shapes_.push_back(std::move(shape));
  }
  keep_ = add("keep");
  tools_ = add("tools");
  system_ = add("system");
}

int RowShapes::add(const std::string& name) {
  const int known = slot(name);
  if (known >= 0) return known;
  names_.push_back(name);
  return static_cast<int>(names_.size()) - 1;
}

int RowShapes::slot(std::string_view name) const {
  for (size_t i = 0; i < names_.size(); ++i) {
    if (names_[i] == name) return static_cast<int>(i);
  }
  return -1;
}

const RowShape* RowShapes::find(const std::function<bool(const RowShape&, int slot)>& has) const {
  for (const RowShape& shape : shapes_) {
    if (std::all_of(shape.members.begin(), shape.members.end(),
                    [&](int slot) { return has(shape, slot); }))
      return &shape;
  }
  return nullptr;
}

void RowShapes::refuse(const std::string& where, const std::string& found, bool has_prompt) const {
  const std::string hint = fmt::format(
      "name them with text_key, or prompt_key and response_key, or instruction_key or messages_key "
      "(--text-key, --prompt-key, --response-key); rows of \"{}\" and \"output\", of \"{}\" and "
      "\"completion\", and of \"conversations\" are read too",
      keys_.instruction, keys_.prompt);
  if (has_prompt) {
    fail_with_hint(hint, Code::data_loss,
                   "{}: \"{}\" is missing next to \"{}\", and \"{}\" too: {}", where,
                   keys_.response, keys_.prompt, keys_.messages, found);
  }
  fail_with_hint(hint, Code::data_loss,
                 "{}: expected \"{}\", or \"{}\" and \"{}\", or \"{}\", or \"ids\"; {}", where,
                 keys_.text, keys_.prompt, keys_.response, keys_.messages, found);
}

void RowShapes::refuse_pair(const std::string& where) const {
  fail_with_hint(
      "to learn the chosen answers alone, set response_key to chosen, or messages_key "
      "where they are lists of messages (--response-key chosen)",
      Code::unimplemented,
      "{}: a row with \"chosen\" and \"rejected\" is a pair of answers, and no objective "
      "learns from pairs yet",
      where);
}

} // namespace dllm::text
