#pragma once
// These functions draw pictures of a decoding run without a model. They read a saved trace and draw
// the canvas in a terminal, a heat map or an HTML page.
//
// A trace is a file of JSON lines, one line per step and slot, which dllm_decoder_trace writes. The
// first line may be a header of `dllm generate --trace`: {"model", "mask_id", "tokens": {"id":
// "text"}, "joined": {"id id": "text"}}. joined has the characters that consist of several tokens.

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
  std::vector<int64_t> decided; // positions that this step decided
};

struct TraceSlot {
  int64_t number = 0;
  std::vector<TraceStep> steps; // never empty
  size_t positions() const;     // number of positions of the longest step
};

struct Trace {
  std::string model;
  int64_t mask_id = -1;
  std::map<int32_t, std::string> tokens;
  std::map<std::string, std::string> joined; // by ids with spaces between them
  std::vector<TraceSlot> slots;              // by number, never empty
  bool cut = false;                          // the last line was incomplete: its writer was stopped

  // Returns the text of a token, or "⟨id⟩" when the header lacks it.
  std::string text_of(int32_t id) const;
  // Returns one text per position. The text is "" for an open position, and for a position whose
  // character an earlier position shows (joined).
  std::vector<std::string> texts_of(const TraceStep& step) const;
};

// Most positions in all steps of a trace, and most positions in one step.
inline constexpr int64_t kMostCells = 32'000'000, kMostPositions = 1'000'000;

// Throws Failure naming `name` and the line for a text that is not a trace. Ignores an incomplete
// last line.
Trace parse_trace(std::string_view text, const std::string& name);

// Returns the header line of a trace file, with its line break.
std::string trace_header(const std::string& model, int64_t mask_id,
                         const std::map<int32_t, std::string>& tokens,
                         const std::map<std::string, std::string>& joined = {});
// Returns the key of consecutive ids in joined: "12 7".
std::string joined_key(const int32_t* ids, size_t count);
inline constexpr size_t kMostJoined = 8; // most tokens of one character

// ---- a canvas as rows of a terminal (terminal.cpp) ----
// The state of a position chooses its colour. The width of wide characters is counted, and control
// characters are replaced by visible ones.

struct TokenCell {
  std::string text; // "": another cell shows the character of this token
  uint8_t state;    // DLLM_MASKED .. DLLM_FIXED
  float confidence;
};

struct Rows {
  std::vector<std::string> text; // each row ends with default colours
  size_t first_open = 0;         // the row of the first open position
};

// Draws rows of at most `columns` columns. colour false: rows have no escape sequences.
Rows draw_rows(const std::vector<TokenCell>& cells, int columns, bool colour);
// Returns at most `height` rows, which include the first open position.
std::vector<std::string> visible_rows(const Rows& rows, size_t height);

// Returns one character of "▁▃▆█" per value from 0 to 1.
std::string bars(const std::vector<float>& values);
// Replaces line breaks by ⏎, other control characters by their pictures (U+2400), and bad UTF-8 by
// U+FFFD.
std::string visible_text(std::string_view text);
// Returns a text as it is printed to `to`. A terminal gets no control characters except line breaks
// and tabs, and none that turn the direction of a line. A file or a pipe gets the text as it is.
std::string printed_text(std::string_view text, std::FILE* to);
// Returns the number of columns that a text takes.
int width_of(std::string_view text);
// Cuts the text to at most `columns` columns, between characters.
std::string cut_to(std::string_view text, int columns);

// Returns the longest common beginning of all items that ends between characters.
std::string common_begin(const std::vector<std::string>& items);
// Returns the items in columns, with rows of at most `columns` columns and a line break after each.
std::string in_columns(const std::vector<std::string>& items, int columns);

// Returns the mean confidence of the tokens that are neither fixed nor open; 0 without such tokens.
float mean_confidence(const std::vector<TokenCell>& cells);

// ---- a canvas while it is denoised (playback.cpp) ----
// A terminal shows one picture that is redrawn in place and in colour. Other outputs get one plain
// line per step.

struct Progress {
  int64_t step = 0, evaluations = 0, open = 0;
  int64_t planned = 0; // steps of the whole decoding; 0: unknown
};

class LiveView {
public:
  // Draws on standard error by default, so that standard output has only the result.
  explicit LiveView(std::FILE* to = stderr);

  void show(const std::vector<TokenCell>& cells, const Progress& progress);
  void clear(); // removes the picture
  // Returns true for a terminal other than TERM=dumb. NO_COLOR keeps the picture without colours.
  bool is_terminal() const { return terminal_; }

private:
  std::string status(const std::vector<TokenCell>& cells, const Progress& progress);

  std::FILE* to_;
  bool terminal_, colour_;
  size_t lines_ = 0;         // rows of the last picture
  std::vector<float> means_; // mean confidence of each step so far
};

// ---- one slot of a trace as an SVG picture (heat_map.cpp) ----
// Positions go from left to right and steps from top to bottom. Colours show state and confidence.

// Most columns and rows of a heat map. With more positions several share a column, and with more
// steps some are left out.
inline constexpr size_t kMostColumns = 320, kMostRows = 240;

std::string heat_map_svg(const Trace& trace, const TraceSlot& slot);

// Returns the text for use in XML: markup is escaped, and characters that XML forbids are replaced.
std::string xml_text(const std::string& text);

// ---- a trace as one HTML file with a time slider (playback.cpp) ----

// Most cells (steps x positions) of a page. Of longer slots the page shows every second, third, ...
// step, and a note about it.
inline constexpr int64_t kMostPageCells = 4'000'000;

std::string replay_html(const Trace& trace, int64_t most_cells = kMostPageCells);

// Returns the indices of at most `most` of `count` steps: every n-th step, and always the last.
std::vector<size_t> thinned(size_t count, size_t most);

extern const std::string_view kReplayPage; // content of replay.html

} // namespace dllm::cli
