#include "text/jinja/template.h"

#include "base/error.h"
#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"

namespace dllm::text::jinja {

struct Template::Tree {
  Body body;
};

namespace {

[[noreturn]] void rethrow(const Error& error, const std::string& where) {
  throw Error(error.code(), where + ": " + error.text(), error.hint());
}

} // namespace

Template::Template(std::string_view source, std::string name) : name_(std::move(name)) {
  const std::string clean = clean_source(source);
  try {
    Parser parser(clean);
    tree_ = std::make_unique<Tree>(Tree{parser.run()});
    has_generation_ = parser.has_generation();
  } catch (const Error& error) {
    rethrow(error, name_);
  }
}

Template::~Template() = default;
Template::Template(Template&&) noexcept = default;

MarkedText Template::render(const Entries& variables, const Limits& limits) const {
  Evaluator evaluator(limits);
  try {
    return evaluator.run(tree_->body, variables);
  } catch (const Error& error) {
    const Statement* at = evaluator.current();
    if (at == nullptr) rethrow(error, name_);
    rethrow(error, fmt::format("{}: line {}: {}", name_, at->line, at->source));
  }
}

} // namespace dllm::text::jinja
