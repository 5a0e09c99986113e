#pragma once
// A chat template: the part of the Jinja language that published templates use, with trim_blocks,
// lstrip_blocks, loop controls and {% generation %}. Nothing is escaped; undefined values print
// nothing. A template cannot read files, call out, or change what it is given.

#include "text/jinja/budget.h"
#include "text/jinja/value.h"

#include <memory>
#include <string>
#include <string_view>

namespace dllm::text::jinja {

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
