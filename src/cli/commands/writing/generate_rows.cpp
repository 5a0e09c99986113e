#include "generate_rows.h"

#include "../../processes/process.h"
#include "../../run_settings.h"
#include "decoding.h"
#include "prompt_rows.h"
#include "text_run.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// What the answers of a call have in common, which each line holds.
Json common_of(const Context& context) {
  Json settings = TextRun::settings(context);
  settings["seed"] = Json::parse(context.option("slot", "seed"));
  if (context.has("template")) settings["template"] = given_template(context);
  Json common = model_facts(context);
  common["settings"] = settings;
  return common;
}

// The reader of standard output closed it, as head does.
struct ReaderGone {};

// The lines of the file of option out, of earlier calls and of this one.
class Answers {
public:
  // Reads the file. A last line without a line break comes from an interrupted call and is removed.
  // Fails when a line belongs to another row than `rows` has, or to another model or settings than
  // `common` has.
  Answers(std::string path, const std::vector<Json>& rows, Json common)
      : path_(std::move(path)), lock_(path_), common_(std::move(common)) {
    if (path_.empty()) return;
    if (std::filesystem::exists(path_)) read(rows);
    file_ = std::fopen(path_.c_str(), "ab");
    if (file_ == nullptr) throw Failure(DLLM_PERMISSION_DENIED, "cannot write " + path_);
  }
  ~Answers() {
    if (file_ != nullptr) std::fclose(file_);
  }
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  bool has(size_t row) const { return done_.contains(row); }
  size_t count() const { return done_.size(); }

  void add(size_t row, Json line) {
    line.update(common_);
    const std::string text = dumped(line) + "\n";
    std::FILE* to = file_ == nullptr ? stdout : file_;
    errno = 0;
    const bool whole = std::fwrite(text.data(), 1, text.size(), to) == text.size();
    if (!whole || std::fflush(to) != 0) {
      if (errno == EPIPE && file_ == nullptr) throw ReaderGone();
      throw Failure(DLLM_RESOURCE_EXHAUSTED,
                    "cannot write " + (path_.empty() ? "standard output" : path_),
                    "free space on the disk and start the command again: it goes on");
    }
    done_[row] = true;
  }

private:
  void read(const std::vector<Json>& rows) {
    const std::string text = read_all(path_);
    std::string kept;
    const size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
    each_line(text.substr(0, whole), [&](const std::string& line, int64_t number) {
      const Json answer = Json::parse(line, nullptr, false);
      const std::string where = path_ + ": line " + std::to_string(number);
      if (!answer.is_object() || !answer.value("row", Json()).is_number_unsigned()) {
        throw Failure(DLLM_ALREADY_EXISTS, where + " is not an answer of dllm generate",
                      "choose another --out");
      }
      const auto row = answer["row"].get<size_t>();
      check_common(answer, where);
      if (answer.contains("error")) return; // such a row is decoded again, also a corrected one
      if (row >= rows.size() || texts_of_row(answer) != texts_of_row(rows[row])) {
        throw Failure(DLLM_FAILED_PRECONDITION,
                      where + " is the answer of another row " + std::to_string(row),
                      "choose another --out, or the same --prompts");
      }
      check_settings(answer, rows[row], where);
      done_[row] = true;
      kept += line + "\n";
    });
    if (whole == 0 && !text.empty())
      throw Failure(DLLM_ALREADY_EXISTS, path_ + " is not a file of answers",
                    "choose another --out");
    if (kept != text) write_all(path_, kept);
  }

  static void check_settings(const Json& answer, const Json& row, const std::string& where) {
    const Json there = answer.value("request", Json::object()), here = settings_of_row(row);
    if (there == here) return;
    throw Failure(DLLM_FAILED_PRECONDITION,
                  where + " was made with the settings " + dumped(there) + " of its row, here " +
                      dumped(here),
                  "choose another --out, or remove that line");
  }

  void check_common(const Json& answer, const std::string& where) const {
    for (const auto& [key, here] : common_.items()) {
      const Json there = answer.value(key, here);
      if (there == here) continue;
      throw Failure(DLLM_FAILED_PRECONDITION,
                    where + " was made with " + key + " " + dumped(there) + ", here " +
                        dumped(here),
                    "choose another --out, or remove the file");
    }
  }

  std::string path_; // "": standard output
  OutputLock lock_;
  Json common_;
  std::FILE* file_ = nullptr;
  std::map<size_t, bool> done_;
};

Json error_of(const Failure& failure) {
  return {{"code", dllm_status_name(failure.status())},
          {"message", failure.what()},
          {"hint", failure.hint()}};
}

// Returns argument template, else the template of the run that the model is of; "" for the model's.
std::string template_of(const Context& context) {
  const std::string given = given_template(context);
  return given.empty() ? row_settings(context).chat_template() : given;
}

// Returns true when the chat template is the prompt of Alpaca, or when there is none.
bool is_alpaca(const dllm_tokenizer* tokenizer) {
  const std::vector<int32_t> own = encode_chat(tokenizer);
  return own.empty() || own == encode_chat(tokenizer, "alpaca");
}

