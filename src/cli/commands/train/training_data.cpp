#include "../../open_dataset.h"
#include "training.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include <stdlib.h>

namespace dllm::cli {
namespace {

namespace fs = std::filesystem;

void set_token_file(Context& context, const std::string& path) {
  call([&](dllm_error* err) {
    return dllm_options_set_str(context.options("dataset"), "token_file", path.c_str(), err);
  });
}

// Opens the data. An existing token file is read unchanged. Texts (without a tokenizer) are never
// written to a token file.
Owned<dllm_dataset> open_data(Context& context, const dllm_tokenizer* tokenizer) {
  std::string path = context.text("data");
  const std::string word = context.option("dataset", "token_file"); // JSON
  const std::string file = word.substr(1, word.size() - 2);
  const bool is_made = tokenizer != nullptr && !file.empty() && fs::exists(file);
  if (is_made) {
    std::fprintf(stderr, "reading %s, which exists already: remove it to read %s again\n",
                 file.c_str(), path.c_str());
    path = file;
  }
  const bool writes = tokenizer != nullptr && !is_made && job_rank() == 0;
  if (!file.empty()) set_token_file(context, writes ? file : "");
  auto data = open_dataset(context, path, tokenizer, context.json() || job_rank() > 0);
  if (!file.empty()) set_token_file(context, file);
  return data;
}

// Warns when --tokenizer has other tokens than the model of --from, whose weights belong to its own
// tokens.
void warn_of_other_tokens(const Context& context, const dllm_tokenizer* tokenizer) {
  if (!context.has("from") || !context.has("tokenizer")) return;
  dllm_tokenizer* found = nullptr;
  if (dllm_tokenizer_load_task(context.text("from").c_str(), nullptr, context.task(), &found,
                               nullptr) != DLLM_OK)
    return;
  const Owned<dllm_tokenizer> own(found);
  const std::optional<OtherToken> other = first_other_token(own.get(), tokenizer);
  if (!other) return;
  std::fprintf(
      stderr,
      "warning: --tokenizer %s is not the one of --from %s: token %lld is \"%s\" there and "
      "\"%s\" here (%lld and %lld tokens)\n",
      context.text("tokenizer").c_str(), context.text("from").c_str(),
      static_cast<long long>(other->id), other->before.c_str(), other->now.c_str(),
      static_cast<long long>(dllm_tokenizer_size(own.get())),
      static_cast<long long>(dllm_tokenizer_size(tokenizer)));
}

void set_rows(Context& context, const char* rows) {
  call([&](dllm_error* err) {
    return dllm_options_set_str(context.options("dataset"), "rows", rows, err);
  });
}

// Opens the rows. A split needs several rows, so one short text is cut at its blank lines, else at
// its line ends. A row of another format stays one row.
Owned<dllm_dataset> open_documents(Context& context, const dllm_tokenizer* tokenizer) {
  auto data = open_data(context, tokenizer);
  const bool chosen = context.typed("dataset", "rows") || context.typed("dataset", "token_file");
  if (chosen || dllm_dataset_size(data.get()) > 1) return data;
  for (const char* rows : {"paragraph", "line"}) {
    set_rows(context, rows);
    auto parts = open_data(context, tokenizer);
    if (dllm_dataset_size(parts.get()) < 2) continue;
    std::fprintf(stderr, "%s is one short text: each %s is a separate text (--dataset.rows %s)\n",
                 context.text("data").c_str(), rows, rows);
    return parts;
  }
  set_rows(context, "file");
  return data;
}

int64_t whole(const Context& context, const char* kind, const char* key) {
  return std::stoll(context.option(kind, key));
}

// Returns the rows of a batch of a split. Held-out batches have the same rows in every run, so that
// runs with other batches can be compared. On a mesh the ranks share the batch of the run.
int64_t rows_of_split(const Context& context, const std::string& split) {
  constexpr int64_t kHeldOutRows = 8;
  const bool is_shared = context.option("engine", "mesh") != "\"\"" ||
                         whole(context, "engine", "ranks") > 1 ||
                         whole(context, "loader", "ranks") > 1 || job_size() > 1;
  return split == "held_out" && !is_shared ? kHeldOutRows : whole(context, "loader", "batch");
}

// Opens the rows of a split; returns null for an empty split.
Owned<dllm_loader> open_split(Context& context, const Run& run, const char* split) {
  call([&](dllm_error* err) {
    return dllm_options_set_str(context.options("loader"), "split", split, err);
  });
  struct Rows {
    int64_t batch, seed, epochs;
  };
  const Rows own{whole(context, "loader", "batch"), whole(context, "loader", "seed"),
                 whole(context, "loader", "epochs")};
  const auto set_rows = [&](const Rows& rows) {
    const std::pair<const char*, int64_t> values[] = {
        {"batch", rows.batch}, {"seed", rows.seed}, {"epochs", rows.epochs}};
    for (const auto& value : values) {
      call([&](dllm_error* err) {
        return dllm_options_set_i64(context.options("loader"), value.first, value.second, err);
      });
    }
  };
  // Runs of all seeds and epochs are scored on the same held-out rows.
  // Held-out losses have no terms, and anchors are of the training rows alone.
  const bool is_held_out = std::string(split) == "held_out";
  const std::string anchors = is_held_out ? anchors_of(context) : "";
  const auto set_anchors = [&](const std::string& path) {
    if (anchors.empty()) return;
    call([&](dllm_error* err) {
      return dllm_options_set_str(context.options("loader"), "arrays", path.c_str(), err);
    });
  };
  if (is_held_out) set_rows({rows_of_split(context, split), 0, 0});
  set_anchors("");
  dllm_loader* made = nullptr;
  try {
    call([&](dllm_error* err) {
      return dllm_loader_new(run.data.get(), context.options("loader"), &made, err);
    });
  } catch (const Failure& failure) {
    set_rows(own);
    set_anchors(anchors);
    if (failure.status() != DLLM_FAILED_PRECONDITION || std::string(split) == "all") throw;
  }
  set_rows(own);
  set_anchors(anchors);
  return Owned<dllm_loader>(made);
}

// Returns the last position to which a loader can seek, which is huge for data without end.
int64_t end_of(dllm_loader* loader) {
  const int64_t place = dllm_loader_position(loader);
  int64_t low = 0, high = std::numeric_limits<int64_t>::max();
  while (low < high) {
    const int64_t middle = low + (high - low) / 2 + (high - low) % 2;
    if (dllm_loader_seek(loader, middle, nullptr) == DLLM_OK)
      low = middle;
    else
      high = middle - 1;
  }
  call([&](dllm_error* err) { return dllm_loader_seek(loader, place, err); });
  return low;
}

// Opens a tokenizer of a file, with a chat template. chat: a name or a text; "": as the file.
Owned<dllm_tokenizer> open_file(const Context& context, const std::string& path,
                                const std::string& chat) {
  const auto options = make<dllm_options>(
      [](dllm_options** out, dllm_error* err) { return dllm_options_new("tokenizer", out, err); });
  call([&](dllm_error* err) {
    return dllm_options_set_str(options.get(), "chat_template", chat.c_str(), err);
  });
  return make<dllm_tokenizer>([&](dllm_tokenizer** out, dllm_error* err) {
    return dllm_tokenizer_load_task(path.c_str(), options.get(), context.task(), out, err);
  });
}

// Opens a tokenizer of a file, with the chat template of this run.
Owned<dllm_tokenizer> open_given(const Context& context, const std::string& path) {
  return open_file(context, path, chosen_template(context));
}

// Returns the option of a tokenizer's training for words that are joined by commas.
std::string special_tokens_json(const std::string& words) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::istringstream stream(words);
  for (std::string word; std::getline(stream, word, ',');) list.push_back(word);
  return nlohmann::ordered_json{{"special_tokens", list}}.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Owned<dllm_tokenizer> train_tokenizer(Context& context) {
  const auto raw = open_data(context, nullptr);
  std::fprintf(stderr, "training a tokenizer of %s tokens on %s\n", context.text("vocab").c_str(),
               context.text("data").c_str());
  const auto options = make<dllm_options>([](dllm_options** out, dllm_error* err) {
    return dllm_options_new("tokenizer_train", out, err);
  });
  call([&](dllm_error* err) {
    return dllm_options_set_i64(options.get(), "vocab_size", context.number("vocab"), err);
  });
  const std::string special = special_tokens_json(context.text("special-tokens"));
  call([&](dllm_error* err) {
    return dllm_options_set_json(options.get(), special.data(),
                                 static_cast<int64_t>(special.size()), err);
  });
  const std::string chat = chosen_template(context);
  if (!chat.empty()) {
    call([&](dllm_error* err) {
      return dllm_options_set_str(options.get(), "chat_template", chat.c_str(), err);
    });
  }
  auto tokenizer = make<dllm_tokenizer>([&](dllm_tokenizer** out, dllm_error* err) {
    return dllm_tokenizer_train(raw.get(), options.get(), context.task(), out, err);
  });
  if (chat.empty() && !encode_chat(tokenizer.get()).empty()) {
    std::fprintf(stderr, "the data holds conversations: they are written with the chat template "
                         "chatml (--template names another)\n");
  }
  return tokenizer;
}

// Returns true for the prompt of an instruction, which may begin with a token for the beginning.
bool is_alpaca_prompt(const dllm_tokenizer* tokenizer, const std::vector<int32_t>& ids) {
  constexpr std::string_view kBegin = "Below is an instruction";
  if (ids.empty()) return false;
  const std::string whole = decode(tokenizer, ids), first = decode(tokenizer, {ids[0]});
  return whole.starts_with(kBegin) || whole.substr(first.size()).starts_with(kBegin);
}

// Returns the form of the rows of a batch; none when no row begins in it with a prompt.
std::optional<RowForm> form_in(const Context& context, const dllm_tokenizer* tokenizer,
                               const std::vector<int32_t>& chat, const dllm_batch* batch) {
  const auto ids = read_array<int32_t>(batch, "ids", DLLM_I32);
  const auto keep = read_array<uint8_t>(batch, "keep", DLLM_U8);
  std::vector<int32_t> segments(ids.size(), 1);
  if (context.option("loader", "segments") == "true")
    segments = read_array<int32_t>(batch, "segments", DLLM_I32);
  const bool is_own = is_alpaca_prompt(tokenizer, chat);
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool begins = segments[i] != 0 && (i == 0 || segments[i] != segments[i - 1]);
    if (!begins || keep[i] == 0) continue;
    std::vector<int32_t> given;
    for (size_t j = i; j < ids.size() && keep[j] != 0 && segments[j] == segments[i]; ++j)
      given.push_back(ids[j]);
    if (!is_own && is_alpaca_prompt(tokenizer, given)) return RowForm::instructions;
    if (!chat.empty() && ids[i] == chat[0]) return RowForm::conversations;
  }
  return std::nullopt;
}

// Returns the form of the rows in the first batches, because a batch may hold the middle of long
// rows alone. Moves the loader to its beginning.
RowForm form_of_rows(const Context& context, const Run& run) {
  constexpr int kBatches = 16;
  const std::vector<int32_t> chat = encode_chat(run.tokenizer.get());
  dllm_loader* loader = run.loader.get();
  std::optional<RowForm> form;
  bool has_more = dllm_loader_seek(loader, 0, nullptr) == DLLM_OK;
  for (int i = 0; i < kBatches && has_more && !form; ++i) {
    dllm_batch* made = nullptr;
    has_more = dllm_loader_next(loader, &made, nullptr) == DLLM_OK;
    const Owned<dllm_batch> batch(made);
    if (has_more) form = form_in(context, run.tokenizer.get(), chat, made);
  }
  call([&](dllm_error* err) { return dllm_loader_seek(loader, 0, err); });
  return form.value_or(RowForm::texts);
}

// Opens the tokenizer again, with another chat template.
Owned<dllm_tokenizer> with_template(const Context& context, const dllm_tokenizer* tokenizer,
                                    const std::string& chat) {
  std::string folder = (fs::temp_directory_path() / "dllm-tokenizer-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr)
    throw Failure(DLLM_PERMISSION_DENIED, "cannot make a folder like " + folder,
                  "set TMPDIR to a folder that can be written");
  const auto remove = [](const std::string* made) {
    std::error_code ignored;
    fs::remove_all(*made, ignored);
  };
  const std::unique_ptr<const std::string, decltype(remove)> removed(&folder, remove);
  call([&](dllm_error* err) { return dllm_tokenizer_save(tokenizer, folder.c_str(), err); });
  return open_file(context, folder, chat);
}

} // namespace

std::optional<OtherToken> first_other_token(const dllm_tokenizer* before,
                                            const dllm_tokenizer* now) {
  const int64_t count = std::min(dllm_tokenizer_size(before), dllm_tokenizer_size(now));
  for (int64_t i = 0; i < count; ++i) {
    const auto id = static_cast<int32_t>(i);
    OtherToken found{i, decode(before, {id}), decode(now, {id})};
    if (found.before != found.now) return found;
  }
  return std::nullopt;
}

std::string chosen_template(const Context& context) {
  return nlohmann::json::parse(context.option("dataset", "template")).get<std::string>();
}

bool take_prompt_of_rows(const Context& context, Run& run) {
  if (run.form != RowForm::instructions || !chosen_template(context).empty()) return false;
  run.tokenizer = with_template(context, run.tokenizer.get(), "alpaca");
  if (job_rank() == 0) {
    std::fprintf(stderr,
                 "the data holds instructions: the prompt of Alpaca is the chat template of "
                 "the run (--template names another)\n");
  }
  return true;
}

Owned<dllm_tokenizer> choose_tokenizer(Context& context, const std::string& checkpoint) {
  const std::string own = run_folder(context) + "/tokenizer.json";
  if (!checkpoint.empty()) return open_given(context, fs::exists(own) ? own : checkpoint);
  if (context.has("tokenizer") || context.has("from")) {
    auto tokenizer =
        open_given(context, context.text(context.has("tokenizer") ? "tokenizer" : "from"));
    if (context.typed("vocab") && context.number("vocab") != dllm_tokenizer_size(tokenizer.get())) {
      throw UsageFailure("--vocab " + context.text("vocab") +
                         " is for a tokenizer trained here; this one has " +
                         std::to_string(dllm_tokenizer_size(tokenizer.get())) + " tokens");
    }
    if (context.has("special-tokens")) {
      throw UsageFailure("--special-tokens is for a tokenizer trained here; this one has its own",
                         "leave it out, or leave out --tokenizer and --from");
    }
    warn_of_other_tokens(context, tokenizer.get());
    return tokenizer;
  }
  if (fs::exists(own) && !context.flag("fresh")) {
    std::fprintf(stderr, "%s is of an attempt without a checkpoint: a new one replaces it\n",
                 own.c_str());
  }
  return train_tokenizer(context);
}

namespace {

// Opens all rows, without a held-out split. is_too_few: the rows were too few for one.
void open_all_rows(Context& context, Run& run, bool is_too_few) {
  if (is_too_few) {
    const int64_t rows = dllm_dataset_size(run.data.get());
    std::fprintf(stderr,
                 "%s has too little text for a held-out loss (%lld rows, equal ones count once): "
                 "training on all of it without one\n",
                 context.text("data").c_str(), static_cast<long long>(rows));
    constexpr double kMore = 0.3;   // part of the rows
    constexpr int64_t kFewRows = 4; // fewer rows cannot be split by any part
    if (rows >= kFewRows && std::stod(context.option("loader", "split_fraction")) < kMore)
      std::fprintf(stderr, "      --split-fraction %.1f holds out a larger part of the rows\n",
                   kMore);
  }
  run.held_out = nullptr;
  run.loader = open_split(context, run, "all");
}

} // namespace

void open_rows(Context& context, Run& run) {
  run.data = open_documents(context, run.tokenizer.get());
  const bool all =
      context.typed("loader", "split") && context.option("loader", "split") == "\"all\"";
  const bool none_wanted = std::stod(context.option("loader", "split_fraction")) == 0;
  if (!all && !none_wanted) {
    run.held_out = open_split(context, run, "held_out");
    if (run.held_out != nullptr) run.loader = open_split(context, run, "train");
  }
  if (run.loader == nullptr) open_all_rows(context, run, !all && !none_wanted);
  run.form = form_of_rows(context, run);
}

int64_t chosen_epochs(const Context& context) {
  return context.typed("loader", "epochs") ? whole(context, "loader", "epochs") : 0;
}

Owned<dllm_loader> loader_with(const Context& context, const Run& run, const std::string& json) {
  const auto options = make<dllm_options>(
      [](dllm_options** out, dllm_error* err) { return dllm_options_new("loader", out, err); });
  using Json = nlohmann::ordered_json;
  Json values = Json::parse(options_json(context, "loader"));
  const Json defaults = Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_options_to_json(options.get(), out, err);
  }));
  // Some options are refused next to others even at their default.
  for (auto it = values.begin(); it != values.end();)
    it = defaults.value(it.key(), Json()) == *it ? values.erase(it) : std::next(it);
  values.update(Json::parse(json));
  const std::string set = values.dump();
  call([&](dllm_error* err) {
    return dllm_options_set_json(options.get(), set.data(), static_cast<int64_t>(set.size()), err);
  });
  return make<dllm_loader>([&](dllm_loader** out, dllm_error* err) {
    return dllm_loader_new(run.data.get(), options.get(), out, err);
  });
}

