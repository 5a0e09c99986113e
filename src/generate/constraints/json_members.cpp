#include "generate/constraints/json_members.h"

#include "base/error.h"
#include "generate/constraints/json_text.h"
#include "text/automaton/byte_automaton.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace dllm::generate {
namespace {

// Returns the pattern of parts with commas between them. free: any number of parts after them.
std::string list_of(const std::vector<JsonMember>& members, const std::string& free) {
  if (members.empty() && free.empty()) return "";
  std::string made = fmt::format("(?,(?:{})", kJsonComma);
  for (const JsonMember& member : members)
    made += grouped(member.pattern) + (member.is_required ? "" : "?");
  return made + (free.empty() ? "" : grouped(free) + "*") + ")";
}

// The members whose number is restricted, from one of them on.
class CountedMembers {
public:
  CountedMembers(const std::vector<JsonMember>& members, const std::string& free)
      : members_(members), free_(free) {}

  // is_first: no member comes before them.
  std::string from(size_t at, bool is_first, Times count) const {
    if (at == members_.size()) return free_from(is_first, count);
    const std::span<const JsonMember> left = std::span(members_).subspan(at);
    const auto fewest = std::ranges::count_if(left, &JsonMember::is_required);
    // Numbers of members that all texts have restrict nothing.
    if (count.least <= fewest) count.least = 0;
    if (free_.empty() && count.may_be(std::ssize(left))) count.most = -1;
    const JsonMember& member = members_[at];
    const bool may_be_there = member.is_required || count.may_be(fewest + 1);
    const int64_t most = std::ssize(left) + (free_.empty() ? 0 : 1); // that are sure to differ
    const bool may_be_left_out = !member.is_required && count.least < most;
    if (!is_first && count.least == 0 && count.most < 0) {
      const std::string own = kJsonComma + member.pattern;
      return (member.is_required ? own : grouped(own) + "?") + from(at + 1, false, count);
    }
    std::vector<std::string> all;
    if (may_be_there) {
      all.push_back((is_first ? "" : kJsonComma) + member.pattern +
                    from(at + 1, false, count.after(1)));
    }
    if (may_be_left_out) all.push_back(from(at + 1, is_first, count));
    std::string made = all.size() == 1 ? all.front() : grouped(all[0] + "|" + all[1]);
    check_pattern_size(made);
    return made;
  }

private:
  std::string free_from(bool is_first, Times count) const {
    if (free_.empty() || !count.may_be(1)) return "";
    const std::string more = grouped(kJsonComma + free_);
    if (!is_first) return more + count.pattern();
    const std::string all = free_ + more + count.after(1).pattern();
    return count.least > 0 ? all : grouped(all) + "?";
  }

  const std::vector<JsonMember>& members_;
  const std::string& free_;
};

} // namespace

Times Times::after(int64_t count) const {
  return {std::max<int64_t>(0, least - count), most < 0 ? -1 : std::max<int64_t>(0, most - count)};
}

std::string Times::pattern() const {
  return most < 0 ? fmt::format("{{{},}}", least) : fmt::format("{{{},{}}}", least, most);
}

void check_pattern_size(const std::string& pattern) {
  if (pattern.size() <= text::ByteAutomaton::kMostBytes) return;
  fail_with_hint("let it have fewer members that may be left out, or that contain themselves",
                 Code::invalid_argument,
                 "json_schema: the schema needs a pattern of more than {} bytes",
                 text::ByteAutomaton::kMostBytes);
}

std::string pattern_of_members(const std::vector<JsonMember>& members, const std::string& free,
                               Times count) {
  const auto fewest = std::ranges::count_if(members, &JsonMember::is_required);
  const bool is_free =
      count.least <= fewest && (free.empty() ? count.may_be(std::ssize(members)) : count.most < 0);
  return is_free ? list_of(members, free) : CountedMembers(members, free).from(0, true, count);
}

std::string pattern_of_items(const std::vector<std::string>& first, const std::string& more,
                             Times count) {
  const int64_t given = std::ssize(first);
  if (given == 0 && count.least <= 1 && count.most < 0 && !more.empty())
    return fmt::format("(?,(?:{})(?:{}){})", kJsonComma, more, count.least == 0 ? "*" : "+");
  // From the last item to the first, each with all that may follow it.
  std::string rest;
  if (!more.empty()) {
    const Times left = count.after(given);
    rest = grouped(kJsonComma + more) + left.pattern();
    if (given == 0) {
      rest = more + grouped(kJsonComma + more) + left.after(1).pattern();
      if (left.least == 0) rest = grouped(rest) + "?";
    }
  }
  for (int64_t i = given - 1; i >= 0; --i) {
    rest = (i == 0 ? "" : kJsonComma) + first[static_cast<size_t>(i)] + rest;
    if (i >= count.least) rest = grouped(rest) + "?";
  }
  return rest;
}

} // namespace dllm::generate