class RowDecoding {
public:
  RowDecoding(Context& context, const Session& session, const std::vector<Json>& rows,
              Answers& answers)
      : context_(context), rows_(rows), answers_(answers), batch_(batch_of(context)),
        seed_(Json::parse(context.option("slot", "seed")).get<int64_t>()),
        template_(template_of(context)), is_alpaca_(is_alpaca(session.tokenizer.get())),
        run_(context, session, batch_, false), status_(context.flag("quiet") || context.json()) {}

  // Decodes the rows that have no answer.
  void decode() {
    size_t next = 0;
    for (;;) {
      for (; next < rows_.size() && static_cast<int64_t>(open_.size()) < batch_; ++next) {
        if (!answers_.has(next)) add(next);
      }
      if (open_.empty()) return;
      show();
      run_.step(context_.task());
      collect();
    }
  }
  int64_t failed() const { return failed_; }

private:
  static int64_t batch_of(const Context& context) {
    const int64_t batch = context.number("batch");
    if (batch < 1 || batch > 65536)
      throw UsageFailure("--batch takes 1 to 65536, not " + std::to_string(batch));
    return batch;
  }

  // Starts a line with the number, the text and the id of a row.
  Json line_of(size_t row) const {
    Json line = {{"row", row}};
    line.update(texts_of_row(rows_[row]));
    if (rows_[row].contains("id")) line["id"] = rows_[row]["id"];
    if (const Json own = settings_of_row(rows_[row]); !own.empty()) line["request"] = own;
    return line;
  }

  void add(size_t row) {
    Json settings = request_of_row(rows_[row], template_, is_alpaca_);
    if (settings.contains("messages") && !settings.contains("template") && !template_.empty())
      settings["template"] = template_;
    if (!settings.contains("seed"))
      settings["seed"] = static_cast<int64_t>(static_cast<uint64_t>(seed_) + row);
    try {
      open_[run_.add(settings, context_.task())] = row;
    } catch (const Failure& failure) {
      if (failure.status() == DLLM_CANCELLED) throw;
      put_error(row, error_of(failure));
    }
  }

  void put_error(size_t row, const Json& error) {
    Json line = line_of(row);
    line["error"] = error;
    answers_.add(row, line);
    ++failed_;
  }

  void collect() {
    for (auto at = open_.begin(); at != open_.end();) {
      const auto [number, row] = *at;
      if (!run_.is_over(number)) {
        ++at;
        continue;
      }
      const Json request = run_.describe(number);
      if (request.contains("error")) {
        put_error(row, request["error"]);
      } else {
        Json line = line_of(row);
        for (const char* key : {"completion", "finish", "prompt_tokens", "completion_tokens",
                                "steps", "nfe", "seed", "policy"})
          line[key] = request.at(key);
        for (const char* key : {"holes", "top"}) {
          if (request.contains(key)) line[key] = request[key];
        }
        answers_.add(row, line);
      }
      run_.remove(number);
      at = open_.erase(at);
    }
  }

  void show() {
    status_.show(std::to_string(answers_.count()) + " of " + std::to_string(rows_.size()) +
                 " rows, " + std::to_string(open_.size()) + " at a time");
  }

  Context& context_;
  const std::vector<Json>& rows_;
  Answers& answers_;
  int64_t batch_, seed_, failed_ = 0;
  std::string template_;           // of rows with messages; "": the model's
  bool is_alpaca_;                 // instructions become the prompt of Alpaca
  std::map<int64_t, size_t> open_; // rows by request
  TextRun run_;
  StatusLine status_;
};

void check_arguments(const Context& context) {
  refuse_typed(context, "decoder", "slots", "--batch sets the number of rows at a time");
  for (const char* name : {"prompt", "file", "trace", "samples"}) {
    if (context.typed(name))
      throw UsageFailure(std::string("--") + name + " and --prompts exclude each other");
  }
  if (context.has("out") && job_size() > 1)
    throw UsageFailure("--out is for one process", "start dllm generate without mpirun");
}

} // namespace

int generate_rows(Context& context) {
  check_arguments(context);
  const std::vector<Json> rows = read_prompt_rows(context.text("prompts"));
  Answers answers(context.has("out") ? context.text("out") : "", rows, common_of(context));
  const size_t before = answers.count();
  const bool quiet = context.flag("quiet") || context.json();
  if (before > 0 && !quiet) {
    std::fprintf(stderr, "%s has %zu of %zu rows%s\n", context.text("out").c_str(), before,
                 rows.size(), before < rows.size() ? ": the others follow" : "");
  }
  if (before == rows.size()) return 0;
  const Session session(context);
  RowDecoding decoded(context, session, rows, answers);
  try {
    decoded.decode();
  } catch (const ReaderGone&) {
    return kFailed;
  } catch (const Failure& failure) {
    if (failure.status() != DLLM_CANCELLED) throw;
    std::fprintf(stderr, "interrupted after %zu of %zu rows%s\n", answers.count(), rows.size(),
                 context.has("out") ? "; the same command goes on" : "");
    return kInterrupted;
  }
  if (decoded.failed() == 0) return 0;
  std::fprintf(stderr, "%lld of %zu rows failed: their lines have \"error\"\n",
               static_cast<long long>(decoded.failed()), rows.size());
  return kFailed;
}

} // namespace dllm::cli
