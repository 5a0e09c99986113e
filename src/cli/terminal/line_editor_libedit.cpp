// This file implements the line editor with the native interface of libedit (BSD licence).

#include "line_editor.h"

#include "../pictures/pictures.h"

#include <histedit.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <filesystem>
#include <iostream>

namespace dllm::cli {
namespace {

constexpr int kHistoryLines = 1000;

int terminal_columns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

} // namespace

struct LineEditor::Impl {
  std::function<Completion(const std::string&)> complete;
  std::string history_path, prompt;
  EditLine* editor = nullptr;
  History* history = nullptr;
  bool interrupted = false;

  static Impl& of(EditLine* editor) {
    void* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return *static_cast<Impl*>(self);
  }
  static char* prompt_of(EditLine* editor) { return of(editor).prompt.data(); }

  // Ctrl-C discards the line. The terminal sends no signal while a line is edited.
  static unsigned char cancel(EditLine* editor, int) {
    of(editor).interrupted = true;
    std::fputs("^C\n", stdout);
    return CC_NEWLINE;
  }

  // Completes as far as all candidates agree; lists the candidates when this adds no character.
  static unsigned char complete_word(EditLine* editor, int) {
    const LineInfo* line = el_line(editor);
    Completion found;
    try {
      found = of(editor).complete(std::string(line->buffer, line->cursor));
    } catch (const std::exception&) {
      return CC_ERROR;
    }
    const std::string common = common_begin(found.items);
    if (common.size() > found.word.size() &&
        common.compare(0, found.word.size(), found.word) == 0) {
      el_insertstr(editor, common.c_str() + found.word.size());
      return CC_REFRESH;
    }
    if (found.items.size() < 2) return CC_ERROR;
    std::printf("\n%s", in_columns(found.items, terminal_columns()).c_str());
    std::fflush(stdout);
    return CC_REDISPLAY;
  }

  void open() {
    // Only characters depend on the locale; numbers keep their decimal point.
    const char* locale = std::setlocale(LC_CTYPE, "");
    if (locale == nullptr || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    editor = el_init("dllm", stdin, stdout, stderr);
    if (editor == nullptr) return;
    el_set(editor, EL_CLIENTDATA, this);
    el_set(editor, EL_PROMPT, prompt_of);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_ADDFN, "dllm-complete", "complete the word", complete_word);
    el_set(editor, EL_ADDFN, "dllm-cancel", "discard the line", cancel);
    el_set(editor, EL_BIND, "^I", "dllm-complete", nullptr);
    el_set(editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    el_set(editor, EL_SETTY, "-d", "-isig", nullptr); // Ctrl-C is a key while a line is edited
    el_set(editor, EL_BIND, "^C", "dllm-cancel", nullptr);
    history = history_init();
    HistEvent event;
    ::history(history, &event, H_SETSIZE, kHistoryLines);
    ::history(history, &event, H_SETUNIQUE, 1);
    if (!history_path.empty()) ::history(history, &event, H_LOAD, history_path.c_str());
    el_set(editor, EL_HIST, ::history, history);
    el_source(editor, nullptr); // the user's own ~/.editrc
  }

  void close() {
    HistEvent event;
    if (history != nullptr && !history_path.empty()) {
      std::error_code ignored;
      std::filesystem::create_directories(std::filesystem::path(history_path).parent_path(),
                                          ignored);
      ::history(history, &event, H_SAVE, history_path.c_str());
    }
    if (history != nullptr) history_end(history);
    if (editor != nullptr) el_end(editor);
  }
};

LineEditor::LineEditor(std::function<Completion(const std::string&)> complete,
                       const std::string& history)
    : impl_(std::make_unique<Impl>()) {
  impl_->complete = std::move(complete);
  impl_->history_path = history;
  if (isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0) impl_->open();
}

LineEditor::~LineEditor() {
  impl_->close();
}

bool LineEditor::completes() const {
  return impl_->editor != nullptr;
}

Line LineEditor::read(const std::string& prompt) {
  if (impl_->editor == nullptr) {
    std::string text;
    if (!std::getline(std::cin, text)) return {Line::Kind::end, {}};
    return {Line::Kind::text, text};
  }
  impl_->prompt = prompt;
  impl_->interrupted = false;
  int count = 0;
  const char* line = el_gets(impl_->editor, &count);
  if (impl_->interrupted) return {Line::Kind::interrupted, {}};
  if (line == nullptr || count <= 0) {
    std::fputs("\n", stdout);
    return {Line::Kind::end, {}};
  }
  std::string text(line, static_cast<size_t>(count));
  if (!text.empty() && text.back() == '\n') text.pop_back();
  HistEvent event;
  if (text.find_first_not_of(" \t") != std::string::npos)
    ::history(impl_->history, &event, H_ENTER, line);
  return {Line::Kind::text, text};
}

} // namespace dllm::cli
