#include "text/data/dataset.h"

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/store/objects.h" // TransferTask
#include "base/task.h"
#include "text/chat/chat.h"
#include "text/chat/messages.h"
#include "text/chat/named_templates.h"
#include "text/data/dataset_spec.h"
#include "text/data/row_files.h"
#include "text/readers/content_check.h"
#include "text/readers/readers.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::text {

Schema make_dataset_schema(const ReaderTable& readers) {
  std::vector<OptionSpec> specs = {format_option(readers)};
  for (const Reader& reader : readers.all())
    specs.insert(specs.end(), reader.options.begin(), reader.options.end());
  const OptionSpec common[] = {
      option_str("text_key", "text", "member of a row, or column, that holds a whole text"),
      option_str("prompt_key", "prompt",
                 "member of a row with the prompt, which is given and not learned"),
      option_str("response_key", "response",
                 "member of a row with the response, which follows the prompt or instruction"),
      option_str("instruction_key", "instruction",
                 "member of a row with the instruction, which becomes the prompt of Alpaca"),
      option_str("messages_key", "messages", "member of a row with the messages of a conversation"),
      option_str("template", "",
                 "chat template of conversations: chatml, llama3, qwen, alpaca, or the text of a "
                 "template; prompts and instructions become conversations too; empty: the "
                 "tokenizer's own, for rows of messages alone"),
      option_bool("append_eos", true,
                  "end every text with the tokenizer's eos token, if it has one"),
      option_bool("prepend_bos", false, "begin every text with the tokenizer's bos token"),
      option_bool("parse_special", false,
                  "special tokens that are written in the text become special tokens"),
      option_choice("bad_rows", "fail", {"fail", "skip"},
                    "what happens to a row that cannot be read; skip: leave it out, and log "
                    "the number of such rows and the first one"),
      option_str(
          "token_file", "",
          "write the ids to this file while they are read, and batches from it: for data larger "
          "than memory"),
      option_bool(
          "stream", false,
          "read the files of a data set of the hub over the network and keep none; rows that "
          "are limited, as in [:1000], are always read like this")};
  specs.insert(specs.end(), std::begin(common), std::end(common));
  return Schema("dataset", std::move(specs));
}

const Schema& dataset_schema() {
  static const Schema schema = make_dataset_schema(record_readers());
  return schema;
}

Dataset::Dataset(std::shared_ptr<const Tokenizer> tokenizer, const Options& options)
    : tokenizer_(std::move(tokenizer)), is_text_(tokenizer_ == nullptr),
      append_eos_(options.boolean("append_eos")), prepend_bos_(options.boolean("prepend_bos")),
      parse_special_(options.boolean("parse_special")), shapes_(record_keys(options)),
      template_(options.str("template")) {
  if (!template_.empty()) static_cast<void>(template_text(template_)); // an unknown name fails
  if (tokenizer_ == nullptr) return;
  if (!template_.empty()) { // fails here, before any row is read
    Options chat(chat_schema());
    chat.set_str("template", template_);
    chat_ = std::make_shared<const Chat>(tokenizer_, chat);
  }
  info_ = {tokenizer_->size(), tokenizer_->special()};
  if (prepend_bos_ && info_.special.bos < 0) {
    fail_with_hint("name it with the option bos of the tokenizer", Code::failed_precondition,
                   "prepend_bos: {} has no bos token", tokenizer_->name());
  }
  if (append_eos_ && info_.special.eos < 0) {
    if (options.is_set("append_eos")) {
      fail_with_hint("name it with the option eos of the tokenizer", Code::failed_precondition,
                     "append_eos: {} has no eos token", tokenizer_->name());
    }
    append_eos_ = false;
  }
}

namespace {

// Returns the reader of `path`, or null for a folder, in which each file may have another format.
const Reader* reader_of(const std::string& path, const Options& options, const ReaderTable& readers,
                        const Task* task) {
  const std::string& format = options.str("format");
  if (format != "detect") return &readers.find(format);
  return is_directory(path) ? nullptr
                            : &readers.detect(std::make_shared<const InputFile>(path), task);
}

} // namespace

