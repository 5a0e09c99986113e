// Rows of every shape, in every format of text: what a model is given and what it learns.
#include "text/readers/row_shape.h"

#include "../scratch.h"
#include "../tokenizer/byte_tokenizer.h"
#include "base/error.h"
#include "text/data/dataset.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dllm::text {
namespace {

std::shared_ptr<Tokenizer> make_tokenizer() {
  const auto tokenizer = make_byte_tokenizer();
  for (const char* token : {"<|im_start|>", "<|im_end|>", "<|begin_of_text|>",
                            "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"})
    tokenizer->add_special_token(token);
  SpecialIds special = tokenizer->special();
  special.eos = 256;
  tokenizer->set_special(special);
  return tokenizer;
}

Options with(const Json& values) {
  Options options(dataset_schema());
  options.set_json(values);
  return options;
}

// Returns the text of a row, with given parts in [].
std::string shown(const Tokenizer& tokenizer, const TokenRow& row) {
  std::string text;
  std::vector<int32_t> part;
  bool given = false;
  const auto close = [&] {
    if (part.empty()) return;
    text += given ? "[" + tokenizer.decode(part) + "]" : tokenizer.decode(part);
    part.clear();
  };
  for (size_t i = 0; i < row.ids.size(); ++i) {
    const bool keeps = !row.keep.empty() && row.keep[i] != 0;
    if (keeps != given) close();
    given = keeps;
    part.push_back(row.ids[i]);
  }
  close();
  return text;
}

// Returns the row as a line of CSV with all fields in quotes, and its header; "" when a member is
// not a text.
std::string csv_of(const Json& row) {
  std::string names, values;
  const auto quoted = [](const std::string& text) {
    std::string made = "\"";
    for (const char c : text) made += c == '"' ? "\"\"" : std::string(1, c);
    return made + "\"";
  };
  for (const auto& [name, value] : row.items()) {
    if (!value.is_string()) return "";
    names += (names.empty() ? "" : ",") + name;
    values += (values.empty() ? "" : ",") + quoted(value.get<std::string>());
  }
  return names + "\r\n" + values + "\r\n";
}

struct Case {
  const char* row;
  const char* chat; // option template
  std::string shown;
};

const std::string kBelow = "Below is an instruction that describes a task. Write a response that "
                           "appropriately completes the request.\n\n### Instruction:\n";
const std::string kBelowInput =
    "Below is an instruction that describes a task, paired with an input that provides further "
    "context. Write a response that appropriately completes the request.\n\n### Instruction:\n";
const std::string kEnd = "<|endoftext|>";
const std::string kChat = "[<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n]a<|im_end|>[\n]";

const std::vector<Case>& cases() {
  static const std::vector<Case> table = {
      {R"({"text": "a \"b\",\nc"})", "", "a \"b\",\nc" + kEnd},
      {R"({"prompt": "q", "response": "a"})", "", "[q]a" + kEnd},
      {R"({"prompt": "q", "completion": "a"})", "", "[q]a" + kEnd},
      {R"({"instruction": "add", "input": "1 2", "output": "3"})", "",
       "[" + kBelowInput + "add\n\n### Input:\n1 2\n\n### Response:]3" + kEnd},
      {R"({"instruction": "add", "input": "", "output": "3"})", "",
       "[" + kBelow + "add\n\n### Response:]3" + kEnd},
      {R"({"instruction": "add", "output": "3", "text": "add 3"})", "",
       "[" + kBelow + "add\n\n### Response:]3" + kEnd},
      {R"({"instruction": "add", "context": "1 2", "response": "3"})", "",
       "[" + kBelowInput + "add\n\n### Input:\n1 2\n\n### Response:]3" + kEnd},
      {R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})",
       "chatml", kChat},
      {R"({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]})",
       "chatml", kChat},
      {R"({"data": ["q", "a"], "id": "7"})", "chatml", kChat},
      {R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "q"}]},
          {"role": "bot", "content": "a", "weight": null}]})",
       "chatml", kChat},
      {R"({"prompt": "q", "response": "a"})", "chatml", kChat},
      {R"({"instruction": "add", "input": "1 2", "output": "3"})", "chatml",
       "[<|im_start|>user\nadd\n\n1 2<|im_end|>\n<|im_start|>assistant\n]3<|im_end|>[\n]"},
      {R"({"instruction": "add", "input": "1 2", "output": "3"})", "alpaca",
       "[" + kBelowInput + "add\n\n### Input:\n1 2\n\n### Response:]3" + kEnd},
      {R"({"messages": [{"role": "user", "content": "add"}, {"role": "model", "content": "3"}]})",
       "alpaca", "[" + kBelow + "add\n\n### Response:]3" + kEnd},
      {R"({"system": "s", "conversations": [{"from": "user", "value": "q"},
          {"from": "model", "value": "a"}]})",
       "chatml", "[<|im_start|>system\ns<|im_end|>\n" + kChat.substr(1)},
      {R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": null},
          {"role": "tool", "content": "t"}, {"role": "assistant", "content": "a"}]})",
       "chatml",
       "[<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n]<|im_end|>["
       "\n<|im_start|>tool\nt<|im_end|>\n<|im_start|>assistant\n]a<|im_end|>[\n]"},
      {R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})",
       "llama3",
       "[<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nq<|eot_id|>"
       "<|start_header_id|>assistant<|end_header_id|>\n\n]a<|eot_id|>"},
      {R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})",
       "qwen", "[<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n" + kChat.substr(1)},
      {R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})",
       "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}",
       "[user: q\nassistant: ]a[\n]"},
      {R"({"ids": [97, 98, 256], "keep": [1, 0, 0]})", "", "[a]b" + kEnd},
  };
  return table;
}

