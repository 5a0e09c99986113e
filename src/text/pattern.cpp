#include "text/pattern.h"

#include "base/error.h"

namespace dllm::text {

Regex read_pattern(const TreeJson& object, const char* key, const std::string& where) {
  const TreeJson* pattern = find_member(object, key);
  if (pattern != nullptr && pattern->is_string()) {
    return Regex(escape_regex(pattern->get<std::string>()), where);
  }
  if (pattern != nullptr && find_member(*pattern, "String") != nullptr) {
    return Regex(escape_regex(string_member(*pattern, "String", where)), where);
  }
  if (pattern != nullptr && find_member(*pattern, "Regex") != nullptr) {
    return Regex(string_member(*pattern, "Regex", where), where);
  }
  fail(Code::data_loss, "{}: \"{}\" must be {{\"String\": ...}} or {{\"Regex\": ...}}", where, key);
}

Behavior read_behavior(const TreeJson& object, const std::string& where, Behavior fallback) {
  const std::string name = string_member(object, "behavior", where, "");
  if (name.empty()) return fallback;
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  fail_with_hint("use Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous",
                 Code::data_loss, "{}: unknown behavior {}", where, name);
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
  bool joins_next = false; // the last piece waits for what follows
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
}

} // namespace dllm::text
