#include "text/tokenizer/stretches.h"

#include "base/error.h"
#include "base/named_table.h"

namespace dllm::text {

Behavior read_behavior(const TreeJson& object, const std::string& where, Behavior fallback) {
  const std::string name = string_member(object, "behavior", where, "");
  if (name.empty()) return fallback;
  static constexpr std::pair<std::string_view, Behavior> kBehaviors[] = {
      {"Removed", Behavior::removed},
      {"Isolated", Behavior::isolated},
      {"MergedWithPrevious", Behavior::merged_with_previous},
      {"MergedWithNext", Behavior::merged_with_next},
      {"Contiguous", Behavior::contiguous}};
  return need_named(kBehaviors, name, kEntryName, {"behavior", "in " + where, "", Code::data_loss})
      .second;
}

void find_stretches(const Regex& regex, std::string_view text, std::vector<Stretch>& out,
                    const Task* task) {
  Regex::Search search(regex, text);
  size_t done = 0, begin = 0, end = 0;
  while (search.next(begin, end)) {
    check_task(task);
    if (begin > done) out.push_back({done, begin, false});
    out.push_back({begin, end, true});
    done = end;
  }
  if (done < text.size()) out.push_back({done, text.size(), false});
}

void cut(const std::vector<Stretch>& stretches, Behavior behavior,
         std::vector<std::pair<size_t, size_t>>& out) {
  const size_t first = out.size();
  bool joins_next = false; // the last piece joins the next stretch
  bool former_match = false;
  for (const Stretch& s : stretches) {
    const bool have = out.size() > first;
    bool join = false;
    switch (behavior) {
    case Behavior::removed:
      if (s.match) continue;
      break;
    case Behavior::isolated: break;
    case Behavior::merged_with_previous: join = have && s.match && !former_match; break;
    case Behavior::merged_with_next: join = have && joins_next && !s.match; break;
    case Behavior::contiguous: join = have && s.match == former_match; break;
    }
    if (join) {
      out.back().second = s.end;
    } else {
      out.emplace_back(s.begin, s.end);
    }
    joins_next = s.match;
    former_match = s.match;
  }
  const auto is_empty = [](const auto& piece) { return piece.first == piece.second; };
  out.erase(std::remove_if(out.begin() + static_cast<std::ptrdiff_t>(first), out.end(), is_empty),
            out.end());
}

} // namespace dllm::text