int64_t position_now(const Context& context, const Run& run, int64_t position,
                     const std::string& before) {
  if (before.empty()) return position;
  const auto first = loader_with(context, run, before);
  const int64_t rows = end_of(run.loader.get()) / chosen_epochs(context),
                rows_before = end_of(first.get());
  if (rows_before == rows) return position;
  return position / rows_before * rows +
         static_cast<int64_t>(static_cast<double>(position % rows_before) /
                              static_cast<double>(rows_before) * static_cast<double>(rows));
}

int64_t planned_steps(const Context& context, const Run& run, const ReadSoFar& before) {
  const bool by_clock = has_budget(context);
  const int64_t steps = run.chosen_steps, epochs = chosen_epochs(context);
  if (epochs == 0) return steps == 0 && !by_clock ? kUsualSteps : steps;
  const int64_t rows = whole(context, "loader", "batch") * whole(context, "loader", "ranks");
  const int64_t accumulate = whole(context, "trainer", "accumulate");
  const int64_t left = std::max<int64_t>(end_of(run.loader.get()) - before.position, 0);
  const bool ragged = whole(context, "loader", "ranks") == 1; // the last batch may have fewer rows
  const int64_t batches = left / rows + (ragged && left % rows != 0 ? 1 : 0);
  const int64_t of_data = before.steps + (before.batches + batches) / accumulate;
  if (of_data == 0) {
    throw UsageFailure(
        "--epochs " + std::to_string(epochs) + " of this text is less than one step",
        "leave --epochs out: the text is read again and again until --steps are done");
  }
  return steps == 0 ? of_data : std::min(steps, of_data);
}

} // namespace dllm::cli
