// What may stand behind `is`.

#include "text/jinja/evaluator.h"
#include "text/jinja/filters.h"

namespace dllm::text::jinja {

namespace {

using Simple = bool (*)(const Value&);
struct SimpleTest {
  const char* name;
  Simple holds;
};

int64_t whole(const Value& value) {
  return need_integer(value, "the number tested");
}
bool is_iterable(const Value& v) {
  return v.is_sequence() || v.is_text() || v.is(Type::map) || v.is_undefined();
}

constexpr SimpleTest kSimple[] = {
    {"defined", [](const Value& v) { return !v.is_undefined(); }},
    {"undefined", [](const Value& v) { return v.is_undefined(); }},
    {"none", [](const Value& v) { return v.is_none(); }},
    {"boolean", [](const Value& v) { return v.is(Type::boolean); }},
    {"true", [](const Value& v) { return v.is(Type::boolean) && v.truth(); }},
    {"false", [](const Value& v) { return v.is(Type::boolean) && !v.truth(); }},
    {"integer", [](const Value& v) { return v.is(Type::integer); }},
    {"float", [](const Value& v) { return v.is(Type::real); }},
    {"number", [](const Value& v) { return v.is_number(); }},
    {"string", [](const Value& v) { return v.is_text(); }},
    {"mapping", [](const Value& v) { return v.is(Type::map); }},
    {"iterable", is_iterable},
    {"sequence", is_iterable},
    {"callable", [](const Value& v) { return v.is(Type::function); }},
    {"even", [](const Value& v) { return whole(v) % 2 == 0; }},
    {"odd", [](const Value& v) { return whole(v) % 2 != 0; }},
    {"escaped", [](const Value&) { return false; }},
};

// Both names of a comparison, and the order (or equality) it wants.
struct Comparison {
  const char* names[3];
  bool (*holds)(Evaluator&, const Value&, const Value&);
};

constexpr Comparison kComparisons[] = {
    {{"eq", "equalto", "=="},
     [](Evaluator& e, const Value& a, const Value& b) { return equal(e.budget, a, b); }},
    {{"ne", "ne", "!="},
     [](Evaluator& e, const Value& a, const Value& b) { return !equal(e.budget, a, b); }},
    {{"gt", "greaterthan", ">"},
     [](Evaluator& e, const Value& a, const Value& b) { return compare(e.budget, a, b) > 0; }},
    {{"ge", "ge", ">="},
     [](Evaluator& e, const Value& a, const Value& b) { return compare(e.budget, a, b) >= 0; }},
    {{"lt", "lessthan", "<"},
     [](Evaluator& e, const Value& a, const Value& b) { return compare(e.budget, a, b) < 0; }},
    {{"le", "le", "<="},
     [](Evaluator& e, const Value& a, const Value& b) { return compare(e.budget, a, b) <= 0; }},
    {{"in", "in", "in"},
     [](Evaluator& e, const Value& a, const Value& b) { return contains(e, a, b); }},
    {{"sameas", "sameas", "sameas"},
     [](Evaluator& e, const Value& a, const Value& b) {
       return a.type() == b.type() && equal(e.budget, a, b);
     }},
    {{"divisibleby", "divisibleby", "divisibleby"},
     [](Evaluator&, const Value& a, const Value& b) {
       const int64_t by = whole(b);
       if (by == 0) fail(Code::invalid_argument, "divisibleby 0 has no meaning");
       return by == -1 || whole(a) % by == 0;
     }},
};

// All letters are of one case, and there is one.
bool is_cased(Evaluator& e, const Value& value, Case wanted) {
  const MarkedText text = e.text_of(value);
  const Case other = wanted == Case::upper ? Case::lower : Case::upper;
  return change_case(e, text, wanted).bytes() == text.bytes() &&
         change_case(e, text, other).bytes() != text.bytes();
}

} // namespace

bool Evaluator::test(const std::string& name, const Value& input, Arguments arguments) {
  budget.step();
  for (const SimpleTest& simple : kSimple) {
    if (name != simple.name) continue;
    arguments.done("test " + name);
    return simple.holds(input);
  }
  if (name == "upper" || name == "lower") {
    arguments.done("test " + name);
    return is_cased(*this, input, name == "upper" ? Case::upper : Case::lower);
  }
  for (const Comparison& comparison : kComparisons) {
    if (name != comparison.names[0] && name != comparison.names[1] && name != comparison.names[2]) {
      continue;
    }
    const Value* other = arguments.take(0, "other");
    if (other == nullptr)
      fail(Code::invalid_argument, "test {} needs a value to compare with", name);
    arguments.done("test " + name);
    return comparison.holds(*this, input, *other);
  }
  fail(Code::unimplemented, "there is no test {}", name);
}

} // namespace dllm::text::jinja
