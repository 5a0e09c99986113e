#pragma once
// A LineEditor reads lines at a prompt. With libedit, when the build found it, it has editing,
// history and completion. A process may have one LineEditor.

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dllm::cli {

struct Completion {
  std::string word;               // the part at the end of the line that is completed
  std::vector<std::string> items; // possible completions, sorted
};

struct Line {
  // interrupted: Ctrl-C; end: Ctrl-D or the end of a file.
  enum class Kind { text, interrupted, end } kind;
  std::string text; // without its line break
};

class LineEditor {
public:
  // complete: gets the line up to the cursor. history: the file that stores lines; "": none.
  LineEditor(std::function<Completion(const std::string&)> complete, const std::string& history);
  ~LineEditor();

  Line read(const std::string& prompt);
  bool completes() const; // false for plain lines without completion

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace dllm::cli