std::shared_ptr<Dataset> Dataset::open(const std::string& path,
                                       std::shared_ptr<const Tokenizer> tokenizer,
                                       const Options& options, Task* task,
                                       const ReaderTable& readers) {
  const store::TransferTask transfers(task);
  RowFiles files(task);
  const std::vector<SpecPart> parts = parse_spec(path, files);
  auto data = std::make_shared<Dataset>(std::move(tokenizer), options);
  const std::string& token_file = options.str("token_file");
  if (is_plain(parts)) {
    const Reader* reader = reader_of(parts[0].paths[0], options, readers, task);
    if (reader != nullptr && reader->open != nullptr) {
      if (!token_file.empty()) {
        fail_with_hint("leave token_file out", Code::invalid_argument, "{} is a token file already",
                       path);
      }
      data->open_tokens(*reader, parts[0].paths[0], task);
      return data;
    }
  }
  if (token_file.empty()) {
    data->read(parts, files, options, task, readers);
    if (data->size() == 0) fail(Code::not_found, "{} holds no rows", path);
    return data;
  }
  if (data->is_text_) {
    fail_with_hint("give the dataset a tokenizer", Code::failed_precondition,
                   "token_file holds token ids, but the dataset holds texts");
  }
  if (file_exists(token_file)) {
    fail_with_hint("open it as the data, or remove it", Code::already_exists, "{} is there already",
                   token_file);
  }
  data->spill_ = std::make_unique<TokenSpill>(token_file);
  data->read(parts, files, options, task, readers);
  if (data->spilled_rows_ == 0) fail(Code::not_found, "{} holds no rows", path);
  data->info_.vocabulary_hash = vocabulary_hash(*data->tokenizer_);
  save_token_file(token_file, data->spill_->finish(task), data->info_, false, task);
  data->spill_.reset();
  const int64_t text_bytes = data->text_bytes_, given_tokens = data->given_tokens_;
  data->open_tokens(readers.find("tokens"), token_file, task);
  data->text_bytes_ = text_bytes;
  data->given_tokens_ = given_tokens;
  return data;
}

namespace {

// Counts the rows that have the members which options name.
class NameCount {
public:
  void add(const Record& record) {
    rows_ += record.has_names ? 1 : 0;
    usual_ += record.has_names && record.chosen == 0 ? 1 : 0;
    seen_ |= record.chosen;
  }
  // Fails with invalid_argument for a name that no row has. Warns when some rows have none of the
  // names. A name that is the usual one does not count.
  void check(const RecordKeys& keys) const {
    if (rows_ == 0) return;
    const RecordKeys usual;
    std::vector<std::string> named;
    for (size_t i = 0; i < keys.chosen.size(); ++i) {
      const auto member = keys.chosen[i];
      if (keys.*member == usual.*member) continue;
      named.push_back(keys.*member);
      if ((seen_ >> i & 1) != 0) continue;
      fail_with_hint("leave the option out to read the rows by the usual names",
                     Code::invalid_argument, "no row was read by the member \"{}\" that is named",
                     keys.*member);
    }
    if (named.empty() || usual_ == 0) return;
    log(LogLevel::warn, "{} of {} rows lack \"{}\" and were read by the usual names", usual_, rows_,
        fmt::join(named, "\", \""));
  }

private:
  int64_t rows_ = 0, usual_ = 0;
  uint32_t seen_ = 0;
};

} // namespace

void Dataset::read(const std::vector<SpecPart>& parts, RowFiles& files, const Options& options,
                   Task* task, const ReaderTable& readers) {
  int64_t rejected = 0;
  std::string first;
  ReadSettings settings{options, readers, task};
  if (options.str("bad_rows") == "skip") {
    settings.reject = [&](const Error& error) {
      if (rejected++ == 0) first = error.text();
    };
  }
  EncodingCount encodings;
  NameCount names;
  const RecordSink take = [&](Record&& record) {
    encodings.add(record);
    names.add(record);
    try {
      render(record, task);
    } catch (const Error& error) {
      if (!settings.reject || error.code() == Code::cancelled ||
          error.code() == Code::deadline_exceeded)
        throw;
      return settings.reject(error);
    }
    add(std::move(record), task);
  };
  if (is_plain(parts)) {
    files_ = read_records(parts[0].paths[0], settings, take);
  } else {
    settings.check_tokens = [&](const std::string& path, const TokenFileInfo& info) {
      check_vocabulary(path, info);
    };
    files_ = read_parts(parts, settings, files, take);
  }
  names.check(record_keys(options));
  if (options.str("format") != "text") encodings.warn();
  chats_.warn();
  if (!template_.empty() && !has_conversations()) {
    log(LogLevel::warn, "option template has no effect: no row is a conversation, or a prompt with "
                        "its response");
  }
  if (rejected > 0) log(LogLevel::warn, "{} rows were left out, the first: {}", rejected, first);
}

