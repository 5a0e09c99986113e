#include "text/chat.h"

#include <algorithm>

namespace dllm::text {

using jinja::Mark;
using jinja::MarkedText;

namespace {

struct Stretch {
  size_t begin, end; // bytes
};

// Every byte of [begin, end) was written by the template.
bool is_template(const MarkedText& text, size_t begin, size_t end) {
  const auto& runs = text.runs();
  auto run = std::upper_bound(runs.begin(), runs.end(), begin,
                              [](size_t at, const MarkedText::Run& r) { return at < r.end; });
  for (; run != runs.end() && begin < end; begin = run->end, ++run) {
    if (run->mark.message != Mark::kTemplate) return false;
  }
  return true;
}

std::vector<Stretch> marked_by_template(const MarkedText& text) {
  std::vector<Stretch> stretches;
  size_t begin = 0;
  for (const MarkedText::Run& run : text.runs()) {
    if (run.mark.spoken) {
      if (!stretches.empty() && stretches.back().end == begin) {
        stretches.back().end = run.end;
      } else {
        stretches.push_back({begin, run.end});
      }
    }
    begin = run.end;
  }
  return stretches;
}

// The end of the answer: the first special token of the template behind `end`, when no other message
// comes before it.
size_t extend(const Tokenizer& tokenizer, const std::vector<TextPart>& parts,
              const MarkedText& text, size_t end) {
  const auto first = std::lower_bound(parts.begin(), parts.end(), end,
                                      [](const TextPart& p, size_t at) { return p.begin < at; });
  for (auto part = first; part != parts.end(); ++part) {
    if (part->id < 0 || !tokenizer.is_special(part->id)) continue;
    return is_template(text, end, part->end) ? part->end : end;
  }
  return end;
}

// Where the answer begins: after the first opening behind `floor`.
size_t retreat(const MarkedText& text, const std::string& opening, size_t floor, size_t begin) {
  if (opening.empty() || begin - floor < opening.size()) return begin;
  const std::string_view before = std::string_view(text.bytes()).substr(floor, begin - floor);
  const size_t found = before.rfind(opening);
  return found == std::string_view::npos ? begin : floor + found + opening.size();
}

// The bytes of each answer's message, with what the template wrote between and around them.
std::vector<Stretch> answers(const Tokenizer& tokenizer, const std::vector<TextPart>& parts,
                             const MarkedText& text, const MaskRules& rules) {
  std::vector<Stretch> stretches;
  size_t begin = 0;
  size_t floor = 0;           // behind the last message with text
  int32_t last = Mark::kData; // the message of the last run since a role or another message
  for (const MarkedText::Run& run : text.runs()) {
    const int32_t message = run.mark.message;
    if (message >= 0) {
      const bool answer = rules.assistants[static_cast<size_t>(message)];
      if (answer && last == message) {
        stretches.back().end = std::max(stretches.back().end, run.end);
      } else if (answer) {
        stretches.push_back({retreat(text, rules.opening, floor, begin), run.end});
      }
      floor = run.end;
      last = message;
    } else if (message == Mark::kData) {
      last = Mark::kData;
    }
    begin = run.end;
  }
  for (Stretch& stretch : stretches) stretch.end = extend(tokenizer, parts, text, stretch.end);
  return stretches;
}

// Tokens of `whole` that lie before byte `border` of the part: those that the text up to there
// gives too. A token across the border lies behind it.
size_t tokens_before(const Tokenizer& tokenizer, std::string_view part, size_t border,
                     bool at_start, const std::vector<int32_t>& whole, const Task* task) {
  if (border == 0) return 0;
  if (border >= part.size()) return whole.size();
  const std::vector<int32_t> head = tokenizer.encode_part(part.substr(0, border), at_start, task);
  const auto differs = std::mismatch(head.begin(), head.end(), whole.begin(), whole.end());
  return static_cast<size_t>(differs.first - head.begin());
}

} // namespace

ChatRow encode_chat(const Tokenizer& tokenizer, const MarkedText& text, const MaskRules& rules,
                    const Task* task) {
  ChatRow row;
  row.text = text.bytes();
  const std::vector<TextPart> parts = tokenizer.split(
      row.text, [&](size_t begin, size_t end) { return is_template(text, begin, end); }, task);
  const std::vector<Stretch> stretches =
      rules.by_generation ? marked_by_template(text) : answers(tokenizer, parts, text, rules);
  for (const TextPart& part : parts) {
    check_task(task);
    const size_t first = row.ids.size();
    const std::string_view plain =
        std::string_view(row.text).substr(part.begin, part.end - part.begin);
    const bool at_start = part.begin == 0;
    const std::vector<int32_t> ids =
        part.id >= 0 ? std::vector<int32_t>{part.id} : tokenizer.encode_part(plain, at_start, task);
    row.ids.insert(row.ids.end(), ids.begin(), ids.end());
    row.spoken.resize(row.ids.size(), 0);
    for (const Stretch& stretch : stretches) {
      if (stretch.end <= part.begin || stretch.begin >= part.end) continue;
      size_t from = 0, to = ids.size();
      if (part.id < 0) {
        const size_t begin = std::max(stretch.begin, part.begin) - part.begin;
        from = tokens_before(tokenizer, plain, begin, at_start, ids, task);
        to = tokens_before(tokenizer, plain, stretch.end - part.begin, at_start, ids, task);
      }
      for (size_t i = from; i < to; ++i) row.spoken[first + i] = 1;
    }
  }
  return row;
}

} // namespace dllm::text
