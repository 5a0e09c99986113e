#include "decoding.h"

#include "../objective_facts.h"
#include "../process.h"

#include "../pictures/pictures.h"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string word_of(const Context& context, const std::string& kind, const std::string& key) {
  const Json value = Json::parse(context.option(kind, key));
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// The requests of one command, while they are decoded.
struct Decoding {
  dllm_decoder* decoder;
  std::vector<int32_t> ends; // ids of the tokens that end an answer
  bool has_until;            // the text of --until ends an answer
  std::vector<int64_t> slots = {};
  std::vector<Answer> answers = {}; // one per slot

  // Returns true when the answer has the text of --until, so that its later positions need not be
  // decided.
  bool is_reached(size_t i, const Canvas& canvas) {
    return answers[i].update(canvas.ids, canvas.states) == DLLM_ANSWER_STOP_TEXT;
  }
  bool all_reached() {
    for (size_t i = 0; i < slots.size(); ++i) {
      if (decoder_metric(decoder, slots[i], "done") > 0) continue;
      if (!has_until || !is_reached(i, canvas_of(decoder, slots[i]))) return false;
    }
    return true;
  }
};

// Steps until all requests are done; returns false after Ctrl-C.
bool step_until_done(Context& context, Decoding& run, LiveView* view) {
  const int64_t shown = run.slots[0];
  const int64_t planned = planned_steps(context, progress_of(run.decoder, shown).open);
  const auto show = [&] {
    if (view == nullptr) return;
    Progress progress = progress_of(run.decoder, shown);
    progress.planned = planned;
    view->show(cells_of(run.answers[0], canvas_of(run.decoder, shown)), progress);
  };
  show();
  try {
    for (int64_t active = 1; active > 0 && !run.all_reached(); show()) {
      call([&](dllm_error* err) {
        return dllm_decoder_step(run.decoder, context.task(), &active, err);
      });
    }
  } catch (const Failure& failure) {
    if (failure.status() != DLLM_CANCELLED) throw;
    return false;
  }
  return true;
}

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

