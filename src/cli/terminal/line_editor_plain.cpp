// This file is the line editor of a build without libedit. It has the editing of the terminal, no
// history and no completion.

#include "line_editor.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>

namespace dllm::cli {

struct LineEditor::Impl {};

LineEditor::LineEditor(std::function<Completion(const std::string&)>, const std::string&) {}
LineEditor::~LineEditor() = default;

bool LineEditor::completes() const {
  return false;
}

Line LineEditor::read(const std::string& prompt) {
  if (isatty(STDIN_FILENO) != 0) {
    std::fputs(prompt.c_str(), stdout);
    std::fflush(stdout);
  }
  std::string text;
  if (!std::getline(std::cin, text)) return {Line::Kind::end, {}};
  return {Line::Kind::text, text};
}

} // namespace dllm::cli
