#pragma once
// What the handlers of decoding topics share: the requests of a case in our words, its options, and
// our canvases against the recorded ones.

#include "base/json.h"
#include "base/options.h"
#include "decode/decoder/decoder.h"
#include "model/model.h"
#include "runner.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::parity {

using Ids = std::vector<int32_t>;

// One row of a reference's batch. The reference pads its rows to one width; ours stand alone.
struct SamplerRow {
  Ids canvas;
  std::vector<uint8_t> fixed; // empty: a prompt, open positions follow
  int64_t length = 0;         // with the open positions
  int64_t column = 0;         // of its first token in the reference's canvas
};

// Null, false, 0 and [] ask for nothing.
bool is_off(const Json& value);
int64_t ceil_divide(int64_t a, int64_t b);
std::string text_of(const Ids& ids);

// Everything a case asks for that our decoder cannot do is a reason to skip, never to ignore: a
// method that is neither sample nor infill, a parameter that is on and not listed, a temperature
// without recorded draws.
void refuse_unknown(Case& c, const Json& entry, std::initializer_list<std::string_view> known);

// Prompts with max_new_tokens behind them, or canvases with holes; right_shift: an empty prompt
// becomes the BOS token.
std::vector<SamplerRow> rows_of(const Json& entry, bool right_shift);
// Moves every row to the right edge of the widest one, rounded up to a multiple.
void align_right(std::vector<SamplerRow>& rows, int64_t multiple = 1);

// Settings most samplers share: temperature, schedule, attention, shift, suppressed tokens (the
// references let the mask win), deferred ones, guidance. Options the policy does not have stay
// untouched.
Options sampler_options(const Json& entry, const std::string& policy, const char* attention,
                        bool right_shift);

// The model of a case, with its mask token set.
std::shared_ptr<model::Model> sampler_model(Case& c, const Json& entry);

// Logits of the first forward as the model gives them: no shift, nothing suppressed. A second half
// of the batch is the unconditional canvas. sights: one per row.
void compare_first_logits(Case& c, model::Model& model, const Json& entry,
                          const std::vector<SamplerRow>& rows,
                          const std::vector<decode::AttentionSpan>& sights);
// Every canvas of a finished request (standing still left out) and the final one, as far as the
// recorded canvas goes. The decoder traces; `number` is the row in the arrays trace
// i32(snapshots, batch, width) and final; -1: not there yet.
void compare_row(Case& c, const decode::Decoder& decoder, int64_t slot, const SamplerRow& row,
                 int64_t number, int32_t mask);

// Decodes all rows with one decoder and compares each, and the most function evaluations of a row:
// rows of a batch run together in the reference, one step for all.
void run_rows(Case& c, const Json& entry, const std::shared_ptr<model::Model>& model,
              const Options& options, const std::vector<SamplerRow>& rows);

} // namespace dllm::parity
