#pragma once
// A chat template, the values it is given and the text it makes: the part of the Jinja language that published templates
// use, with trim_blocks, lstrip_blocks, loop controls and {% generation %}. Nothing is escaped; undefined values print
// nothing. A template cannot read files, call out, or change what it is given.

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

// Limits on the work of a rendering: a template is a program from elsewhere.
struct Limits {
  int64_t steps = 5'000'000; // expressions, statements, items and 16 bytes of text looked at
  int64_t bytes = int64_t{64} << 20; // of all values and texts ever made, not only those alive
  int depth = 250;                   // expressions in expressions, through macro calls too
  const Task* task = nullptr;        // checked every few thousand steps
};

class Budget {
public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  void step(size_t count = 1) {
    // A count is the size of something that is there, far below 2^63.
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

  // One level of nesting while it lives.
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

// Text with a mark for each byte that says who wrote it: the template's author or a message. What a template
// does to a text (slices, joins, replaces) keeps the marks, so that special tokens are looked for
// only in what the template itself writes, and the loss counts only the messages of the assistant.
struct Mark {
  static constexpr int32_t kTemplate = -1; // written by the template's author: trusted
  static constexpr int32_t kData = -2;     // roles, tools, variables: given, of no role
  int32_t message = kTemplate;             // 0 and up: of this message
  bool spoken = false;                     // inside a {% generation %} block
  bool operator==(const Mark&) const = default;
};

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
  size_t footprint() const { return bytes_.size() + runs_.size() * sizeof(Run); } // bytes of memory
  // In order, without gaps, neighbours differ.
  const std::vector<Run>& runs() const { return runs_; }
  // REQUIRES: at < size().
  Mark mark_at(size_t at) const;

  void append(std::string_view bytes, Mark mark = {});
  void append(const MarkedText& other) { append(other, 0, other.size()); }
  // Bytes [begin, end) of another text.
  void append(const MarkedText& other, size_t begin, size_t end);
  MarkedText slice(size_t begin, size_t end) const;
  void mark_spoken();

private:
  size_t run_of(size_t at) const;

  std::string bytes_;
  std::vector<Run> runs_;
};

// The characters of a text by index: Python counts characters, not bytes.

// The text outlives it.
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

// Values of the template language, with Python's types and its way of printing them.

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

// A thing with parentheses behind it: macro, method, loop, global function.
class Function {
public:
  virtual ~Function() = default;
  virtual Value call(Evaluator& evaluator, Arguments& arguments) = 0;
  virtual std::string describe() const = 0; // "<function range>"
  // Attributes, as the loop variable has them. Undefined when there is none.
  virtual Value attribute(std::string_view name) const;
};

// Cheap to copy. Texts, lists and maps never change once made; a namespace does.
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
  // what: for the error that comes when it is used ("messages[0].name").
  static Value undefined(std::string what);
  // Fail with resource_exhausted when they nest deeper than 100.
  static Value list(Items items);
  static Value tuple(Items items);
  static Value map(Entries entries); // of equal keys the first one counts
  static Value space(Entries entries);

  Type type() const { return type_; }
  bool is(Type type) const { return type_ == type; }
  bool is_undefined() const { return type_ == Type::undefined; }
  bool is_none() const { return type_ == Type::none; }
  bool is_text() const { return type_ == Type::text; }
  bool is_sequence() const { return type_ == Type::list || type_ == Type::tuple; }
  bool is_number() const {
    return type_ == Type::integer || type_ == Type::real || type_ == Type::boolean;
  }
  bool is_whole() const { return type_ == Type::integer || type_ == Type::boolean; }
  // Nothing in it can change or be called: such values may be put into a namespace.
  bool is_plain() const;
  bool truth() const;

  // REQUIRES: the type.
  int64_t integer() const { return std::get<int64_t>(data_); } // boolean too
  double real() const;                                         // any number
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
  // The text or list has no other holder: it was just made.
  bool is_fresh() const;
  size_t footprint() const; // bytes, without what items hold

  const char* type_name() const;

private:
  friend bool equal(Budget& budget, const Value& a, const Value& b);

  Type type_ = Type::undefined;
  std::variant<std::monostate, int64_t, double, std::shared_ptr<const MarkedText>,
               std::shared_ptr<const List>, std::shared_ptr<const Map>, std::shared_ptr<Space>,
               std::shared_ptr<Function>, std::shared_ptr<const std::string>>
      data_;
};

// As Python's ==: numbers by value, nothing equals another type. Items are counted as steps.
bool equal(Budget& budget, const Value& a, const Value& b);
// Negative, 0, positive. Fails with invalid_argument for types without an order.
int compare(Budget& budget, const Value& a, const Value& b);
int compare_texts(std::string_view a, std::string_view b);

// str(): what {{ value }} prints. The text itself for a text, nothing for an undefined value.
MarkedText to_text(Budget& budget, const Value& value);
// repr(): texts in quotes.
void append_repr(Budget& budget, const Value& value, MarkedText& out);
std::string number_text(double value);

// JSON from outside as values of the template language.

// Every text in it bears the mark.
Value from_json(const Json& json, Mark mark);
// A function that answers this text: in place of strftime_now, for a date that does not change.
Value fixed_text_function(std::string text);
// A list of messages: message i's texts bear the mark of message i, its role that of data. Fails
// with invalid_argument for anything but a list of objects with a "role" that is a string.
Value from_messages(const Json& messages);

class Template {
public:
  // name: for errors ("qwen3/tokenizer_config.json: chat_template"). Fails with invalid_argument
  // naming line and tag, unimplemented for statements of other kinds of templates,
  // resource_exhausted when it nests too deep.
  Template(std::string_view source, std::string name);
  ~Template();
  Template(Template&&) noexcept;

  // Many threads may render at once. Fails as above, naming the tag that runs; resource_exhausted
  // when it passes a limit.
  MarkedText render(const Entries& variables, const Limits& limits = {}) const;
  // The template marks the text of the assistant itself.
  bool has_generation() const { return has_generation_; }

private:
  struct Tree;
  std::string name_;
  std::unique_ptr<Tree> tree_;
  bool has_generation_ = false;
};

} // namespace dllm::text::jinja
