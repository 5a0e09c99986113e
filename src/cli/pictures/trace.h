#pragma once
// A saved trace in memory: what replays and pictures are drawn from, without a model.
//
// A file of JSON lines. One line per step and slot, as dllm_decoder_trace writes it; before them a header line of
// `dllm generate --trace` may stand: {"model", "mask_id", "tokens": {"id": "text"}, "joined": {"id id": "text"}}, where
// joined has the characters that only several tokens together spell.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::cli {

// The canvas after one step. The four arrays have one entry per position.
struct TraceStep {
  int64_t step = 0, block = 0, evaluations = 0, open = 0;
  std::vector<int32_t> ids;
  std::vector<uint8_t> states;  // DLLM_MASKED .. DLLM_FIXED
  std::vector<float> confidence;
  std::vector<int64_t> decided;  // positions this step decided
};

struct TraceSlot {
  int64_t number = 0;
  std::vector<TraceStep> steps;  // never empty
  size_t positions() const;      // of the longest step
};

struct Trace {
  std::string model;
  int64_t mask_id = -1;
  std::map<int32_t, std::string> tokens;
  std::map<std::string, std::string> joined;  // by ids with a space between
  std::vector<TraceSlot> slots;  // by number, never empty
  bool cut = false;              // the last line was not whole: its writer was stopped

  // The text a token stands for; "⟨id⟩" where the header does not know it.
  std::string text_of(int32_t id) const;
  // One text per position; "" where it is open, and where the text stands in a cell before (a joined character).
  std::vector<std::string> texts_of(const TraceStep& step) const;
};

// How much a trace may hold: all positions of all steps, and of one step.
inline constexpr int64_t kMostCells = 32'000'000, kMostPositions = 1'000'000;

// Throws Failure naming `name` and the line for text that is no trace. A last line that was cut is left out.
Trace parse_trace(std::string_view text, const std::string& name);

// The header line of a trace file, with its line break.
std::string trace_header(const std::string& model, int64_t mask_id, const std::map<int32_t, std::string>& tokens,
                         const std::map<std::string, std::string>& joined = {});
// "12 7": how joined names a run of ids.
std::string joined_key(const int32_t* ids, size_t count);
inline constexpr size_t kMostJoined = 8;  // tokens of one character

}  // namespace dllm::cli