// Writes a trace with the texts of its tokens, so that dllm replay needs no model.
void save_trace(Context& context, const Session& session, const Decoding& run) {
  std::string lines;
  for (int64_t slot : run.slots) {
    lines += text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_decoder_trace(run.decoder, slot, out, err);
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
  std::ofstream file(context.text("trace"), std::ios::binary);
  file << trace_header(context.text("model"), mask_id, texts.tokens, texts.joined) << lines;
  file.close();
  if (!file) throw Failure(DLLM_PERMISSION_DENIED, "cannot write " + context.text("trace"));
}

void print_results(const Context& context, Decoding& run, const dllm_tokenizer* tokenizer,
                   int64_t seed) {
  for (size_t i = 0; i < run.slots.size(); ++i) {
    const int64_t slot = run.slots[i], own_seed = seed + static_cast<int64_t>(i);
    const Canvas canvas = canvas_of(run.decoder, slot);
    const Progress progress = progress_of(run.decoder, slot);
    // --until may end a text before all positions are decided; later open positions do not matter.
    const bool whole = run.is_reached(i, canvas) || progress.open == 0;
    const std::string text = whole ? run.answers[i].text() : text_with_holes(tokenizer, canvas);
    if (!context.json()) {
      if (run.slots.size() > 1)
        std::printf("%s--- sample %zu, seed %lld\n", i == 0 ? "" : "\n", i + 1,
                    static_cast<long long>(own_seed));
      std::printf("%s\n", text.c_str());
      continue;
    }
    const Json line = {{"slot", slot},           {"seed", own_seed},
                       {"text", text},           {"ids", canvas.ids},
                       {"steps", progress.step}, {"nfe", progress.evaluations},
                       {"open", progress.open}};
    std::printf("%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  }
  std::fflush(stdout);
}

// Warns when most tokens are equal, which is usual for a small model that decodes greedily.
void warn_about_collapse(const Context& context, const Decoding& run) {
  if (word_of(context, "decoder", "temperature") != "0" &&
      word_of(context, "decoder", "temperature") != "0.0")
    return;
  const Repeats repeats = most_repeated(canvas_of(run.decoder, run.slots[0]), run.ends);
  if (repeats.tokens < 12 || 2 * repeats.same <= repeats.tokens) return;
  const bool ordered = word_of(context, "decoder", "policy") == "autoregressive";
  std::fprintf(stderr, "%lld of %lld tokens are the same: try --temperature 0.8%s\n",
               static_cast<long long>(repeats.same), static_cast<long long>(repeats.tokens),
               ordered ? "" : " --policy random");
}

} // namespace

void check_decoding(const Context& context, bool holes) {
  refuse_typed(context, "decoder", "on_change", "the weights do not change in this command");
  if (!context.has("trace")) {
    refuse_typed(context, "decoder", "trace", "dllm generate --trace FILE writes the trace");
    refuse_typed(context, "decoder", "trace_bytes", "it needs --trace FILE");
  }
  if (!context.has("samples"))
    refuse_typed(context, "decoder", "slots", "this command has one request at a time");
  if (holes) {
    for (const char* kind : {"decoder", "slot"})
      refuse_typed(context, kind, "gen_length", "<mask:N> sets the open positions");
  } else {
    refuse_typed(context, "slot", "prompt_length", "it is for canvases with holes (dllm infill)");
  }
  const bool own_length = context.typed("slot", "gen_length");
  if (context.typed("length") && own_length &&
      context.text("length") != word_of(context, "slot", "gen_length")) {
    throw UsageFailure("--length and --gen-length are the same setting but have two values");
  }
  if (context.typed("length") || own_length)
    note_typed(context, "decoder", "gen_length", "--length sets the open positions");
  if (std::stod(word_of(context, "decoder", "guidance")) == 0) {
    note_typed(context, "decoder", "guidance_keep", "--guidance is 0");
  }
}

namespace {

void use_policy(Context& context, const std::string& policy) {
  context.change_kind("decoder", "decoder:" + policy);
  call([&](dllm_error* err) {
    return dllm_options_set_str(context.options("decoder"), "policy", policy.c_str(), err);
  });
}

// Returns the objective of a run, or "" for other models.
std::string objective_of_run(const std::string& path) {
  std::ifstream file(path + "/run.json");
  const Json start = Json::parse(file, nullptr, false);
  const bool named =
      start.is_object() && start.contains("objective") && start["objective"].is_string();
  return named ? start["objective"].get<std::string>() : "";
}

} // namespace

void choose_policy(Context& context, const Session& session) {
  if (context.typed("policy") || context.typed("decoder", "policy") ||
      context.typed("decoder", "attention"))
    return;
  const std::string trained = objective_of_run(context.text("model"));
  const ObjectiveFacts objective = facts_of(trained);
  const std::string& made_for = objective.policy;
  const bool quiet = context.flag("quiet") || context.json();
  const bool other = made_for != "" && made_for != "autoregressive";
  if (other && !quiet) {
    std::fprintf(stderr, "%s was trained with %s: --policy %s is made for it\n",
                 context.text("model").c_str(), trained.c_str(), made_for.c_str());
  }
  // Only its own policy decodes a causal model with a canvas.
  if (objective.model == "canvas") return use_policy(context, made_for);
  if (other || session.about.value("attention", "") != "causal") return;
  use_policy(context, "autoregressive");
  if (quiet) return;
  std::fprintf(
      stderr, "%s is a causal model: --policy autoregressive decodes it, one token after another\n",
      context.text("model").c_str());
}

Owned<dllm_decoder> open_decoder(Context& context, const Session& session, bool trace) {
  if (trace || !context.typed("decoder", "trace")) {
    call([&](dllm_error* err) {
      return dllm_options_set_i64(context.options("decoder"), "trace", trace ? 1 : 0, err);
    });
  }
  return make<dllm_decoder>([&](dllm_decoder** out, dllm_error* err) {
    return dllm_decoder_new(session.model.get(), context.options("decoder"), out, err);
  });
}

int64_t add_request(Context& context, dllm_decoder* decoder, const Request& request) {
  if (context.has("length")) {
    const int64_t length = context.number("length");
    if (length < 1) throw UsageFailure("--length takes 1 and more, not " + std::to_string(length));
    call([&](dllm_error* err) {
      return dllm_options_set_i64(context.options("slot"), "gen_length", length, err);
    });
  }
  int64_t slot = 0;
  call([&](dllm_error* err) {
    return dllm_decoder_add(
        decoder, request.canvas.data(), request.fixed.empty() ? nullptr : request.fixed.data(),
        static_cast<int64_t>(request.canvas.size()), context.options("slot"), &slot, err);
  });
  return slot;
}

std::string policy_sentence() {
  std::string sentence = "which open positions are decided when:";
  for (int64_t i = 0; const char* name = dllm_registry_name("policy", i); ++i)
    sentence += std::string(" ") + name;
  return sentence;
}

Progress progress_of(const dllm_decoder* decoder, int64_t slot) {
  const auto metric = [&](const char* key) {
    return static_cast<int64_t>(decoder_metric(decoder, slot, key));
  };
  return {metric("steps"), metric("nfe"), metric("open")};
}

int64_t planned_steps(const Context& context, int64_t open) {
  const std::string policy = word_of(context, "decoder", "policy");
  const int64_t own = std::stoll(word_of(context, "slot", "steps"));
  const int64_t steps = own > 0 ? own : std::stoll(word_of(context, "decoder", "steps"));
  if (policy == "autoregressive") return open;
  if (policy == "low_confidence") return std::min(steps, open);
  return policy == "random" || policy == "ancestral" ? steps : 0;
}

Session::Session(Context& context)
    : engine(open_engine(context)), model(open_model(context, engine.get(), context.text("model"))),
      tokenizer(open_prompt_tokenizer(context, context.text("model"))),
      about(Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
        return dllm_model_describe(model.get(), out, err);
      }))) {}

