#pragma once
// The rows of dllm generate --prompts: their texts and settings, and instructions as messages.

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace dllm::cli {

// Calls use(line, number) for each line, with numbers from 1.
template <class F> void each_line(const std::string& text, F&& use) {
  size_t begin = 0;
  for (int64_t number = 1; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    use(line, number);
    begin = end + 1;
  }
}

// Reads the rows of a file: JSON lines, or a prompt a line of a .txt file. Fails naming file, line
// and keys of a line that has no text.
std::vector<nlohmann::ordered_json> read_prompt_rows(const std::string& path);
// Returns the members of a row that are its text, and the response of an instruction.
nlohmann::ordered_json texts_of_row(const nlohmann::ordered_json& row);
// Returns the settings that a row has of its own.
nlohmann::ordered_json settings_of_row(const nlohmann::ordered_json& row);
// Returns the settings of the request for a row, without its id. An instruction becomes messages,
// as dllm train writes it. chat_template: of the command; "": none. is_alpaca: an instruction
// without a template becomes the prompt of Alpaca.
nlohmann::ordered_json request_of_row(const nlohmann::ordered_json& row,
                                      const std::string& chat_template, bool is_alpaca);

} // namespace dllm::cli
