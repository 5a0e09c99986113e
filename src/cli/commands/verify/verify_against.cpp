#include "verify_against.h"

#include "../../processes/process.h"
#include "../bench/bench_work.h"
#include "against_model.h"
#include "difference.h"

#include <algorithm>
#include <cstdio>

namespace dllm::cli {
namespace {

using AgainstJson = nlohmann::ordered_json;

// The text that is compared without --data.
constexpr const char* kText =
    "The harbour was quiet in the morning. Two boats had come back before the storm, and their "
    "crews were mending nets on the quay while the third was still somewhere behind the island. An "
    "old man counted the gulls on the roof of the customs house, as he did every day, and wrote "
    "the "
    "number into a small black book. \"Forty-one,\" he said. \"Yesterday there were "
    "thirty-eight.\" "
    "His granddaughter asked him why it mattered. He thought about the question for a while, then "
    "he answered that a number which is written down every day becomes a kind of friend: you "
    "notice "
    "when it is missing.\n\n"
    "In 1911 the engineer who built the lighthouse measured the height of the waves for a whole "
    "winter. He found that the highest wave of a night is about twice as high as the mean of the "
    "highest third, a rule that sailors had known long before him. His instrument was simple: a "
    "float in an iron tube, a pen, and a drum of paper that turned once in twelve hours. When the "
    "drum was changed, a clerk copied the highest and the lowest point into a table with four "
    "columns: the date, the hour, the direction of the wind, and the height in feet.\n\n"
    "To make bread, mix five hundred grams of flour with three hundred and fifty grams of water, "
    "ten grams of salt and a little yeast. Knead the dough until it is smooth, let it rest for two "
    "hours, fold it twice, and bake it in a hot oven for forty minutes. The crust should be brown "
    "and should sound hollow when you knock on it.\n\n"
    "def mean(values):\n    total = 0.0\n    for value in values:\n        total += value\n"
    "    return total / len(values)\n";

constexpr double kRatios[] = {0.15, 0.5, 0.85}; // of masked positions
constexpr size_t kPrompts = 4, kPromptLength = 32;

AgainstJson options_of_kind(const Context& context, const std::string& kind) {
  return AgainstJson::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_options_to_json(context.options(kind), out, err);
  }));
}

// The text in windows of equal length. Each window begins with the tokens that begin every text.
struct Windows {
  std::vector<std::vector<int32_t>> rows;
  std::vector<std::vector<int32_t>> prompts; // short pieces that both models continue
  size_t start = 0;                          // number of tokens that begin every text
};

Windows windows_of(const Context& context, const dllm_tokenizer* tokenizer, int64_t longest) {
  const std::string content = context.has("data") ? read_utf8(context.text("data")) : kText;
  const std::vector<int32_t> start = encode(tokenizer, "");
  std::vector<int32_t> ids = encode(tokenizer, content);
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(start.size()));
  const auto most = static_cast<size_t>(context.number("tokens"));
  ids.resize(std::min(ids.size(), most));
  const auto room = static_cast<size_t>(std::min(context.number("length"), longest));
  const size_t longest_piece = std::max<size_t>(1, room - std::min(room, start.size()));
  const size_t count = std::max<size_t>(1, (ids.size() + longest_piece - 1) / longest_piece);
  // Windows of equal length need only one program.
  const size_t step = std::max<size_t>(1, ids.size() / count);
  Windows windows;
  windows.start = start.size();
  const auto piece = [&](size_t at, size_t size) {
    std::vector<int32_t> row = start;
    const auto from = ids.begin() + static_cast<std::ptrdiff_t>(at);
    row.insert(row.end(), from, from + static_cast<std::ptrdiff_t>(size));
    return row;
  };
  for (size_t at = 0; at + step <= ids.size(); at += step) windows.rows.push_back(piece(at, step));
  const size_t prompt = std::min<size_t>({kPromptLength, step, ids.size() / kPrompts});
  for (size_t i = 0; i < kPrompts && prompt > 0; ++i)
    windows.prompts.push_back(piece(i * (ids.size() / kPrompts), prompt));
  if (windows.rows.empty() || windows.rows[0].size() < 2)
    throw Failure(DLLM_INVALID_ARGUMENT, "the text has " + std::to_string(ids.size()) + " tokens",
                  "give a longer one with --data");
  return windows;
}