int run_requests(Context& context, Session& session, const std::vector<Request>& requests) {
  const Owned<dllm_decoder> decoder = open_decoder(context, session, context.has("trace"));
  const bool has_holes = !requests[0].fixed.empty();
  Decoding run{decoder.get(), has_holes ? std::vector<int32_t>() : choose_ends(context, session),
               !has_holes && context.has("until") && !context.text("until").empty()};
  const int64_t seed = std::stoll(word_of(context, "slot", "seed"));
  for (const Request& request : requests) {
    call([&](dllm_error* err) {
      return dllm_options_set_i64(context.options("slot"), "seed",
                                  seed + static_cast<int64_t>(run.slots.size()), err);
    });
    run.slots.push_back(add_request(context, decoder.get(), request));
    const int64_t begin = has_holes ? -1 : static_cast<int64_t>(request.canvas.size());
    run.answers.push_back(prompted_answer(context, session.tokenizer.get(), begin, run.ends));
  }
  LiveView view;
  const bool shown = !context.flag("quiet") && !context.json() && view.is_terminal();
  const bool finished = step_until_done(context, run, shown ? &view : nullptr);
  if (isatty(STDOUT_FILENO) != 0) view.clear(); // the text is printed only once
  print_results(context, run, session.tokenizer.get(), seed);
  if (context.has("trace")) save_trace(context, session, run);
  if (finished) {
    if (!context.json()) warn_about_collapse(context, run);
    return 0;
  }
  const Progress progress = progress_of(decoder.get(), run.slots[0]);
  std::fprintf(stderr, "interrupted after step %lld: %lld positions are open\n",
               static_cast<long long>(progress.step), static_cast<long long>(progress.open));
  return kInterrupted;
}

} // namespace dllm::cli
