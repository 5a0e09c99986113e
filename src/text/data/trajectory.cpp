#include "text/data/trajectory.h"

#include "base/error.h"
#include "text/data/row_arrays.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

namespace dllm::text {

int64_t Trajectory::rows() const {
  return order.empty() ? 1 : 1 + *std::ranges::max_element(order);
}

std::string row_key_text(std::span<const int32_t> ids) {
  return fmt::format("{:016x}", static_cast<uint64_t>(row_key(ids)));
}

std::vector<int32_t> trajectory_row(const Trajectory& trajectory, std::span<const int32_t> ids,
                                    int32_t mask, int64_t number) {
  std::vector<int32_t> row(ids.begin(), ids.end());
  for (size_t i = 0; i < row.size(); ++i) {
    if (trajectory.order[i] > number) row[i] = mask;
  }
  return row;
}

namespace {

// Returns the first row that shows position `at`. Fails where the position changes later.
int32_t shown_from(const std::vector<std::vector<int32_t>>& rows, int32_t mask, size_t at,
                   std::string_view what) {
  size_t row = 0;
  while (row < rows.size() && rows[row][at] == mask) ++row;
  if (row == rows.size())
    fail(Code::data_loss, "{}: the last row of the trajectory still hides position {}", what, at);
  for (size_t later = row; later < rows.size(); ++later) {
    if (rows[later][at] == rows.back()[at]) continue;
    fail(Code::data_loss, "{}: row {} of the trajectory changes position {}, which row {} shows",
         what, later, at, row);
  }
  return static_cast<int32_t>(row);
}

} // namespace

Trajectory trajectory_of(const std::vector<std::vector<int32_t>>& rows, int32_t mask,
                         int64_t prompt, std::string_view what) {
  if (rows.empty()) fail(Code::data_loss, "{}: the trajectory has no rows", what);
  Trajectory made;
  made.tokens = rows.back();
  const auto length = static_cast<int64_t>(made.tokens.size());
  for (size_t row = 0; row < rows.size(); ++row) {
    if (rows[row].size() == made.tokens.size()) continue;
    fail(Code::data_loss, "{}: row {} of the trajectory has {} tokens, its last row has {}", what,
         row, rows[row].size(), length);
  }
  if (prompt > length)
    fail(Code::data_loss, "{}: prompt_len is {}, but the rows have {} tokens", what, prompt,
         length);
  for (size_t at = 0; at < made.tokens.size(); ++at)
    made.order.push_back(shown_from(rows, mask, at, what));
  const auto hidden = std::ranges::find_if(made.order, [](int32_t row) { return row > 0; });
  const int64_t first = hidden - made.order.begin();
  if (prompt > first)
    fail(Code::data_loss, "{}: the trajectory hides position {}, which is in the prompt of {}",
         what, first, prompt);
  made.prompt = prompt < 0 ? first : prompt;
  return made;
}

namespace {

// Reads the members of one line.
class LineReader {
public:
  LineReader(std::string_view line, const std::string& what)
      : what_(what), json_(parse_json(line, what)) {
    if (!json_.is_object()) fail(Code::data_loss, "{}: expected a JSON object", what);
  }

  bool has(const char* member) const { return json_.contains(member); }
  // Returns a whole number from 0 to `most`.
  int64_t number(const char* member, int64_t most) const {
    return number_of(need(member), member, most);
  }
  std::vector<int32_t> numbers(const char* member) const {
    return numbers_of(need(member), member);
  }
  std::vector<std::vector<int32_t>> rows(const char* member) const {
    const Json& list = need(member);
    if (!list.is_array()) bad(member, "a list of rows");
    std::vector<std::vector<int32_t>> made;
    for (const Json& row : list) made.push_back(numbers_of(row, member));
    return made;
  }
  std::string text(const char* member) const {
    const Json& value = need(member);
    if (!value.is_string()) bad(member, "a text");
    return value.get<std::string>();
  }

private:
  const Json& need(const char* member) const {
    const auto found = json_.find(member);
    if (found == json_.end()) fail(Code::data_loss, "{}: member {} is missing", what_, member);
    return *found;
  }
  [[noreturn]] void bad(const char* member, const char* wanted) const {
    fail(Code::data_loss, "{}: member {} is not {}", what_, member, wanted);
  }
  int64_t number_of(const Json& value, const char* member, int64_t most) const {
    if (!value.is_number_integer()) bad(member, "made of whole numbers");
    const auto number = value.get<int64_t>();
    if (number < 0 || number > most)
      fail(Code::data_loss, "{}: member {} has {}, which is not in 0 to {}", what_, member, number,
           most);
    return number;
  }
  std::vector<int32_t> numbers_of(const Json& list, const char* member) const {
    if (!list.is_array()) bad(member, "a list of numbers");
    std::vector<int32_t> made;
    for (const Json& value : list) {
      made.push_back(
          static_cast<int32_t>(number_of(value, member, std::numeric_limits<int32_t>::max() - 1)));
    }
    return made;
  }

