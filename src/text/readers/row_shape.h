#pragma once
// A RowShape is a set of members by which a row of data is recognized. One table of shapes serves
// all formats: members of JSON rows, and columns of CSV and Parquet files.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace dllm {
class Options;
} // namespace dllm

namespace dllm::text {

// The names of members that options can change.
struct RecordKeys {
  std::string text = "text";
  std::string prompt = "prompt";
  std::string response = "response";
  std::string instruction = "instruction";
  std::string messages = "messages";
  // The members above that an option set. Shapes with such a name precede the other shapes.
  std::vector<std::string RecordKeys::*> chosen = {};
};

// Returns the options text_key, prompt_key, response_key, instruction_key and messages_key of
// dataset_schema().
RecordKeys record_keys(const Options& options);

struct RowShape {
  enum class Kind {
    text,        // a text
    answer,      // a prompt and its response
    instruction, // Alpaca and Dolly: an instruction, its response and an optional input
    chat,        // a list of messages, each a struct
    turns,       // UltraChat: a list of texts, in turn of the user and of the assistant
    ids,         // token numbers
    pair         // a chosen and a rejected answer, which no objective learns from
  } kind = Kind::text;
  std::vector<int> members; // slots that a row must have, in the order above
  int optional = -1;        // slot of the input of an instruction; -1: none
  uint32_t chosen = 0;      // members whose names options set: bits, as of RecordKeys::chosen
};

// Returns "the columns are a, b" for an error, with at most 20 names.
std::string shown_columns(const std::vector<std::string>& names);

// Every name of the table has a slot, a number from 0 on.
class RowShapes {
public:
  RowShapes(const RecordKeys& keys); // implicit: tests and callers have keys

  // Returns the names by slot.
  const std::vector<std::string>& names() const { return names_; }
  const std::string& name(int slot) const { return names_[static_cast<size_t>(slot)]; }
  // Returns the slot of a name, or -1.
  int slot(std::string_view name) const;
  int prompt() const { return slot(keys_.prompt); }
  // Slots of members that only some rows of a shape have.
  int keep() const { return keep_; }
  int tools() const { return tools_; }
  int system() const { return system_; }

  // Returns the first shape of the table for whose members has(slot) returns true, or null.
  const RowShape* find(const std::function<bool(const RowShape&, int slot)>& has) const;
  // Fails with data_loss. where: the file and line of a row, or a file. found: what was there,
  // "the row has id, body". has_prompt: the row has a prompt.
  [[noreturn]] void refuse(const std::string& where, const std::string& found,
                           bool has_prompt) const;
  // Fails with unimplemented for a row of kind pair.
  [[noreturn]] void refuse_pair(const std::string& where) const;

private:
  int add(const std::string& name); // returns the slot

  std::vector<std::string> names_;
  std::vector<RowShape> shapes_; // in the order in which they are tried
  RecordKeys keys_;
  int keep_ = -1, tools_ = -1, system_ = -1;
};

} // namespace dllm::text