TEST(RowShape, EveryShapeIsTheSameInEveryFormat) {
  const auto tokenizer = make_tokenizer();
  Scratch scratch;
  for (const Case& one : cases()) {
    const Json row = parse_json(one.row, "row");
    const std::string line = row.dump();
    std::vector<std::string> files = {scratch.write("a.jsonl", line + "\n"),
                                      scratch.write("b.json", "[\n" + line + "\n]\n"),
                                      scratch.write("c.json", "\xEF\xBB\xBF" + row.dump(2)),
                                      scratch.write("d", "[" + line + "]")};
    if (const std::string csv = csv_of(row); !csv.empty())
      files.push_back(scratch.write("e.csv", csv));
    for (const std::string& file : files) {
      SCOPED_TRACE(file + ": " + one.row);
      const auto data = Dataset::open(file, tokenizer, with({{"template", one.chat}}), nullptr);
      ASSERT_EQ(data->size(), 1);
      EXPECT_EQ(shown(*tokenizer, data->row(0)), one.shown);
    }
    Dataset added(tokenizer, with({{"template", one.chat}}));
    added.add(line);
    EXPECT_EQ(shown(*tokenizer, added.row(0)), one.shown) << one.row;
  }
}

TEST(RowShape, OptionsNameMembersAndPrecede) {
  using Kind = Record::Kind;
  const auto kind = [](const char* row, const Json& options) {
    return parse_record(row, "x", record_keys(with(options)));
  };
  const char* both = R"({"text": "t", "question": "q", "answer": "a"})";
  EXPECT_EQ(kind(both, Json::object()).kind, Kind::text);
  const Record answer = kind(both, {{"prompt_key", "question"}, {"response_key", "answer"}});
  EXPECT_EQ(answer.kind, Kind::answer);
  EXPECT_EQ(answer.prompt + answer.text, "qa");
  const Record task =
      kind(R"({"text": "t", "task": "q", "output": "a"})", {{"instruction_key", "task"}});
  EXPECT_EQ(task.kind, Kind::instruction);
  const Record chat = kind(R"({"text": "t", "dialog": [{"role": "user"}], "tools": [1]})",
                           {{"messages_key", "dialog"}});
  EXPECT_EQ(chat.text, R"({"messages": [{"role": "user"}], "tools": [1]})");
  const char* alpaca = R"({"instruction": "i", "output": "o"})";
  EXPECT_EQ(kind(alpaca, {{"text_key", "output"}}).text, "o") << "the option is that of a text";
  EXPECT_EQ(kind(alpaca, {{"text_key", "instruction"}}).text, "i");
  const Record chosen =
      kind(R"({"prompt": "p", "chosen": "c", "rejected": "r"})", {{"response_key", "chosen"}});
  EXPECT_EQ(chosen.prompt + chosen.text, "pc");
}

TEST(RowShape, RefusedRowsNameTheirMembersAndTheOptions) {
  const auto error_of = [](const char* row) {
    try {
      parse_record(row, "a.jsonl line 3", RecordKeys());
    } catch (const Error& error) {
      return error.text() + " / " + error.hint();
    }
    return std::string();
  };
  for (const char* part : {"a.jsonl line 3", "the row has question, answer", "--text-key",
                           "--prompt-key", "--response-key", "conversations"}) {
    EXPECT_NE(error_of(R"({"question": "q", "answer": "a"})").find(part), std::string::npos)
        << error_of(R"({"question": "q", "answer": "a"})");
  }
  for (const char* row : {R"({"prompt": "p", "chosen": "c", "rejected": "r"})",
                          R"({"chosen": [], "rejected": []})"}) {
    EXPECT_NE(error_of(row).find("no objective learns from pairs"), std::string::npos) << row;
    EXPECT_NE(error_of(row).find("--response-key chosen"), std::string::npos) << row;
  }
  EXPECT_NE(error_of(R"({"messages": "hi"})").find("must be an array, found string"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"instruction": "a", "input": [1], "output": "b"})")
                .find("\"input\" must be a string, found array"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"data": [{"text": "a"}]})").find("the row has data"), std::string::npos);
  for (const char* row : {R"({"data": []})", R"({"data": [ ]})", R"({"messages": []})"})
    EXPECT_EQ(error_of(row), "") << row; // a conversation without a turn
}

} // namespace
} // namespace dllm::text
