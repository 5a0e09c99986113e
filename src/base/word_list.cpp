#include "base/word_list.h"

namespace dllm {

std::string word_list(const std::vector<std::string>& words, const std::string& last) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " " + last + " " : ", ";
    text += words[i];
  }
  return text;
}

} // namespace dllm
