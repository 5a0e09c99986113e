// dllm eval --task text computes the loss of a text.

#include "../fingerprint.h"
#include "../objective_facts.h"
#include "../open_dataset.h"
#include "../run_settings.h"
#include "eval.h"

#include <cmath>
#include <cstdio>
#include <numbers>
#include <numeric>
#include <set>
#include <string>

namespace dllm::cli {
namespace {

constexpr int64_t kMostBatchRows = 8;

// Returns the rows of a batch, a divisor of --limit, so that --limit rows are whole batches.
int64_t batch_rows(const Context& context) {
  const int64_t limit = context.number("limit");
  return limit == 0 ? kMostBatchRows : std::gcd(limit, kMostBatchRows);
}

// Sets the dataset options of the training run, unless the user set them.
void read_as_the_run_did(const Context& context) {
  const RowSettings rows = row_settings(context);
  EvalJson own = EvalJson::object();
  for (const auto& [name, value] : rows.dataset.items()) {
    if (!context.typed("dataset", name) && !context.typed(name)) own[name] = value;
  }
  const std::string json = own.dump();
  call([&](dllm_error* err) {
    return dllm_options_set_json(context.options("dataset"), json.data(),
                                 static_cast<int64_t>(json.size()), err);
  });
}

// Returns the options of the data set that are not at their defaults. The settings have keys of
// their own for `rows` and `template`. The place of the ids does not change a row.
EvalJson other_row_settings(const Context& context) {
  const std::set<std::string> left_out = {"rows", "template", "token_file", "stream"};
  const EvalJson schema = EvalJson::parse(text(
      [](dllm_buffer* out, dllm_error* err) { return dllm_options_schema("dataset", out, err); }));
  EvalJson made = EvalJson::object();
  for (const EvalJson& key : schema.at("keys")) {
    const auto name = key.at("name").get<std::string>();
    const EvalJson value = EvalJson::parse(context.option("dataset", name));
    if (!left_out.contains(name) && value != key.at("default")) made[name] = value;
  }
  return made;
}

Owned<dllm_loader> open_rows_of(const Context& context, const ScoredModel& scored) {
  const int64_t length = context.number("row-length");
  const int64_t positions = model_number(scored.model.get(), "max_length");
  if (length > positions) {
    throw UsageFailure("--row-length " + std::to_string(length) + " is more than the " +
                           std::to_string(positions) + " positions of the model",
                       "--row-length " + std::to_string(positions) + " or less");
  }
  const auto data =
      open_dataset(context, context.text("data"), scored.tokenizer.get(), context.json());
  const auto options = make<dllm_options>(
      [](dllm_options** out, dllm_error* err) { return dllm_options_new("loader", out, err); });
  const std::string values =
      EvalJson{{"batch", batch_rows(context)}, {"length", length}, {"shuffle", false}}.dump();
  call([&](dllm_error* err) {
    return dllm_options_set_json(options.get(), values.data(), static_cast<int64_t>(values.size()),
                                 err);
  });
  return make<dllm_loader>([&](dllm_loader** out, dllm_error* err) {
    return dllm_loader_new(data.get(), options.get(), out, err);
  });
}

// Returns the next batch, or null at the end of the data.
Owned<dllm_batch> next_batch(dllm_loader* loader) {
  try {
    return make<dllm_batch>(
        [&](dllm_batch** out, dllm_error* err) { return dllm_loader_next(loader, out, err); });
  } catch (const Failure& failure) {
    if (failure.status() == DLLM_OUT_OF_RANGE) return nullptr;
    throw;
  }
}

int64_t rows_of(const dllm_batch* batch) {
  const auto array = make<dllm_tensor>(
      [&](dllm_tensor** out, dllm_error* err) { return dllm_batch_array(batch, "ids", out, err); });
  return dllm_tensor_dim(array.get(), 0);
}

struct BatchRows {
  explicit BatchRows(const dllm_batch* batch)
      : ids(read_array<int32_t>(batch, "ids", DLLM_I32)),
        keep(read_array<uint8_t>(batch, "keep", DLLM_U8)),
        segments(read_array<int32_t>(batch, "segments", DLLM_I32)),
        length(ids.size() / static_cast<size_t>(rows_of(batch))) {}

