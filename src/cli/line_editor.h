#pragma once
// Reads lines at a prompt, with editing, history and completion where a library for it was found at build time
// (libedit), and plainly elsewhere. One object per process.

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dllm::cli {

struct Completion {
  std::string word;               // the end of the line that is completed
  std::vector<std::string> items; // what it may become, sorted
};

struct Line {
  enum class Kind {
    text,
    interrupted,
    end
  } kind;           // interrupted: Ctrl-C; end: Ctrl-D or the end of a file
  std::string text; // without its line break
};

class LineEditor {
public:
  // complete gets the line up to the cursor. history: a file to keep lines in, "" keeps none.
  LineEditor(std::function<Completion(const std::string&)> complete, const std::string& history);
  ~LineEditor();

  Line read(const std::string& prompt);
  bool completes() const; // false: plain lines

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace dllm::cli