  const std::string& what_;
  const Json json_;
};

// Returns the token that the first row has in place of hidden ones; -1: it hides none.
int32_t hidden_token(const std::vector<std::vector<int32_t>>& rows, const std::string& what) {
  int32_t mask = -1;
  if (rows.empty()) return mask;
  const std::vector<int32_t>&first = rows.front(), &last = rows.back();
  for (size_t i = 0; i < std::min(first.size(), last.size()); ++i) {
    if (first[i] == last[i]) continue;
    if (mask >= 0 && first[i] != mask) {
      fail(Code::data_loss,
           "{}: the first row of the trajectory hides tokens by {} and by {}, expected one mask "
           "token",
           what, mask, first[i]);
    }
    mask = first[i];
  }
  return mask;
}

Trajectory read_rows(const LineReader& line, const std::string& what, int64_t most) {
  const std::vector<std::vector<int32_t>> rows = line.rows("trajectory");
  const int64_t prompt = line.has("prompt_len") ? line.number("prompt_len", most) : -1;
  if (line.has("nfe") && line.number("nfe", most) != std::ssize(rows)) {
    fail(Code::data_loss, "{}: nfe is {}, but the trajectory has {} rows", what,
         line.number("nfe", most), rows.size());
  }
  return trajectory_of(rows, hidden_token(rows, what), prompt, what);
}

constexpr int32_t kMostRows = 1 << 20;

Trajectory read_compact(const LineReader& line, const std::string& what, int64_t most) {
  Trajectory made;
  made.prompt = line.number("prompt_len", most);
  const int64_t length = line.number("len", most);
  const std::vector<int32_t> order = line.numbers("order");
  if (made.prompt + std::ssize(order) != length) {
    fail(Code::data_loss, "{}: prompt_len {} and {} numbers of order are not len {}", what,
         made.prompt, order.size(), length);
  }
  if (!order.empty() && std::ranges::max(order) >= kMostRows)
    fail(Code::data_loss, "{}: order has {}, a trajectory has at most {} rows", what,
         std::ranges::max(order), kMostRows);
  made.order.assign(static_cast<size_t>(made.prompt), 0);
  made.order.insert(made.order.end(), order.begin(), order.end());
  if (line.has("key")) made.key = line.text("key");
  if (!line.has("tokens")) return made;
  made.tokens = line.numbers("tokens");
  if (made.tokens.size() == made.order.size()) return made;
  fail(Code::data_loss, "{}: tokens has {} numbers, but len is {}", what, made.tokens.size(),
       length);
}

} // namespace

Trajectory parse_trajectory(std::string_view text, const std::string& what) {
  constexpr int64_t kMost = int64_t{1} << 53;
  const LineReader line(text, what);
  const int64_t idx = line.number("idx", kMost);
  if (!line.has("order") && !line.has("trajectory"))
    fail(Code::data_loss, "{}: there is neither a member order nor trajectory", what);
  Trajectory made =
      line.has("order") ? read_compact(line, what, kMost) : read_rows(line, what, kMost);
  made.idx = idx;
  return made;
}

std::string rows_line(const Trajectory& trajectory, std::span<const int32_t> ids, int32_t mask) {
  const std::span<const int32_t> shown =
      trajectory.tokens.empty() ? ids : std::span<const int32_t>(trajectory.tokens);
  Json rows = Json::array();
  for (int64_t row = 0; row < trajectory.rows(); ++row)
    rows.push_back(trajectory_row(trajectory, shown, mask, row));
  return Json{{"idx", trajectory.idx},
              {"trajectory", std::move(rows)},
              {"nfe", trajectory.rows()},
              {"prompt_len", trajectory.prompt}}
      .dump();
}

std::string compact_line(const Trajectory& trajectory) {
  const auto prompt = static_cast<size_t>(trajectory.prompt);
  const auto order = std::span(trajectory.order).subspan(prompt);
  Json line{{"idx", trajectory.idx},
            {"prompt_len", trajectory.prompt},
            {"len", trajectory.length()},
            {"order", std::vector<int32_t>(order.begin(), order.end())}};
  if (!trajectory.tokens.empty()) line["tokens"] = trajectory.tokens;
  if (!trajectory.key.empty()) line["key"] = trajectory.key;
  return line.dump();
}

} // namespace dllm::text
