#include "line_editor.h"

#include "pictures/terminal.h"  // width_of

#include <algorithm>

namespace dllm::cli {

std::string common_begin(const std::vector<std::string>& items) {
  if (items.empty()) return {};
  std::string begin = items.front();
  for (const std::string& item : items) {
    size_t same = 0;
    while (same < begin.size() && same < item.size() && begin[same] == item[same]) ++same;
    begin.resize(same);
  }
  // Items that part inside a character share its first bytes only.
  const auto goes_on = [&](const std::string& item) {
    return item.size() > begin.size() && (static_cast<unsigned char>(item[begin.size()]) & 0xC0) == 0x80;
  };
  while (!begin.empty() && std::any_of(items.begin(), items.end(), goes_on)) begin.pop_back();
  return begin;
}

std::string in_columns(const std::vector<std::string>& items, int columns) {
  int widest = 0;
  for (const std::string& item : items) widest = std::max(widest, width_of(item));
  const size_t per_row = static_cast<size_t>(std::max(1, columns / (widest + 2)));
  std::string text;
  for (size_t i = 0; i < items.size(); ++i) {
    const bool last = i + 1 == items.size() || (i + 1) % per_row == 0;
    text += items[i];
    text += last ? "\n" : std::string(static_cast<size_t>(widest + 2 - width_of(items[i])), ' ');
  }
  return text;
}

}  // namespace dllm::cli
