#include "saved_trace.h"

#include "../../pictures/pictures.h"
#include "../../processes/process.h"

#include <map>
#include <string>

namespace dllm::cli {
namespace {

// The texts of the tokens of a trace, for its header.
class TraceTexts {
public:
  explicit TraceTexts(const dllm_tokenizer* tokenizer) : answer_(endless_answer(tokenizer)) {}

  void add_token(int32_t id) {
    if (tokens.contains(id)) return;
    answer_.update(std::vector<int32_t>{id}, std::vector<uint8_t>{DLLM_FINAL});
    const std::string cell = answer_.cells()[0];
    if (cell != Trace().text_of(id)) tokens[id] = cell; // a token without text is not in the header
  }
  // Adds the tokens of a step, and the characters of several tokens.
  void add_step(const TraceStep& step) {
    for (const int32_t id : step.ids) add_token(id);
    answer_.update(step.ids, step.states);
    const std::vector<std::string> cells = answer_.cells();
    const auto continues = [&](size_t i) {
      return i < cells.size() && step.states[i] != DLLM_MASKED && cells[i].empty();
    };
    for (size_t i = 0; i < cells.size(); ++i) {
      size_t count = 1;
      while (continues(i + count)) ++count;
      if (count > 1) joined[joined_key(step.ids.data() + i, count)] = cells[i];
      i += count - 1;
    }
  }

  std::map<int32_t, std::string> tokens;
  std::map<std::string, std::string> joined;

private:
  Answer answer_;
};

} // namespace

void check_trace(const Context& context) {
  if (context.has("trace"))
    check_replaces(context.text("trace"), "{\"model\":", "a trace of dllm generate", "--trace");
}

void save_trace(const Context& context, const Session& session, const dllm_decoder* decoder,
                const std::vector<int64_t>& slots) {
  std::string lines;
  for (const int64_t slot : slots) {
    lines += text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_decoder_trace(decoder, slot, out, err);
    });
  }
  int64_t mask = -1;
  dllm_model_i64(session.model.get(), "mask_id", &mask, nullptr);
  const auto mask_id = static_cast<int32_t>(mask);
  TraceTexts texts(session.tokenizer.get());
  texts.add_token(mask_id);
  const Trace trace = lines.empty() ? Trace() : parse_trace(lines, "the trace");
  for (const TraceSlot& slot : trace.slots) {
    for (const TraceStep& step : slot.steps) texts.add_step(step);
  }
  if (job_rank() > 0) return;
  write_all(context.text("trace"),
            trace_header(context.text("model"), mask_id, texts.tokens, texts.joined) + lines);
}

} // namespace dllm::cli
