// dllm eval --task text computes the loss of a text.

#include "eval.h"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <numbers>
#include <numeric>
#include <string_view>

namespace dllm::cli {
namespace {

constexpr int64_t kMostBatchRows = 8;

// Returns the rows of a batch, a divisor of --limit, so that --limit rows are whole batches.
int64_t batch_rows(const Context& context) {
  const int64_t limit = context.number("limit");
  return limit == 0 ? kMostBatchRows : std::gcd(limit, kMostBatchRows);
}

// Sets the dataset options of a training run's run.json, unless the user set them.
void read_as_the_run_did(const Context& context) {
  std::ifstream file(context.text("model") + "/run.json");
  const EvalJson start = EvalJson::parse(file, nullptr, false);
  if (!start.is_object() || !start.contains("settings") || !start["settings"].is_object()) return;
  constexpr std::string_view kKind = "dataset.";
  EvalJson own = EvalJson::object();
  for (const auto& [key, value] : start["settings"].items()) {
    if (!key.starts_with(kKind)) continue;
    const std::string name = key.substr(kKind.size());
    if (name != "token_file" && !context.typed("dataset", name)) own[name] = value;
  }
  const std::string json = own.dump();
  call([&](dllm_error* err) {
    return dllm_options_set_json(context.options("dataset"), json.data(),
                                 static_cast<int64_t>(json.size()), err);
  });
}

Owned<dllm_loader> open_rows_of(const Context& context, const ScoredModel& scored) {
  const auto data = make<dllm_dataset>([&](dllm_dataset** out, dllm_error* err) {
    return dllm_dataset_open(context.text("data").c_str(), scored.tokenizer.get(),
                             context.options("dataset"), context.task(), out, err);
  });
  const auto options = make<dllm_options>(
      [](dllm_options** out, dllm_error* err) { return dllm_options_new("loader", out, err); });
  const std::string values = EvalJson{
      {"batch", batch_rows(context)},
      {"length", context.number("row-length")},
      {"shuffle", false}}.dump();
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

// Numbers the rows within the whole text. Noise depends on the number of a row, so that no two rows
// have the same noise.
void number_rows(dllm_batch* batch, int64_t first) {
  const int64_t numbers[] = {first, first + rows_of(batch)}, dims[] = {2};
  call([&](dllm_error* err) {
    return dllm_batch_set(batch, "rows", DLLM_I64, dims, 1, numbers, err);
  });
}

template <class T>
std::vector<T> values_of(const dllm_batch* batch, const char* name, int32_t dtype) {
  const auto array = make<dllm_tensor>(
      [&](dllm_tensor** out, dllm_error* err) { return dllm_batch_array(batch, name, out, err); });
  std::vector<T> values(
      static_cast<size_t>(dllm_tensor_dim(array.get(), 0) * dllm_tensor_dim(array.get(), 1)));
  call([&](dllm_error* err) {
    return dllm_tensor_read(array.get(), dtype, values.data(),
                            static_cast<int64_t>(values.size() * sizeof(T)), err);
  });
  return values;
}

// Returns the bytes of the text of the counted tokens. counted: number of tokens in the loss. A
// loss that predicts a token from the state before it does not count the first token of each text.
int64_t text_bytes(const ScoredModel& scored, const dllm_batch* batch, double counted) {
  const auto ids = values_of<int32_t>(batch, "ids", DLLM_I32);
  const auto keep = values_of<uint8_t>(batch, "keep", DLLM_U8);
  const auto segments = values_of<int32_t>(batch, "segments", DLLM_I32);
  const size_t length = ids.size() / static_cast<size_t>(rows_of(batch));
  std::vector<int32_t> all, predicted;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (keep[i] != 0) continue;
    all.push_back(ids[i]);
    if (i % length != 0 && segments[i] == segments[i - 1]) predicted.push_back(ids[i]);
  }
  const bool is_shifted = counted < static_cast<double>(all.size());
  return static_cast<int64_t>(decode(scored.tokenizer.get(), is_shifted ? predicted : all).size());
}

// Returns the mean over tokens, with the standard error of a ratio of two sums over independent
// rows.
EvalJson summary(const EvalResults& results) {
  double sum = 0, count = 0, bytes = 0, rows = 0;
  for (const EvalJson& line : results.lines()) {
    bytes += line["bytes"].get<double>();
    for (const EvalJson& value : line["sums"]) sum += value.get<double>();
    for (const EvalJson& value : line["counts"]) count += value.get<double>();
  }
  const double mean = count > 0 ? sum / count : 0;
  double squares = 0;
  for (const EvalJson& line : results.lines()) {
    for (size_t i = 0; i < line["sums"].size(); ++i, ++rows) {
      const double apart = line["sums"][i].get<double>() - mean * line["counts"][i].get<double>();
      squares += apart * apart;
    }
  }
  const double error = rows > 1 && count > 0 ? std::sqrt(squares * rows / (rows - 1)) / count : 0;
  const double to_bits = bytes > 0 ? count / bytes / std::numbers::ln2 : 0;
  return {{"rows", static_cast<int64_t>(rows)},   {"tokens", static_cast<int64_t>(count)},
          {"bytes", static_cast<int64_t>(bytes)}, {"nats_per_token", mean},
          {"nats_per_token_error", error},        {"perplexity", std::exp(mean)},
          {"bits_per_byte", mean * to_bits},      {"bits_per_byte_error", error * to_bits}};
}

} // namespace

// Notes that the model was trained on conversations, for which the loss of a plain text is seldom
// meant.
void note_chat_template(const Context& context, const ScoredModel& scored) {
  constexpr std::string_view kTalk = R"([{"role": "user", "content": "a"}])";
  dllm_batch* batch = nullptr;
  const dllm_status status =
      dllm_tokenizer_chat(scored.tokenizer.get(), kTalk.data(), static_cast<int64_t>(kTalk.size()),
                          nullptr, &batch, nullptr);
  const Owned<dllm_batch> held(batch);
  if (status != DLLM_OK || context.json()) return;
  std::fprintf(stderr, "%s has a chat template: it is scored here as a model of plain text\n",
               context.text("model").c_str());
}

EvalJson evaluate_text(Context& context) {
  const ScoredModel scored(context);
  note_chat_template(context, scored);
  const int64_t draws = scored.noiseless ? 1 : context.number("draws");
  const int64_t limit = context.number("limit"), rows = batch_rows(context);
  EvalJson settings = {{"task", "text"},
                       {"model", context.text("model")},
                       {"data", context.text("data")},
                       {"objective", scored.objective_name},
                       {"row_length", context.number("row-length")},
                       {"draws", draws},
                       {"seed", context.number("noise-seed")}};
  if (rows != kMostBatchRows) settings["batch"] = rows; // results are kept by batch
  read_as_the_run_did(context);
  const std::string how = context.option("dataset", "rows");
  if (how != "\"file\"") settings["text_rows"] = EvalJson::parse(how);
  const Owned<dllm_loader> loader = open_rows_of(context, scored);
  EvalResults results(context.has("out") ? context.text("out") : "", settings, limit / rows,
                      context.flag("quiet"));
  for (int64_t i = 0; limit == 0 || i * rows < limit; ++i) {
    const Owned<dllm_batch> batch = next_batch(loader.get());
    if (batch == nullptr) break;
    const std::string id = std::to_string(i);
    if (results.has(id)) continue;
    number_rows(batch.get(), i * rows);
    RowSums all;
    for (int64_t draw = 0; draw < draws; ++draw) {
      const RowSums one =
          row_sums(context, scored, batch.get(), context.number("noise-seed") + draw);
      all.sums.resize(one.sums.size());
      for (size_t row = 0; row < one.sums.size(); ++row)
        all.sums[row] += one.sums[row] / static_cast<double>(draws);
      all.counts = one.counts;
    }
    results.add(
        {{"id", id},
         {"sums", all.sums},
         {"counts", all.counts},
         {"bytes", text_bytes(scored, batch.get(),
                              std::accumulate(all.counts.begin(), all.counts.end(), 0.0))}});
  }
  EvalJson report = settings;
  report.update(summary(results));
  report["resumed"] = results.resumed();
  return report;
}

} // namespace dllm::cli