void Dataset::open_tokens(const Reader& reader, const std::string& path, const Task* task) {
  const auto file = std::make_shared<const InputFile>(path);
  files_ = {{path, file->stamp()}};
  TokenFileInfo info;
  rows_ = reader.open(file, info, task);
  check_vocabulary(path, info);
  info_ = info;
  text_bytes_ = -1;
  given_tokens_ = 0;
  is_text_ = false;
}

void Dataset::check_vocabulary(const std::string& path, const TokenFileInfo& info) const {
  if (tokenizer_ == nullptr) return;
  constexpr const char* kHint = "use the tokenizer the file was made with";
  if (tokenizer_->size() != info.vocabulary_size) {
    fail_with_hint(kHint, Code::invalid_argument,
                   "{} was made with a vocabulary of {} tokens, {} has {}", path,
                   info.vocabulary_size, tokenizer_->name(), tokenizer_->size());
  }
  if (info.vocabulary_hash != 0 && info.vocabulary_hash != vocabulary_hash(*tokenizer_)) {
    fail_with_hint(kHint, Code::invalid_argument, "{} was made with {} tokens that {} has not",
                   path, info.vocabulary_size, tokenizer_->name());
  }
}

uint64_t vocabulary_hash(const Tokenizer& tokenizer) {
  uint64_t hash = 0;
  for (int32_t id = 0; id < tokenizer.size(); ++id) {
    const std::string_view token = tokenizer.token(id);
    hash = hash_bytes(token.data(), token.size(), hash);
  }
  return hash;
}

// Adds all rows or none. An error that is data_loss in a file is invalid_argument here.
void Dataset::add(std::string_view json) {
  const std::string where = fmt::format("row {}", size());
  std::vector<Record> records;
  try {
    records = parse_records(json, where, shapes_);
    for (Record& record : records) {
      render(record);
      check_ids(record);
    }
  } catch (const Error& error) {
    if (error.code() != Code::data_loss) throw;
    throw Error(Code::invalid_argument, error.text(), error.hint());
  }
  if (records.empty()) {
    fail_with_hint(R"(pass {"text": "..."}, or an array with one such object or more)",
                   Code::invalid_argument, "{}: the array is empty, expected a document", where);
  }
  const std::lock_guard lock(rows_mutex_);
  for (Record& record : records) add(std::move(record));
}

