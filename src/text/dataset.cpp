#include "text/dataset.h"

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/task.h"
#include "text/chat.h"
#include "text/readers/readers.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::text {

Schema make_dataset_schema(const ReaderTable& readers) {
  std::vector<OptionSpec> specs = {format_option(readers)};
  for (const Reader& reader : readers.all())
    specs.insert(specs.end(), reader.options.begin(), reader.options.end());
  const OptionSpec common[] = {
      option_str("text_key", "text", "member of a JSONL row that holds a whole text"),
      option_str("prompt_key", "prompt", "member of a JSONL row that is given and not learned"),
      option_str("response_key", "response", "member of a JSONL row that follows the prompt"),
      option_bool("append_eos", true,
                  "end every text with the tokenizer's eos token, if it has one"),
      option_bool("prepend_bos", false, "begin every text with the tokenizer's bos token"),
      option_bool("parse_special", false, "special tokens written in the text count as such")};
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
      parse_special_(options.boolean("parse_special")), keys_(record_keys(options)) {
  if (tokenizer_ == nullptr) return;
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

// Null for a folder in which each file has a format of its own.
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
  if (!file_exists(path) && !is_directory(path))
    fail(Code::not_found, "there is no file or folder {}", path);
  auto data = std::make_shared<Dataset>(std::move(tokenizer), options);
  const Reader* reader = reader_of(path, options, readers, task);
  if (reader != nullptr && reader->open != nullptr) {
    data->open_tokens(*reader, path, task);
    return data;
  }
  data->files_ = read_records(path, options, readers, task, [&](Record&& record) {
    data->render(record, task);
    data->add(std::move(record), task);
  });
  if (data->size() == 0) fail(Code::not_found, "{} holds no rows", path);
  return data;
}

void Dataset::open_tokens(const Reader& reader, const std::string& path, const Task* task) {
  const auto file = std::make_shared<const InputFile>(path);
  files_ = {{path, file->stamp()}};
  TokenFileInfo info;
  rows_ = reader.open(file, info, task);
  if (tokenizer_ != nullptr && tokenizer_->size() != info.vocabulary_size) {
    fail_with_hint("use the tokenizer the file was made with", Code::invalid_argument,
                   "{} was made with {} tokens, {} has {}", path, info.vocabulary_size,
                   tokenizer_->name(), tokenizer_->size());
  }
  info_ = info;
  text_bytes_ = -1;
  is_text_ = false;
}

void Dataset::add(std::string_view json) {
  std::vector<Record> records = parse_records(json, fmt::format("row {}", size()), keys_);
  for (Record& record : records) {
    render(record);
    check_ids(record);
  }
  for (Record& record : records) add(std::move(record));
}

namespace {

// To train a tokenizer from: the contents of the messages, without what a template writes around them.
std::string contents_of(const Json& conversation) {
  std::string text;
  const auto messages = conversation.find("messages");
  if (messages == conversation.end() || !messages->is_array()) return text;
  for (const Json& message : *messages) {
    const bool said = message.is_object() && message.contains("content");
    if (!said || !message.at("content").is_string()) continue;
    text += (text.empty() ? "" : "\n") + message.at("content").get<std::string>();
  }
  return text;
}

} // namespace

void Dataset::render(Record& record, const Task* task) {
  if (record.kind != Record::Kind::chat) return;
  const Json conversation = parse_json(record.text, record.where);
  if (is_text_) {
    record.text = contents_of(conversation);
    return;
  }
  if (tokenizer_ == nullptr) return;
  try {
    if (chat_ == nullptr) chat_ = std::make_shared<const Chat>(tokenizer_, Options(chat_schema()));
    ChatRow row = chat_->row(conversation, task);
    record.keep = row.keep();
    record.ids = std::move(row.ids);
  } catch (const Error& error) {
    check_task(task);
    throw Error(error.code(), record.where + ": " + error.text(), error.hint());
  }
}

void Dataset::check_ids(const Record& record) const {
  if (record.kind != Record::Kind::ids) return;
  if (is_text_) {
    fail_with_hint("give the dataset a tokenizer", Code::failed_precondition,
                   "a dataset of texts takes no ids");
  }
  for (int32_t id : record.ids) {
    if (id >= info_.vocabulary_size) {
      fail(Code::invalid_argument, "row {}: token {} is outside the vocabulary of {}", size(), id,
           info_.vocabulary_size);
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

void Dataset::add_tokens(Record&& record, const Task* task) {
  if (tokenizer_ == nullptr && record.kind != Record::Kind::ids) {
    fail(Code::failed_precondition, "a token file opened without a tokenizer takes no text");
  }
  const EncodeOptions encode{.parse_special = parse_special_, .task = task};
  std::vector<int32_t> ids;
  std::vector<uint8_t> keep = std::move(record.keep);
  // A template has put its own tokens around a chat.
  const bool is_chat = record.kind == Record::Kind::chat;
  if (record.kind == Record::Kind::ids || is_chat) {
    ids = std::move(record.ids);
    text_bytes_ = -1;
  } else {
    if (text_bytes_ >= 0)
      text_bytes_ += static_cast<int64_t>(record.prompt.size() + record.text.size());
    if (prepend_bos_ && record.starts) ids.push_back(info_.special.bos);
    if (record.kind == Record::Kind::answer) {
      const std::vector<int32_t> prompt = tokenizer_->encode(record.prompt, encode);
      ids.insert(ids.end(), prompt.begin(), prompt.end());
      keep.assign(ids.size(), 1);
    }
    const std::vector<int32_t> text = tokenizer_->encode(record.text, encode);
    ids.insert(ids.end(), text.begin(), text.end());
  }
  if (append_eos_ && record.ends && !is_chat && (ids.empty() || ids.back() != info_.special.eos)) {
    ids.push_back(info_.special.eos);
  }
  if (!keep.empty()) keep.resize(ids.size(), 0);
  if (!ids.empty()) rows_.add(ids, keep, record.starts);
}

double Dataset::bytes_per_token() const {
  if (text_bytes_ < 0 || tokens() == 0) return 0;
  return static_cast<double>(text_bytes_) / static_cast<double>(tokens());
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
  save_token_file(path, rows_, info_, overwrite, task);
}

TokenRows::TokenRows(std::shared_ptr<const InputFile> file, TokenPlaces places,
                     std::vector<int64_t> offsets, std::vector<uint8_t> starts)
    : offsets_(std::move(offsets)), starts_(std::move(starts)), file_(std::move(file)),
      places_(places) {}

TokenRow TokenRows::part(int64_t first, int64_t count) const {
  TokenRow made;
  const auto at = static_cast<size_t>(first), size = static_cast<size_t>(count);
  if (file_ == nullptr) {
    made.ids = std::span(ids_).subspan(at, size);
    if (!keep_.empty()) made.keep = std::span(keep_).subspan(at, size);
    return made;
  }
  constexpr int64_t kId = sizeof(int32_t);
  made.own_ids = file_->read(places_.ids + first * kId, count * kId);
  made.ids = {reinterpret_cast<const int32_t*>(made.own_ids.data()), size};
  if (places_.keep < 0) return made;
  made.own_keep = file_->read(places_.keep + first, count);
  made.keep = {reinterpret_cast<const uint8_t*>(made.own_keep.data()), size};
  return made;
}

TokenRow TokenRows::row(int64_t index) const {
  TokenRow made = part(begin(index), length(index));
  made.starts = starts(index);
  return made;
}

void TokenRows::scan(const std::function<void(int64_t, const TokenRow&)>& visit) const {
  constexpr int64_t kBlock = int64_t{1} << 20; // tokens
  for (int64_t index = 0; index < size();) {
    const int64_t first = begin(index);
    int64_t last = index + 1;
    while (last < size() && begin(last + 1) - first <= kBlock) ++last;
    const TokenRow block = part(first, begin(last) - first);
    for (; index < last; ++index) {
      const auto at = static_cast<size_t>(begin(index) - first);
      const auto count = static_cast<size_t>(length(index));
      visit(index, {block.ids.subspan(at, count),
                    block.keep.empty() ? block.keep : block.keep.subspan(at, count),
                    starts(index),
                    {},
                    {}});
    }
  }
}

void TokenRows::add(std::span<const int32_t> ids, std::span<const uint8_t> keep, bool starts) {
  if (file_ != nullptr) {
    fail_with_hint("make a dataset in memory and save it", Code::failed_precondition,
                   "rows cannot be added to a token file");
  }
  if (!keep.empty() && keep_.empty()) keep_.assign(ids_.size(), 0);
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  keep_.insert(keep_.end(), keep.begin(), keep.end());
  if (!keep_.empty()) keep_.resize(ids_.size(), 0);
  offsets_.push_back(static_cast<int64_t>(ids_.size()));
  starts_.push_back(starts);
}

} // namespace dllm::text
