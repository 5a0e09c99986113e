#include "pictures.h"

#include "dllm/base.h"

#include <algorithm>
#include <cmath>
#include <unistd.h>
#include <utf8proc.h>

namespace dllm::cli {
namespace {

constexpr const char* kOpen = "\u2591"; // a light shade block, for one open position
constexpr const char* kReset = "\x1b[0m";
constexpr const char* kFixed = "\x1b[1m";        // bold: given
constexpr const char* kSure = "\x1b[32m";        // green: decided with a confidence of 0.9 and more
constexpr const char* kUnsure = "\x1b[36m";      // cyan: decided with less
constexpr const char* kProvisional = "\x1b[33m"; // yellow: a later step may change it
constexpr const char* kMasked = "\x1b[2m";       // dim

const char* colour_of(const TokenCell& cell) {
  switch (cell.state) {
  case DLLM_MASKED: return kMasked;
  case DLLM_PROVISIONAL: return kProvisional;
  case DLLM_FIXED: return kFixed;
  default: return cell.confidence >= 0.9f ? kSure : kUnsure;
  }
}

void append_utf8(std::string& out, utf8proc_int32_t code) {
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(code, bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
}

// Calls f(code point) for each character; bytes that are not UTF-8 are U+FFFD.
template <class F> void each_character(std::string_view text, F&& f) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  auto left = static_cast<utf8proc_ssize_t>(text.size());
  while (left > 0) {
    utf8proc_int32_t code = 0;
    utf8proc_ssize_t used = utf8proc_iterate(bytes, left, &code);
    if (used <= 0) {
      code = 0xFFFD;
      used = 1;
    }
    f(code);
    bytes += used;
    left -= used;
  }
}

// Replaces control and format characters (right-to-left overrides), which would move the cursor or
// reorder the row.
utf8proc_int32_t harmless(utf8proc_int32_t code) {
  if (code == '\n') return 0x23CE;
  if (code < 0x20) return 0x2400 + code;
  if (code == 0x7F) return 0x2421;
  const auto category = utf8proc_category(code);
  if (category == UTF8PROC_CATEGORY_CF && code != 0x200D) return 0xFFFD;
  if (category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_ZL ||
      category == UTF8PROC_CATEGORY_ZP)
    return 0xFFFD;
  return code;
}

// Fills rows; a piece may begin in one row and end in the next.
class Pen {
public:
  Pen(int columns, bool colour) : columns_(std::max(columns, 2)), colour_(colour) {}

  void put(const TokenCell& cell) {
    const bool open = cell.state == DLLM_MASKED;
    if (!open && cell.text.empty()) return;
    begin(cell);
    each_character(open ? kOpen : std::string_view(cell.text), [&](utf8proc_int32_t raw) {
      const utf8proc_int32_t code = harmless(raw);
      const int width = std::max(utf8proc_charwidth(code), 0);
      if (column_ + width > columns_) {
        break_row();
        begin(cell);
      }
      if (open && !seen_open_) rows_.first_open = rows_.text.size();
      seen_open_ = seen_open_ || open;
      append_utf8(row_, code);
      column_ += width;
      if (raw == '\n') {
        break_row();
        begin(cell);
      }
    });
    if (colour_) row_ += kReset;
  }

  Rows finish() {
    if (column_ > 0 || rows_.text.empty()) break_row();
    return std::move(rows_);
  }

private:
  void begin(const TokenCell& cell) {
    if (colour_) row_ += colour_of(cell);
  }
  void break_row() {
    rows_.text.push_back(colour_ ? row_ + kReset : row_);
    row_.clear();
    column_ = 0;
  }

  int columns_, column_ = 0;
  bool colour_, seen_open_ = false;
  std::string row_;
  Rows rows_;
};

} // namespace

Rows draw_rows(const std::vector<TokenCell>& cells, int columns, bool colour) {
  Pen pen(columns, colour);
  for (const TokenCell& cell : cells) pen.put(cell);
  return pen.finish();
}

std::vector<std::string> visible_rows(const Rows& rows, size_t height) {
  height = std::max<size_t>(height, 1);
  const size_t count = rows.text.size();
  if (count <= height) return rows.text;
  // A quarter of the window is above the first open position, so that recently decided tokens stay
  // visible.
  const size_t above = height / 4;
  const size_t first =
      std::min(rows.first_open > above ? rows.first_open - above : 0, count - height);
  const auto begin = rows.text.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(height)};
}

std::string bars(const std::vector<float>& values) {
  std::string text;
  for (float value : values) {
    const float clean = std::isfinite(value) ? std::clamp(value, 0.0f, 1.0f) : 0.0f;
    append_utf8(text, 0x2581 + std::min(static_cast<int>(clean * 8), 7));
  }
  return text;
}

std::string visible_text(std::string_view text) {
  std::string clean;
  each_character(text, [&](utf8proc_int32_t code) { append_utf8(clean, harmless(code)); });
  return clean;
}

std::string printed_text(std::string_view text, std::FILE* to) {
  if (isatty(fileno(to)) == 0) return std::string(text);
  std::string clean;
  each_character(text, [&](utf8proc_int32_t code) {
    const bool is_control = code < 0x20 || (code >= 0x7F && code < 0xA0);
    const bool turns = (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
    const bool is_kept = code == '\n' || code == '\t' || (!is_control && !turns);
    append_utf8(clean, is_kept ? code : harmless(code));
  });
  return clean;
}

int width_of(std::string_view text) {
  int width = 0;
  each_character(text,
                 [&](utf8proc_int32_t code) { width += std::max(utf8proc_charwidth(code), 0); });
  return width;
}

std::string cut_to(std::string_view text, int columns) {
  std::string cut;
  int width = 0;
  bool full = false;
  each_character(text, [&](utf8proc_int32_t code) {
    width += std::max(utf8proc_charwidth(code), 0);
    full = full || width > columns;
    if (!full) append_utf8(cut, code);
  });
  return cut;
}

float mean_confidence(const std::vector<TokenCell>& cells) {
  double sum = 0;
  int64_t count = 0;
  for (const TokenCell& cell : cells) {
    if (cell.state != DLLM_PROVISIONAL && cell.state != DLLM_FINAL) continue;
    sum += cell.confidence;
    ++count;
  }
  return count == 0 ? 0.0f : static_cast<float>(sum / static_cast<double>(count));
}

std::string common_begin(const std::vector<std::string>& items) {
  if (items.empty()) return {};
  std::string begin = items.front();
  for (const std::string& item : items) {
    size_t same = 0;
    while (same < begin.size() && same < item.size() && begin[same] == item[same]) ++same;
    begin.resize(same);
  }
  // Items may differ inside a character and share only its first bytes.
  const auto goes_on = [&](const std::string& item) {
    return item.size() > begin.size() &&
           (static_cast<unsigned char>(item[begin.size()]) & 0xC0) == 0x80;
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

} // namespace dllm::cli