// Masks a part of the row's tokens, which depends only on the key.
std::vector<int32_t> masked(const Context& context, const dllm_objective* objective,
                            const Side& side, const Windows& windows, size_t row, size_t ratio) {
  const auto batch = row_batch(windows.rows[row]);
  const int64_t one[] = {1}, dims[] = {1, static_cast<int64_t>(windows.rows[row].size())};
  const auto time = static_cast<float>(kRatios[ratio]);
  std::vector<uint8_t> keep(windows.rows[row].size(), 0);
  std::fill_n(keep.begin(), windows.start, uint8_t{1});
  call([&](dllm_error* err) {
    return dllm_batch_set(batch.get(), "t", DLLM_F32, one, 1, &time, err);
  });
  call([&](dllm_error* err) {
    return dllm_batch_set(batch.get(), "keep", DLLM_U8, dims, 2, keep.data(), err);
  });
  const auto step = static_cast<int64_t>(row * std::size(kRatios) + ratio);
  const auto noised = make<dllm_batch>([&](dllm_batch** out, dllm_error* err) {
    return dllm_objective_prepare(objective, side.model.get(), batch.get(),
                                  context.number("mask-seed"), step, out, err);
  });
  return ids_of(noised.get());
}

// Adds the differences of the positions i of `row` for which counts(i) is true.
template <class F>
void compare_row(const Context& context, Side& model, Side& reference,
                 const std::vector<int32_t>& input, const std::vector<int32_t>& row, F&& counts,
                 std::vector<PositionDifference>& to) {
  const std::vector<float> found = logits_of(context, model, input),
                           wanted = logits_of(context, reference, input);
  const size_t vocab = found.size() / row.size();
  if (wanted.size() != found.size())
    throw Failure(DLLM_INVALID_ARGUMENT, "the model has " + std::to_string(vocab) +
                                             " tokens, the reference " +
                                             std::to_string(wanted.size() / row.size()));
  for (size_t i = 0; i < row.size(); ++i) {
    if (!counts(i)) continue;
    to.push_back(difference_of(std::span(found).subspan(i * vocab, vocab),
                               std::span(wanted).subspan(i * vocab, vocab), row[i]));
  }
}

AgainstJson compare_predictions(Context& context, StatusLine& status, Side& model, Side& reference,
                                const Windows& windows) {
  const bool causal = model.is_causal();
  const size_t ratios = causal ? 1 : std::size(kRatios);
  const auto objective = make<dllm_objective>([&](dllm_objective** out, dllm_error* err) {
    return dllm_objective_new("mdlm", nullptr, nullptr, out, err);
  });
  AgainstJson groups = AgainstJson::array();
  std::vector<PositionDifference> all;
  for (size_t ratio = 0; ratio < ratios; ++ratio) {
    std::vector<PositionDifference> own;
    for (size_t row = 0; row < windows.rows.size(); ++row) {
      status.show("window " + std::to_string(ratio * windows.rows.size() + row + 1) + " of " +
                  std::to_string(ratios * windows.rows.size()));
      const std::vector<int32_t>& ids = windows.rows[row];
      const std::vector<int32_t> input =
          causal ? ids : masked(context, objective.get(), model, windows, row, ratio);
      const size_t first = std::max<size_t>(causal ? 1 : 0, windows.start);
      compare_row(
          context, model, reference, input, ids,
          [&](size_t i) { return causal ? i >= first : input[i] != ids[i]; }, own);
    }
    if (own.empty()) continue;
    if (!causal) {
      groups.push_back({{"masked", kRatios[ratio]}});
      groups.back().update(difference_summary(own));
    }
    all.insert(all.end(), own.begin(), own.end());
  }
  if (all.empty())
    throw Failure(DLLM_INVALID_ARGUMENT, "no position of the text was masked",
                  "give a longer text with --data");
  AgainstJson result = difference_summary(all);
  if (!causal) result["by_ratio"] = groups;
  return result;
}

