#include "prompt_rows.h"

#include "../../command.h"

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTexts[] = {"prompt", "messages", "infill"};
// Keys of a row for training: an instruction, its input, and its response.
constexpr const char* kInstructionKeys[] = {"instruction", "input", "context", "output",
                                            "response"};
// The beginning of the Alpaca prompt for an instruction with an input.
constexpr const char* kAlpacaWithInput =
    "Below is an instruction that describes a task, paired with an input that provides further "
    "context. Write a response that appropriately completes the request.";

bool ends_with_txt(const std::string& path) {
  return path.size() > 4 && path.compare(path.size() - 4, 4, ".txt") == 0;
}

// Returns true for a row of training on instructions, which has no other text.
bool is_instruction(const Json& row) {
  const bool has_text = std::any_of(std::begin(kTexts), std::end(kTexts),
                                    [&](const char* key) { return row.contains(key); });
  return !has_text && row.contains("instruction") && row["instruction"].is_string();
}

// Returns the text of a member; "" without one.
std::string member(const Json& row, const char* key) {
  return row.contains(key) && row[key].is_string() ? row[key].get<std::string>() : "";
}

// Returns the messages of an instruction, as dllm train makes them for this template.
Json messages_of_instruction(const Json& row, bool is_alpaca) {
  const auto turn = [](const char* role, const std::string& content) {
    return Json{{"role", role}, {"content", content}};
  };
  const std::string instruction = member(row, "instruction");
  const std::string input = member(row, row.contains("input") ? "input" : "context");
  if (input.empty()) return Json::array({turn("user", instruction)});
  if (!is_alpaca) return Json::array({turn("user", instruction + "\n\n" + input)});
  return Json::array(
      {turn("system", kAlpacaWithInput), turn("user", instruction + "\n\n### Input:\n" + input)});
}

// Returns a row whose conversation is in "conversations", as ShareGPT has it, with "messages".
Json with_messages(const Json& row) {
  const bool has_turns = row.is_object() && row.contains("conversations");
  if (!has_turns || !row["conversations"].is_array() || !texts_of_row(row).empty()) return row;
  Json made = row;
  made["messages"] = row["conversations"];
  made.erase("conversations");
  return made;
}

Json parsed_row(const Json& given, const std::string& where) {
  if (given.is_string()) return {{"prompt", given}};
  const Json row = with_messages(given);
  if (row.is_object() && !texts_of_row(row).empty()) return row;
  std::string keys;
  const Json members = row.is_object() ? row : Json::object();
  for (const auto& [key, value] : members.items())
    keys += (keys.empty() ? ": its keys are " : ", ") + key;
  throw Failure(DLLM_DATA_LOSS, where + " is not a row of prompts" + keys,
                "write {\"prompt\": \"...\"}, {\"messages\": [...]}, {\"infill\": \"...\"} or "
                "{\"instruction\": \"...\"}, or name a file that ends with .txt, with a prompt a "
                "line");
}

// Fails for formats that dllm train reads, and that hold no lines of JSON.
void check_is_lines(const std::string& content, const std::string& path) {
  const auto ends_with = [&](const char* end) { return path.ends_with(end); };
  const bool is_compressed = content.starts_with("\x1f\x8b");
  const char* format = is_compressed                            ? "compressed"
                       : content.starts_with("PAR1")            ? "a Parquet file"
                       : ends_with(".csv") || ends_with(".tsv") ? "a table of text"
                                                                : nullptr;
  if (format == nullptr) return;
  throw Failure(DLLM_DATA_LOSS,
                path + " is " + format + ", and prompts are lines of JSON or a JSON array",
                is_compressed ? "decompress it first: gunzip -k " + path
                              : "write {\"prompt\": \"...\"} a line, or name a file that ends with "
                                ".txt, with a prompt a line");
}

// Returns the rows of a JSON array; none for another file.
std::vector<Json> rows_of_array(const std::string& content, const std::string& path) {
  std::vector<Json> rows;
  const size_t begin = content.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || content[begin] != '[') return rows;
  const Json all = Json::parse(content, nullptr, false);
  if (!all.is_array()) return rows;
  for (const Json& row : all)
    rows.push_back(parsed_row(row, path + ": row " + std::to_string(rows.size() + 1)));
  return rows;
}

} // namespace

Json texts_of_row(const Json& row) {
  Json texts = Json::object();
  const auto take = [&](const char* key) {
    if (row.contains(key)) texts[key] = row[key];
  };
  for (const char* key : kTexts) take(key);
  if (!is_instruction(row)) return texts;
  for (const char* key : kInstructionKeys) take(key);
  return texts;
}

Json settings_of_row(const Json& row) {
  Json settings = row;
  settings.erase("id");
  const Json texts = texts_of_row(row);
  for (const auto& [key, value] : texts.items()) settings.erase(key);
  return settings;
}

std::vector<Json> read_prompt_rows(const std::string& path) {
  std::vector<Json> rows;
  const bool is_text = ends_with_txt(path);
  const std::string content = read_utf8(path);
  if (!is_text) {
    check_is_lines(content, path);
    rows = rows_of_array(content, path);
    if (!rows.empty()) return rows;
  }
  each_line(content, [&](const std::string& line, int64_t number) {
    if (line.find_first_not_of(" \t") == std::string::npos) return;
    if (is_text)
      rows.push_back({{"prompt", line}});
    else
      rows.push_back(
          parsed_row(Json::parse(line, nullptr, false), path + ": line " + std::to_string(number)));
  });
  if (rows.empty()) throw Failure(DLLM_INVALID_ARGUMENT, path + " has no rows");
  return rows;
}

Json request_of_row(const Json& row, const std::string& chat_template, bool is_alpaca) {
  Json request = row;
  request.erase("id");
  if (!is_instruction(row)) return request;
  for (const char* key : kInstructionKeys) request.erase(key);
  const Json own = row.value("template", Json(chat_template));
  const bool as_alpaca = own == "alpaca" || (own == "" && is_alpaca);
  request["messages"] = messages_of_instruction(row, as_alpaca);
  if (as_alpaca) request["template"] = "alpaca";
  return request;
}

} // namespace dllm::cli