namespace {

// Returns the contents of the messages without the text of a template, for training a tokenizer.
std::string contents_of(const Json& conversation) {
  std::string text;
  const auto add = [&text](const Json& content) {
    if (content.is_string()) text += (text.empty() ? "" : "\n") + content.get<std::string>();
  };
  add(conversation.value("system", Json()));
  const auto messages = conversation.find("messages");
  if (messages == conversation.end() || !messages->is_array()) return text;
  for (const Json& message : plain_messages(*messages)) {
    if (message.is_object()) add(message.value("content", Json()));
  }
  return text;
}

// Makes a conversation of two messages out of a prompt or an instruction with its response.
void make_conversation(Record& record) {
  std::string question = std::move(record.prompt);
  if (!record.input.empty()) question += "\n\n" + record.input;
  const Json conversation = {
      {"messages",
       Json::array({Json{{"role", "user"}, {"content", std::move(question)}},
                    Json{{"role", "assistant"}, {"content", std::move(record.text)}}})}};
  record.text = conversation.dump(-1, ' ', false, Json::error_handler_t::replace);
  record.kind = Record::Kind::chat;
}

constexpr size_t kRolesShown = 8;

std::string listed(const std::set<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

// Returns true when a message calls a tool whose name is not in the text of the row.
bool loses_calls(const Json& messages, const ChatRow& row) {
  if (!messages.is_array()) return false;
  return std::ranges::any_of(messages, [&](const Json& message) {
    const Json calls = message.is_object() ? message.value("tool_calls", Json()) : Json();
    return calls.is_array() && std::ranges::any_of(calls, [&](const Json& call) {
             const Json function = call.is_object() ? call.value("function", call) : Json();
             const Json name = function.is_object() ? function.value("name", Json()) : Json();
             return name.is_string() &&
                    row.text.find(name.get_ref<const std::string&>()) == std::string::npos;
           });
  });
}

} // namespace

void ChatCounts::add(const Json& conversation, const ChatRow& row) {
  ++rows_;
  const bool silent = std::ranges::find(row.spoken, 1) == row.spoken.end();
  if (silent) ++silent_;
  const Json messages = plain_messages(conversation.value("messages", Json::array()));
  if (loses_calls(messages, row)) ++without_calls_;
  for (const Json& message : messages) {
    const bool named = message.is_object() && message.contains("role");
    const Json role_json = named ? message.at("role") : Json("");
    const std::string role = role_json.is_string() ? role_json.get<std::string>() : "";
    if (silent && roles_.size() < kRolesShown) roles_.insert(role);
    if (is_known_role(role)) continue;
    ++unknown_;
    if (unknown_roles_.size() < kRolesShown) unknown_roles_.insert(role);
  }
}

void ChatCounts::warn() const {
  if (silent_ > 0) {
    const bool spoke = roles_.count("assistant") != 0;
    log(LogLevel::warn, "{} of {} conversations have nothing to learn: {} (roles there: {})",
        silent_, rows_,
        spoke ? "the template does not write the answers of the assistant"
              : "only messages of the role assistant are learned",
        listed(roles_));
  }
  if (without_calls_ > 0) {
    log(LogLevel::warn,
        "{} of {} conversations have tool calls that the template does not write: take one that "
        "does, such as qwen",
        without_calls_, rows_);
  }
  if (unknown_ > 0) {
    log(LogLevel::warn, "{} messages have an unknown role and are not learned: {}", unknown_,
        listed(unknown_roles_));
  }
}

void Dataset::render(Record& record, const Task* task) {
  using Kind = Record::Kind;
  const bool is_alpaca = template_ == "alpaca" && record.kind == Kind::instruction;
  const bool is_pair = record.kind == Kind::answer || record.kind == Kind::instruction;
  if (is_pair && !template_.empty() && !is_alpaca) {
    make_conversation(record);
  } else if (record.kind == Kind::instruction) {
    record.prompt = alpaca_prompt(record.prompt, record.input);
    record.kind = Kind::answer;
  }
  if (record.kind != Kind::chat) return;
  const Json conversation = parse_json(record.text, record.where);
  try {
    if (is_text_) {
      chats_.add_text();
      record.text = contents_of(conversation);
    }
    if (tokenizer_ == nullptr) return;
    if (chat_ == nullptr) chat_ = std::make_shared<const Chat>(tokenizer_, Options(chat_schema()));
    ChatRow row = chat_->row(conversation, task);
    chats_.add(conversation, row);
    record.keep = row.keep();
    record.ids = std::move(row.ids);
  } catch (const Error& error) {
    check_task(task);
    throw Error(error.code(), record.where + ": " + error.text(), error.hint());
  }
}

std::string Dataset::place_of(const Record& record) const {
  return record.where.empty() ? fmt::format("row {}", size()) : record.where;
}

void Dataset::check_ids(const Record& record) const {
  if (record.kind != Record::Kind::ids) return;
  if (is_text_) {
    fail_with_hint("give the dataset a tokenizer (--tokenizer)", Code::failed_precondition,
                   "{}: the row has ids, and texts without a tokenizer cannot take them",
                   place_of(record));
  }
  for (int32_t id : record.ids) {
    if (id >= info_.vocabulary_size) {
      fail(Code::invalid_argument, "{}: token {} is outside the vocabulary of {}", place_of(record),
           id, info_.vocabulary_size);
    }
  }
}

void Dataset::add(Record&& record, const Task* task) {
  check_ids(record);
  if (!is_text_) return add_tokens(std::move(record), task);
  std::string text = std::move(record.text);
  if (!record.prompt.empty()) text.insert(0, record.prompt);
  if (!text.empty()) texts_.push_back(std::move(text));
}

// Counts the text of the tokens of a row that are learned, without special tokens.
void Dataset::count_learned_text(std::span<const int32_t> ids, std::span<const uint8_t> keep) {
  if (tokenizer_ == nullptr) text_bytes_ = -1;
  if (text_bytes_ < 0) return;
  std::vector<int32_t> learned;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i >= keep.size() || keep[i] == 0) learned.push_back(ids[i]);
  }
  given_tokens_ += std::ssize(ids) - std::ssize(learned);
  text_bytes_ += std::ssize(tokenizer_->decode(learned, {.skip_special = true}));
}

