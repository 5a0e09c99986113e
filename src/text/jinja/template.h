#pragma once
// A Template renders a chat template to text. It supports the part of the Jinja language that
// published templates use, with trim_blocks, lstrip_blocks, loop controls and {% generation %}.
// Nothing is escaped; undefined values print nothing. A template cannot read files, start programs
// or change its variables.

#include "base/error.h"
#include "base/json.h"
#include "base/task.h"
#include "text/unicode.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace dllm::text::jinja {

// Limits of one rendering, because a template is an untrusted program.
struct Limits {
  // Expressions, statements, items, and pieces of 16 bytes of text that are read.
  int64_t steps = 5'000'000;
  int64_t bytes = int64_t{64} << 20; // sum over all values and texts that were ever made
  int depth = 250;                   // expressions in expressions, also through macro calls
  const Task* task = nullptr;        // checked every few thousand steps
};

// Counts the work of one rendering and fails with resource_exhausted above its limits.
class Budget {
public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  void step(size_t count = 1) {
    // A count is the size of an object in memory, which is far below 2^63.
    steps_ += static_cast<int64_t>(count);
    if (steps_ >= next_check_) {
      check_task(limits_.task);
      next_check_ = steps_ + kStepsBetweenChecks;
    }
    if (steps_ > limits_.steps) {
      fail_with_hint("does a loop in the template never end?", Code::resource_exhausted,
                     "it takes more than {} steps", limits_.steps);
    }
  }

  void grow(size_t bytes) {
    const auto room = static_cast<size_t>(limits_.bytes - bytes_);
    if (bytes > room) {
      fail_with_hint("does a loop in the template never end?", Code::resource_exhausted,
                     "it makes more than {} bytes", limits_.bytes);
    }
    bytes_ += static_cast<int64_t>(bytes);
  }

  // Counts one level of nesting while it lives.
  class Level {
  public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (++budget_.depth_ > budget_.limits_.depth) {
        --budget_.depth_;
        fail(Code::resource_exhausted, "it nests deeper than {} levels", budget_.limits_.depth);
      }
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;

  private:
    Budget& budget_;
  };

private:
  static constexpr int64_t kStepsBetweenChecks = 4096;
  Limits limits_;
  int64_t next_check_ = 0;
  int64_t steps_ = 0, bytes_ = 0;
  int depth_ = 0;
};

// The author of a byte of text: the template or a message. Slices, joins and replacements keep the
// marks. Special tokens are therefore found only in text that the template wrote, and the loss
// counts only messages of the assistant.
struct Mark {
  static constexpr int32_t kTemplate = -1; // written by the template, which is trusted
  static constexpr int32_t kData = -2;     // roles, tools, variables: not trusted, without a role
  int32_t message = kTemplate;             // 0 or larger: the number of the message
  bool spoken = false;                     // inside a {% generation %} block
  bool operator==(const Mark&) const = default;
};

// Text with a mark for each byte.
class MarkedText {
public:
  struct Run {
    size_t end; // first byte after the run
    Mark mark;
  };

  MarkedText() = default;
  explicit MarkedText(std::string bytes, Mark mark = {});

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // Returns bytes of memory.
  size_t footprint() const { return bytes_.size() + runs_.size() * sizeof(Run); }
  // Returns the runs in order; they have no gaps, and neighbours have different marks.
  const std::vector<Run>& runs() const { return runs_; }
  // REQUIRES: at < size().
  Mark mark_at(size_t at) const;

  void append(std::string_view bytes, Mark mark = {});
  void append(const MarkedText& other) { append(other, 0, other.size()); }
  // Appends bytes [begin, end) of another text.
  void append(const MarkedText& other, size_t begin, size_t end);
  MarkedText slice(size_t begin, size_t end) const;
  void mark_spoken();

private:
  size_t run_of(size_t at) const;

  std::string bytes_;
  std::vector<Run> runs_;
};

// The characters of a text by index, because Python counts characters and not bytes. The text
// outlives this object.
class Characters {
public:
  Characters() = default;
  Characters(Budget& budget, const MarkedText& text) : text_(&text) {
    const std::string& bytes = text.bytes();
    budget.step(bytes.size() / 16);
    ascii_ = std::all_of(bytes.begin(), bytes.end(),
                         [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    if (ascii_) return;
    budget.grow(bytes.size() * sizeof(size_t));
    for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(char_at(bytes, at).size)) {
      starts_.push_back(at);
    }
  }

  size_t count() const { return text_ == nullptr ? 0 : ascii_ ? text_->size() : starts_.size(); }
  size_t offset(size_t index) const {
    if (ascii_) return std::min(index, text_->size());
    return index < starts_.size() ? starts_[index] : text_->size();
  }
  MarkedText slice(size_t begin, size_t end) const {
    return text_->slice(offset(begin), offset(end));
  }

private:
  const MarkedText* text_ = nullptr;
  bool ascii_ = true;
  std::vector<size_t> starts_;
};

class Budget;
class Evaluator;
class Value;
struct Arguments;
using Items = std::vector<Value>;
using Entries = std::vector<std::pair<Value, Value>>;

enum class Type {
  undefined,
  none,
  boolean,
  integer,
  real,
  text,
  list,
  tuple,
  map,
  space,
  function
};

// A value that can be called: a macro, method, loop or global function.
class Function {
public:
  virtual ~Function() = default;
  virtual Value call(Evaluator& evaluator, Arguments& arguments) = 0;
  virtual std::string describe() const = 0; // "<function range>"
  // Returns an attribute, as the variable `loop` has attributes, or undefined.
  virtual Value attribute(std::string_view name) const;
};

// A value of the template language, with Python's types and formats. It is cheap to copy. Texts,
// lists and maps never change after they are made; a namespace may change.
class Value {
public:
  struct List;
  struct Map;
  struct Space;

