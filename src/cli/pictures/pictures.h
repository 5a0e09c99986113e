#pragma once
// Pictures of a decoding run, without a model: a saved trace, the canvas in a terminal, a heat map, an HTML page.
//
// A trace is a file of JSON lines. One line per step and slot, as dllm_decoder_trace writes it; before them a header line of
// `dllm generate --trace` may stand: {"model", "mask_id", "tokens": {"id": "text"}, "joined": {"id id": "text"}}, where
// joined has the characters that only several tokens together spell.

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::cli {

// ---- a trace (trace.cpp) ----

// The canvas after one step. The four arrays have one entry per position.
struct TraceStep {
  int64_t step = 0, block = 0, evaluations = 0, open = 0;
  std::vector<int32_t> ids;
  std::vector<uint8_t> states; // DLLM_MASKED .. DLLM_FIXED
  std::vector<float> confidence;
  std::vector<int64_t> decided; // positions this step decided
};

struct TraceSlot {
  int64_t number = 0;
  std::vector<TraceStep> steps; // never empty
  size_t positions() const;     // of the longest step
};

struct Trace {
  std::string model;
  int64_t mask_id = -1;
  std::map<int32_t, std::string> tokens;
  std::map<std::string, std::string> joined; // by ids with a space between
  std::vector<TraceSlot> slots;              // by number, never empty
  bool cut = false;                          // the last line was not whole: its writer was stopped

  // The text of a token; "⟨id⟩" when the header does not have it.
  std::string text_of(int32_t id) const;
  // One text per position; "" where it is open, and where an earlier cell has the text (a joined character).
  std::vector<std::string> texts_of(const TraceStep& step) const;
};

// How much a trace may hold: all positions of all steps, and of one step.
inline constexpr int64_t kMostCells = 32'000'000, kMostPositions = 1'000'000;

// Throws Failure naming `name` and the line for text that is no trace. A last line that was cut is left out.
Trace parse_trace(std::string_view text, const std::string& name);

// The header line of a trace file, with its line break.
std::string trace_header(const std::string& model, int64_t mask_id,
                         const std::map<int32_t, std::string>& tokens,
                         const std::map<std::string, std::string>& joined = {});
// "12 7": how joined names a run of ids.
std::string joined_key(const int32_t* ids, size_t count);
inline constexpr size_t kMostJoined = 8; // tokens of one character

// ---- a canvas as rows of a terminal (terminal.cpp) ----
// Colours by state; wide characters are measured, control characters made visible.

struct TokenCell {
  std::string text; // "": a token whose character another cell shows
  uint8_t state;    // DLLM_MASKED .. DLLM_FIXED
  float confidence;
};

struct Rows {
  std::vector<std::string> text; // each row ends in plain colours
  size_t first_open = 0;         // the row of the first open position
};

// Rows of at most `columns` columns; colour false: no escape sequences at all.
Rows draw_rows(const std::vector<TokenCell>& cells, int columns, bool colour);
// The part of the rows that fits a height, with the first open position visible.
std::vector<std::string> visible_rows(const Rows& rows, size_t height);

// "▁▃▆█": one character per value from 0 to 1.
std::string bars(const std::vector<float>& values);
// Line breaks as ⏎, other control characters as their pictures (U+2400), bad UTF-8 as U+FFFD.
std::string visible_text(std::string_view text);
// Columns a text takes.
int width_of(std::string_view text);
// The text cut to so many columns, never inside a character.
std::string cut_to(std::string_view text, int columns);

// The longest text that all items begin with, not ending inside a character.
std::string common_begin(const std::vector<std::string>& items);
// Items side by side in columns of a width, a line break after each row.
std::string in_columns(const std::vector<std::string>& items, int columns);

// Mean probability of the tokens that are not given and not open; 0 without any.
float mean_confidence(const std::vector<TokenCell>& cells);

// ---- a canvas while it is denoised (playback.cpp) ----
// In place and in colour in a terminal, elsewhere one plain line per step.

struct Progress {
  int64_t step = 0, evaluations = 0, open = 0;
  int64_t planned = 0; // steps in all; 0: not known before
};

class LiveView {
public:
  // Draws on standard error while something is computed, so that standard output holds the result alone.
  explicit LiveView(std::FILE* to = stderr);

  void show(const std::vector<TokenCell>& cells, const Progress& progress);
  void clear(); // removes the picture
  // A terminal that can be drawn on: no pipe, not TERM=dumb. NO_COLOR keeps the picture and drops the colours.
  bool is_terminal() const { return terminal_; }

private:
  std::string status(const std::vector<TokenCell>& cells, const Progress& progress);

  std::FILE* to_;
  bool terminal_, colour_;
  size_t lines_ = 0;         // rows the last picture took
  std::vector<float> means_; // of the steps so far
};

// ---- one slot of a trace as an SVG picture (heat_map.cpp) ----
// Position from left to right, step from top to bottom, colour by state and confidence.

// At most so many columns and rows are drawn; more positions share a column, more steps are thinned out.
inline constexpr size_t kMostColumns = 320, kMostRows = 240;

std::string heat_map_svg(const Trace& trace, const TraceSlot& slot);

// Text inside XML: markup escaped, what XML forbids replaced.
std::string xml_text(const std::string& text);

// ---- a trace as one HTML file with a time slider (playback.cpp) ----

// A page holds at most so many cells (steps x positions); of longer slots it shows every second, third, ... step
// and has a note about it.
inline constexpr int64_t kMostPageCells = 4'000'000;

std::string replay_html(const Trace& trace, int64_t most_cells = kMostPageCells);

// Which steps are drawn when `most` are allowed: every n-th and always the last.
std::vector<size_t> thinned(size_t count, size_t most);

extern const std::string_view kReplayPage; // replay.html

} // namespace dllm::cli