void Dataset::add_tokens(Record&& record, const Task* task) {
  if (tokenizer_ == nullptr && record.kind != Record::Kind::ids) {
    fail(Code::failed_precondition,
         "{}: a token file that was opened without a tokenizer cannot take text", place_of(record));
  }
  const EncodeOptions encode{.parse_special = parse_special_, .task = task};
  std::vector<int32_t> ids;
  std::vector<uint8_t> keep = std::move(record.keep);
  // A template has put its own tokens around a chat.
  const bool is_chat = record.kind == Record::Kind::chat;
  if (record.kind == Record::Kind::ids || is_chat) {
    ids = std::move(record.ids);
    count_learned_text(ids, keep);
  } else {
    if (text_bytes_ >= 0) text_bytes_ += static_cast<int64_t>(record.text.size());
    if (prepend_bos_ && record.starts) ids.push_back(info_.special.bos);
    if (record.kind == Record::Kind::answer) {
      const std::vector<int32_t> prompt = tokenizer_->encode(record.prompt, encode);
      ids.insert(ids.end(), prompt.begin(), prompt.end());
      keep.assign(ids.size(), 1);
      given_tokens_ += std::ssize(ids);
    }
    const std::vector<int32_t> text = tokenizer_->encode(record.text, encode);
    ids.insert(ids.end(), text.begin(), text.end());
  }
  if (append_eos_ && record.ends && !is_chat && (ids.empty() || ids.back() != info_.special.eos)) {
    ids.push_back(info_.special.eos);
  }
  if (!keep.empty()) keep.resize(ids.size(), 0);
  if (ids.empty()) return;
  if (spill_ == nullptr) return rows_.add(ids, keep, record.starts);
  spill_->add(ids, keep, record.starts);
  ++spilled_rows_;
}

double Dataset::bytes_per_token() const {
  const int64_t learned = tokens() - given_tokens_;
  if (text_bytes_ < 0 || learned <= 0) return 0;
  return static_cast<double>(text_bytes_) / static_cast<double>(learned);
}

std::string Dataset::first_words(std::span<const int32_t> ids) const {
  if (tokenizer_ == nullptr) return "";
  constexpr size_t kMost = 40; // bytes
  const std::string text = tokenizer_->decode(ids.first(std::min(ids.size(), kMost)));
  if (text.size() <= kMost) return text;
  size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end; // in a letter
  return text.substr(0, end) + "...";
}

uint64_t Dataset::vocabulary() const {
  return tokenizer_ != nullptr ? vocabulary_hash(*tokenizer_) : info_.vocabulary_hash;
}

uint64_t Dataset::content() const {
  uint64_t hash = 0;
  rows_.scan([&](int64_t, const TokenRow& row) {
    hash = hash_bytes(row.ids.data(), row.ids.size_bytes(), hash);
    hash = hash_bytes(row.keep.data(), row.keep.size_bytes(), hash);
  });
  return hash;
}

void Dataset::check_file(int64_t index) const {
  const ReadFile& file = files_[static_cast<size_t>(index)];
  check_stamp(file.path, file.stamp);
}

void Dataset::save(const std::string& path, bool overwrite, Task* task) const {
  if (is_text_) {
    fail_with_hint("open it with a tokenizer", Code::failed_precondition,
                   "a dataset of texts cannot be saved as a token file");
  }
  TokenFileInfo info = info_;
  if (tokenizer_ != nullptr) info.vocabulary_hash = vocabulary_hash(*tokenizer_);
  save_token_file(path, rows_, info, overwrite, task);
}

} // namespace dllm::text