  std::vector<int32_t> ids;
  std::vector<uint8_t> keep; // 1: given, and not in the loss
  std::vector<int32_t> segments;
  size_t length;
};

// Numbers the rows within the whole text. Noise depends on the number of a row, so that no two rows
// have the same noise.
void number_rows(dllm_batch* batch, int64_t first) {
  const int64_t numbers[] = {first, first + rows_of(batch)}, dims[] = {2};
  call([&](dllm_error* err) {
    return dllm_batch_set(batch, "rows", DLLM_I64, dims, 1, numbers, err);
  });
}

// Returns the tokens of a row that the loss scores. A loss that predicts a token from the state
// before it does not score the first token of each text.
std::vector<int32_t> scored_tokens(const BatchRows& rows, size_t row, bool is_shifted) {
  std::vector<int32_t> made;
  for (size_t i = row * rows.length; i < (row + 1) * rows.length; ++i) {
    const bool is_first = i % rows.length == 0 || rows.segments[i] != rows.segments[i - 1];
    const bool is_given = rows.keep[i] != 0 || rows.segments[i] == 0 || (is_shifted && is_first);
    if (!is_given) made.push_back(rows.ids[i]);
  }
  return made;
}

// Returns the mean over tokens, with the standard error of a ratio of two sums over independent
// rows. Only a loss that bounds a likelihood has a perplexity and bits per byte.
EvalJson summary(const EvalResults& results, bool is_likelihood) {
  double sum = 0, count = 0, bytes = 0, tokens = 0;
  for (const EvalJson& line : results.lines()) {
    tokens += line.value("tokens", line["count"].get<double>()); // older files have no tokens
    bytes += line["bytes"].get<double>();
    sum += line["sum"].get<double>();
    count += line["count"].get<double>();
  }
  const double mean = sum / count;
  double squares = 0;
  for (const EvalJson& line : results.lines()) {
    const double apart = line["sum"].get<double>() - mean * line["count"].get<double>();
    squares += apart * apart;
  }
  const auto rows = static_cast<double>(results.lines().size());
  const double error = rows > 1 ? std::sqrt(squares * rows / (rows - 1)) / count : 0;
  EvalJson made = {{"rows", static_cast<int64_t>(rows)},
                   {"tokens", static_cast<int64_t>(tokens)},
                   {"bytes", static_cast<int64_t>(bytes)},
                   {"nats_per_token", mean}};
  if (rows > 1) made["nats_per_token_error"] = error; // one row says nothing about others
  if (!is_likelihood) return made;
  made["perplexity"] = std::exp(mean);
  if (bytes <= 0) return made; // special tokens alone have no text
  const double to_bits = count / bytes / std::numbers::ln2;
  made["bits_per_byte"] = mean * to_bits;
  if (rows > 1) made["bits_per_byte_error"] = error * to_bits;
  return made;
}

// Fails when no token counted. A mean over nothing would be a perfect score.
void check_counted(const Context& context, const EvalResults& results) {
  for (const EvalJson& line : results.lines()) {
    if (line["count"].get<double>() > 0) return;
  }
  throw Failure(DLLM_OUT_OF_RANGE,
                context.text("data") + ": no token of its " +
                    std::to_string(results.lines().size()) + " rows counts in the loss",
                "a loss that predicts the next token needs a --row-length of 2 or more; given "
                "tokens, such as prompts, never count");
}

void note_no_likelihood(const Context& context, const ScoredModel& scored) {
  if (context.json()) return;
  std::fprintf(stderr,
               "the loss of objective %s does not bound a likelihood: it has no perplexity and no "
               "bits per byte\n",
               scored.objective_name.c_str());
}

// Notes that the model was trained on conversations, when the first row is a plain text.
void note_chat_template(const Context& context, const ScoredModel& scored,
                        const dllm_batch* first) {
  const bool as_chat = context.option("dataset", "template") != "\"\"";
  const std::vector<int32_t> chat = encode_chat(scored.tokenizer.get());
  if (as_chat || context.json() || chat.empty()) return;
  const auto ids = read_array<int32_t>(first, "ids", DLLM_I32);
  const auto keep = read_array<uint8_t>(first, "keep", DLLM_U8);
  if (ids[0] == chat[0] && keep[0] != 0) return; // a conversation
  std::fprintf(stderr, "%s has a chat template: texts are scored here without it\n",
               context.text("model").c_str());
}

} // namespace

EvalJson evaluate_text(Context& context) {
  set_template(context, "dataset");
  read_as_the_run_did(context);
  const ScoredModel scored(context);
  const Owned<dllm_tokenizer> reader = open_plain_tokenizer(context, context.text("model"));
  const int64_t draws = scored.noiseless ? 1 : context.number("draws");
  const int64_t limit = context.number("limit"), rows = batch_rows(context);
  EvalJson settings = {{"task", "text"}, {"data", context.text("data")}};
  settings.update(scored.settings);
  settings["row_length"] = context.number("row-length");
  settings["draws"] = draws;
  settings["seed"] = context.number("noise-seed");
  settings.update(model_facts(context));
  settings["data_checksum"] = checksum_of(context.text("data"));
  const std::string how = context.option("dataset", "rows");
  if (how != "\"file\"") settings["text_rows"] = EvalJson::parse(how);
  const EvalJson chat = EvalJson::parse(context.option("dataset", "template"));
  if (chat != "") settings["template"] = chat;
  const EvalJson others = other_row_settings(context);
  if (!others.empty()) settings["dataset"] = others;
  const Owned<dllm_loader> loader = open_rows_of(context, scored);
  EvalResults results(context.has("out") ? context.text("out") : "", settings, limit,
                      context.flag("quiet"));
  for (int64_t first = 0; limit == 0 || first < limit; first += rows) {
    const Owned<dllm_batch> batch = next_batch(loader.get());
    if (batch == nullptr) break;
    if (first == 0) note_chat_template(context, scored, batch.get());
    std::vector<size_t> missing;
    for (int64_t row = 0; row < rows_of(batch.get()); ++row) {
      if (!results.take(std::to_string(first + row))) missing.push_back(static_cast<size_t>(row));
    }
    if (missing.empty()) continue;
    number_rows(batch.get(), first);
    RowSums all;
    for (int64_t draw = 0; draw < draws; ++draw) {
      const RowSums one =
          row_sums(context, scored, batch.get(), context.number("noise-seed") + draw);
      all.sums.resize(one.sums.size());
      for (size_t row = 0; row < one.sums.size(); ++row)
        all.sums[row] += one.sums[row] / static_cast<double>(draws);
      all.counts = one.counts;
    }
    const BatchRows content(batch.get());
    for (const size_t row : missing) {
      const std::vector<int32_t> tokens = scored_tokens(content, row, scored.is_shifted);
      results.add({{"id", std::to_string(first + static_cast<int64_t>(row))},
                   {"sum", all.sums[row]},
                   {"count", all.counts[row]},
                   {"tokens", tokens.size()},
                   {"bytes", decode(reader.get(), tokens).size()}});
    }
  }
  check_counted(context, results);
  const bool is_likelihood = facts_of(scored.objective_name).likelihood;
  if (!is_likelihood) note_no_likelihood(context, scored);
  EvalJson report = summary(results, is_likelihood);
  report["resumed"] = results.resumed();
  report["settings"] = settings;
  return report;
}

} // namespace dllm::cli
