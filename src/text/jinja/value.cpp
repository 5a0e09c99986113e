#include "text/jinja/template.h"

#include <algorithm>

namespace dllm::text::jinja {

namespace {

constexpr int kDeepest = 100; // containers in containers: printing and releasing recurse

} // namespace

struct Value::List {
  Items items;
  int depth;
  bool plain;
};

struct Value::Map {
  Entries entries;
  int depth;
  bool plain;
};

struct Value::Space {
  Entries entries;
};

namespace {

struct Nesting {
  int depth = 1;
  bool plain = true;

  void hold(const Value& item, int item_depth) {
    depth = std::max(depth, item_depth + 1);
    plain = plain && item.is_plain();
    if (depth > kDeepest) {
      fail(Code::resource_exhausted, "a value nests deeper than {} levels", kDeepest);
    }
  }
};

} // namespace

Value Function::attribute(std::string_view name) const {
  return Value::undefined(std::string(name));
}

Value::Value(MarkedText text)
    : type_(Type::text), data_(std::make_shared<const MarkedText>(std::move(text))) {}

Value::Value(std::shared_ptr<Function> function)
    : type_(Type::function), data_(std::move(function)) {}

Value Value::none() {
  Value made;
  made.type_ = Type::none;
  return made;
}

Value Value::undefined(std::string what) {
  Value made;
  made.data_ = std::make_shared<const std::string>(std::move(what));
  return made;
}

Value Value::list(Items items) {
  Nesting nesting;
  for (const Value& item : items) {
    int depth = 0;
    if (item.is_sequence()) depth = std::get<std::shared_ptr<const List>>(item.data_)->depth;
    if (item.is(Type::map)) depth = std::get<std::shared_ptr<const Map>>(item.data_)->depth;
    nesting.hold(item, depth);
  }
  Value made;
  made.type_ = Type::list;
  made.data_ = std::make_shared<const List>(List{std::move(items), nesting.depth, nesting.plain});
  return made;
}

Value Value::tuple(Items items) {
  Value made = list(std::move(items));
  made.type_ = Type::tuple;
  return made;
}

Value Value::group(Value grouper, Value list) {
  Value made = tuple({std::move(grouper), std::move(list)});
  made.is_group_ = true;
  return made;
}

Value Value::map(Entries entries) {
  Nesting nesting;
  for (const auto& entry : entries) {
    for (const Value* item : {&entry.first, &entry.second}) {
      int depth = 0;
      if (item->is_sequence()) depth = std::get<std::shared_ptr<const List>>(item->data_)->depth;
      if (item->is(Type::map)) depth = std::get<std::shared_ptr<const Map>>(item->data_)->depth;
      nesting.hold(*item, depth);
    }
  }
  Value made;
  made.type_ = Type::map;
  made.data_ = std::make_shared<const Map>(Map{std::move(entries), nesting.depth, nesting.plain});
  return made;
}

Value Value::space(Entries entries) {
  Value made;
  made.type_ = Type::space;
  made.data_ = std::make_shared<Space>();
  for (auto& [name, value] : entries) {
    if (!name.is_text()) fail(Code::invalid_argument, "the names of a namespace must be strings");
    made.set(name.bytes(), std::move(value));
  }
  return made;
}

bool Value::is_plain() const {
  if (is_sequence()) return std::get<std::shared_ptr<const List>>(data_)->plain;
  if (is(Type::map)) return std::get<std::shared_ptr<const Map>>(data_)->plain;
  return !is(Type::space) && !is(Type::function);
}

bool Value::truth() const {
  switch (type_) {
  case Type::boolean:
  case Type::integer: return integer() != 0;
  case Type::real: return real() != 0;
  case Type::text: return !text().empty();
  case Type::list:
  case Type::tuple: return !items().empty();
  case Type::map: return !entries().empty();
  case Type::space:
  case Type::function: return true;
  default: return false;
  }
}

double Value::real() const {
  return is(Type::real) ? std::get<double>(data_) : static_cast<double>(integer());
}

const Items& Value::items() const {
  return std::get<std::shared_ptr<const List>>(data_)->items;
}

const Entries& Value::entries() const {
  if (is(Type::space)) return std::get<std::shared_ptr<Space>>(data_)->entries;
  return std::get<std::shared_ptr<const Map>>(data_)->entries;
}

const Value* Value::find(std::string_view key) const {
  for (const auto& [name, value] : entries()) {
    if (name.is_text() && name.bytes() == key) return &value;
  }
  return nullptr;
}

const Value* Value::find(const Value& key) const {
  if (key.is_text()) return find(std::string_view(key.bytes()));
  Budget enough(Limits{});
  for (const auto& [name, value] : entries()) {
    if (equal(enough, name, key)) return &value;
  }
  return nullptr;
}

void Value::set(const std::string& name, Value value) {
  // Else a namespace could hold itself, or a function that outlives its variables.
  if (!value.is_plain()) {
    fail(Code::invalid_argument, "a namespace cannot hold a {}", value.type_name());
  }
  Entries& entries = std::get<std::shared_ptr<Space>>(data_)->entries;
  for (auto& [known, held] : entries) {
    if (known.bytes() == name) {
      held = std::move(value);
      return;
    }
  }
  auto& [key, held] = entries.emplace_back();
  key = Value(name);
  held = std::move(value);
}

const std::string& Value::undefined_name() const {
  static const std::string nameless = "the value";
  const auto* name = std::get_if<std::shared_ptr<const std::string>>(&data_);
  return name != nullptr ? **name : nameless;
}

bool Value::is_fresh() const {
  return std::visit(
      [](const auto& held) {
        if constexpr (requires { held.use_count(); }) {
          return held.use_count() == 1;
        } else {
          return true;
        }
      },
      data_);
}

size_t Value::footprint() const {
  constexpr size_t kValue = sizeof(Value);
  switch (type_) {
  case Type::text: return text().footprint() + 64;
  case Type::list:
  case Type::tuple: return items().size() * kValue + 64;
  case Type::map: return entries().size() * 2 * kValue + 64;
  default: return kValue;
  }
}

const char* Value::type_name() const {
  constexpr const char* kNames[] = {"undefined value", "none", "boolean", "integer", "float",
                                    "string",          "list", "tuple",   "dict",    "namespace",
                                    "function"};
  return kNames[static_cast<int>(type_)];
}

bool equal(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  if (a.is_number() && b.is_number()) {
    if (a.is_whole() && b.is_whole()) return a.integer() == b.integer();
    return a.real() == b.real();
  }
  if (a.type() != b.type()) return false;
  switch (a.type()) {
  case Type::text: budget.step(a.text().size() / 16); return a.bytes() == b.bytes();
  case Type::list:
  case Type::tuple: {
    const Budget::Level level(budget);
    return std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(),
                      [&](const Value& x, const Value& y) { return equal(budget, x, y); });
  }
  case Type::map: {
    const Budget::Level level(budget);
    if (a.entries().size() != b.entries().size()) return false;
    for (const auto& [key, value] : a.entries()) {
      budget.step(b.entries().size());
      const Value* other = b.find(key);
      if (other == nullptr || !equal(budget, value, *other)) return false;
    }
    return true;
  }
  case Type::space:
  case Type::function: return a.data_ == b.data_;
  default: return true;
  }
}

int compare_texts(std::string_view a, std::string_view b) {
  return a.compare(b); // the order of UTF-8 bytes is the order of characters
}

int compare(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  if (a.is_number() && b.is_number()) {
    if (a.is_whole() && b.is_whole()) {
      return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
    }
    return a.real() < b.real() ? -1 : a.real() > b.real() ? 1 : 0;
  }
  if (a.is_text() && b.is_text()) {
    budget.step(a.text().size() / 16);
    return compare_texts(a.bytes(), b.bytes());
  }
  if (a.is_sequence() && a.type() == b.type()) {
    const Budget::Level level(budget);
    const size_t common = std::min(a.items().size(), b.items().size());
    for (size_t i = 0; i < common; ++i) {
      if (!equal(budget, a.items()[i], b.items()[i])) {
        return compare(budget, a.items()[i], b.items()[i]);
      }
    }
    return a.items().size() < b.items().size() ? -1 : a.items().size() > b.items().size() ? 1 : 0;
  }
  fail(Code::invalid_argument, "{} and {} cannot be compared by order", a.type_name(),
       b.type_name());
}

} // namespace dllm::text::jinja
