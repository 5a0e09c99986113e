#pragma once
// Values of the template language, with Python's types and its way of printing them.

#include "base/json.h"
#include "text/jinja/marked_text.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace dllm::text::jinja {

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
// A list of messages: message i's texts bear the mark of message i, its role that of data. Fails
// with invalid_argument for anything but a list of objects with a "role" that is a string.
Value from_messages(const Json& messages);

} // namespace dllm::text::jinja