  Value() = default; // undefined
  explicit Value(bool value) : type_(Type::boolean), data_(int64_t{value}) {}
  explicit Value(int64_t value) : type_(Type::integer), data_(value) {}
  explicit Value(double value) : type_(Type::real), data_(value) {}
  explicit Value(MarkedText text);
  explicit Value(std::string text) : Value(MarkedText(std::move(text))) {}
  explicit Value(std::shared_ptr<Function> function);
  static Value none();
  // what: name in the error when the value is used ("messages[0].name").
  static Value undefined(std::string what);
  // These functions fail with resource_exhausted when values nest deeper than 100.
  static Value list(Items items);
  static Value tuple(Items items);
  // A tuple of two whose items are also its attributes `grouper` and `list`, as groupby makes them.
  static Value group(Value grouper, Value list);
  static Value map(Entries entries); // of entries with equal keys only the first is kept
  static Value space(Entries entries);

  Type type() const { return type_; }
  bool is(Type type) const { return type_ == type; }
  bool is_undefined() const { return type_ == Type::undefined; }
  bool is_none() const { return type_ == Type::none; }
  bool is_text() const { return type_ == Type::text; }
  bool is_group() const { return is_group_; }
  bool is_sequence() const { return type_ == Type::list || type_ == Type::tuple; }
  bool is_number() const {
    return type_ == Type::integer || type_ == Type::real || type_ == Type::boolean;
  }
  bool is_whole() const { return type_ == Type::integer || type_ == Type::boolean; }
  // Returns true when no part of the value can change or be called. A namespace takes only such
  // values.
  bool is_plain() const;
  bool truth() const;

  // REQUIRES: a type that the comment names.
  int64_t integer() const { return std::get<int64_t>(data_); } // integer, boolean
  double real() const;                                         // integer, boolean, real
  const MarkedText& text() const { return *std::get<std::shared_ptr<const MarkedText>>(data_); }
  const std::string& bytes() const { return text().bytes(); }
  const Items& items() const;     // list, tuple
  const Entries& entries() const; // map, namespace
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(const std::string& name, Value value); // namespace
  const std::shared_ptr<Function>& function() const {
    return std::get<std::shared_ptr<Function>>(data_);
  }
  const std::string& undefined_name() const;
  // Returns true when no other Value shares the text or list.
  bool is_fresh() const;
  size_t footprint() const; // bytes, without the memory of items

  const char* type_name() const;

private:
  friend bool equal(Budget& budget, const Value& a, const Value& b);

  Type type_ = Type::undefined;
  bool is_group_ = false;
  std::variant<std::monostate, int64_t, double, std::shared_ptr<const MarkedText>,
               std::shared_ptr<const List>, std::shared_ptr<const Map>, std::shared_ptr<Space>,
               std::shared_ptr<Function>, std::shared_ptr<const std::string>>
      data_;
};

// Compares as Python's ==: numbers by value, other values of different types are not equal. Charges
// each compared item as a step.
bool equal(Budget& budget, const Value& a, const Value& b);
// Returns a negative number, 0 or a positive number. Fails with invalid_argument for types without
// an order.
int compare(Budget& budget, const Value& a, const Value& b);
int compare_texts(std::string_view a, std::string_view b);

// Returns Python's str(), which {{ value }} prints; "" for an undefined value.
MarkedText to_text(Budget& budget, const Value& value);
// Appends Python's repr(), which puts texts in quotes.
void append_repr(Budget& budget, const Value& value, MarkedText& out);
std::string number_text(double value);

// Converts JSON to a value in which every text has this mark.
Value from_json(const Json& json, Mark mark);
// Returns a function that returns this text. It replaces strftime_now for a fixed date.
Value fixed_text_function(std::string text);
// Converts a list of messages. The texts of message i have the mark of message i; its role has the
// mark kData. Fails with invalid_argument unless `messages` is a list of objects with a string
// "role".
Value from_messages(const Json& messages);

// A parsed chat template.
class Template {
public:
  // name: name in errors ("qwen3/tokenizer_config.json: chat_template"). Fails with
  // invalid_argument naming line and tag, with unimplemented for statements that chat templates do
  // not use, and with resource_exhausted when the template nests too deep.
  Template(std::string_view source, std::string name);
  ~Template();
  Template(Template&&) noexcept;

  // Renders the template; several threads may render at once. Fails as above, naming the running
  // tag, and with resource_exhausted above a limit.
  MarkedText render(const Entries& variables, const Limits& limits = {}) const;
  // Returns true when the template marks the assistant's text with {% generation %}.
  bool has_generation() const { return has_generation_; }

private:
  struct Tree;
  std::string name_;
  std::unique_ptr<Tree> tree_;
  bool has_generation_ = false;
};

} // namespace dllm::text::jinja
