#pragma once
// What one row of a dataset is made from: one line of a JSONL file, one text, one object a host
// adds.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm {
class Options;
}

namespace dllm::text {

// The names of the members a JSON row may have.
struct RecordKeys {
  std::string text = "text";
  std::string prompt = "prompt";
  std::string response = "response";
};

// As text_key, prompt_key and response_key of dataset_schema() have them.
RecordKeys record_keys(const Options& options);

struct Record {
  enum class Kind { text, answer, ids, chat } kind = Kind::text;
  std::string text;          // kind text; of an answer: the response; of a chat: the row's JSON
  std::string where;         // kind chat: file and line, for errors of the template
  std::string prompt;        // kind answer
  std::vector<int32_t> ids;  // kind ids
  std::vector<uint8_t> keep; // kind ids: empty or one per id
  bool starts = true;        // false: goes on where the record before it ends
  bool ends = true;          // false: the next one goes on here
};

// {"text"}, {"prompt", "response"}, {"ids", "keep"?} or {"messages", "tools"?}. Fails with data_loss; `where` names file
// and line.
Record parse_record(std::string_view json, const std::string& where, const RecordKeys& keys);
// The same from one object or an array of them.
std::vector<Record> parse_records(std::string_view json, const std::string& where,
                                  const RecordKeys& keys);

} // namespace dllm::text