AgainstJson compare_generated(Context& context, StatusLine& status, Side& model, Side& reference,
                              const Windows& windows) {
  const int64_t longest = model_number(model.model.get(), "max_length");
  const int64_t length = std::min(context.number("generate"), longest / 2);
  const size_t prompts = windows.prompts.size();
  int64_t same = 0, until = 0;
  for (size_t row = 0; row < prompts && length > 0; ++row) {
    status.show("text " + std::to_string(row + 1) + " of " + std::to_string(prompts));
    std::vector<int32_t> prompt = windows.prompts[row];
    prompt.resize(std::min(prompt.size(), static_cast<size_t>(longest - length)));
    const std::vector<int32_t> own = continuation(context, model, prompt, length),
                               other = continuation(context, reference, prompt, length);
    for (size_t i = 0; i < own.size(); ++i) same += own[i] == other[i] ? 1 : 0;
    until += std::mismatch(own.begin(), own.end(), other.begin()).first - own.begin();
  }
  const auto total = static_cast<double>(length) * static_cast<double>(prompts);
  return {{"texts", prompts},
          {"length", length},
          {"same", total > 0 ? static_cast<double>(same) / total : 0.0},
          {"same_from_start", total > 0 ? static_cast<double>(until) / total : 0.0}};
}

AgainstJson side_json(const Side& side, const std::string& path, const std::string& format,
                      const AgainstJson& engine) {
  return {{"path", path},
          {"format", format},
          {"arithmetic", engine.value("arithmetic", "f32")},
          {"bytes", side.about.value("bytes", 0.0)}};
}

} // namespace

std::vector<Argument> against_arguments() {
  using Kind = Argument::Kind;
  return {
      {Kind::text, "against", "",
       "compare the model's predictions with its predictions in this arithmetic: f32 (bf16, int8)"},
      {Kind::text, "reference", "",
       "the reference's weights: a model of the same vocabulary [the model itself]"},
      {Kind::text, "reference-format", "f32", "format of the reference's weights"},
      {Kind::text, "format", "", "format of the model's weights, the model's option dtype"},
      {Kind::text, "data", "", "a text to compare on [a built-in one of about 400 tokens]"},
      {Kind::number, "tokens", "2048", "most tokens of the text that are used"},
      {Kind::number, "length", "256", "tokens of a forward pass"},
      {Kind::number, "generate", "32",
       "tokens that both models write after up to 4 prompts; 0: none"},
      {Kind::number, "mask-seed", "1", "seed of the masked positions, for models that need masks"}};
}

void check_against(const Context& context) {
  if (!context.has("against")) {
    for (const Argument& argument : against_arguments()) {
      if (context.typed(argument.name))
        throw UsageFailure("--" + argument.name + " needs --against f32");
    }
    return;
  }
  for (const auto& [name, least] :
       {std::pair{"tokens", 2}, {"length", 2}, {"generate", 0}, {"mask-seed", 0}}) {
    if (context.number(name) < least)
      throw UsageFailure(std::string("--") + name + " takes " + std::to_string(least) +
                         " and more, not " + context.text(name));
  }
  if (context.typed("format") && context.typed("model", "dtype"))
    throw UsageFailure("--format and --model.dtype are the same: give one of them");
}

int verify_against(Context& context) {
  if (context.has("format")) set_from_argument(context, "model", "dtype", "format");
  const std::string path = context.text("path");
  const std::string reference_path = context.has("reference") ? context.text("reference") : path;
  AgainstJson engine = options_of_kind(context, "engine"),
              weights = options_of_kind(context, "model");
  AgainstJson reference_engine = engine, reference_weights = weights;
  if (!engine.contains("arithmetic"))
    throw UsageFailure("--against needs an engine with several arithmetics",
                       "use --engine.kind cpu");
  reference_engine["arithmetic"] = context.text("against");
  reference_weights["dtype"] = context.text("reference-format");
  const auto tokenizer = open_prompt_tokenizer(context, path);

  StatusLine status(context.json());
  Side model = open_side(context, status, path, engine, weights);
  Side reference = open_side(context, status, reference_path, reference_engine, reference_weights);
  const Windows windows =
      windows_of(context, tokenizer.get(), model_number(model.model.get(), "max_length"));
  AgainstJson result = {
      {"model", side_json(model, path, weights.value("dtype", ""), engine)},
      {"reference", side_json(reference, reference_path, reference_weights.value("dtype", ""),
                              reference_engine)},
      {"windows", windows.rows.size()},
      {"length", windows.rows[0].size()}};
  result["predictions"] = compare_predictions(context, status, model, reference, windows);
  result["generated"] = compare_generated(context, status, model, reference, windows);
  result["rows_per_second"] = {{"model", rows_per_second(model, windows.rows[0].size())},
                               {"reference", rows_per_second(reference, windows.rows[0].size())}};
  status.clear();
  if (context.json())
    std::printf("%s\n", result.dump(-1, ' ', false, AgainstJson::error_handler_t::replace).c_str());
  else
    print_comparison(result);
  return 0;
}

} // namespace dllm::cli
