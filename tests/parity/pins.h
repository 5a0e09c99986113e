#pragma once
// How many cases of every topic pass and are skipped, kept in pins.json, so that a topic cannot
// turn into skips without a test that fails.
//
//   {"torch/tokenizers": {"passed": 52, "skipped": 0, "unread": 3, "assets": {"tokenizers/gpt2":
//   8}}, ...}
//
// Counted with every asset there. `unread`: so many arrays no handler asks for; one more is an
// input or a result that is not compared, and fails. `assets` holds the cases that need a
// downloaded file: without it they are skipped.

#include "base/json.h"

#include <map>
#include <string>
#include <vector>

namespace dllm::parity {

struct TopicCounts {
  int passed = 0, failed = 0, skipped = 0;
  std::vector<std::string> unread;    // arrays that no handler asked for
  std::map<std::string, int> assets;  // cases that need the asset, there or not
  std::map<std::string, int> missing; // of those, skipped because it is not there
};

// By label: "torch/models".
using Counts = std::map<std::string, TopicCounts>;

// One line with the first of the arrays that were never read; none where all were.
void note_unread(const std::string& label, const TopicCounts& topic);

// The text of a pins file.
std::string counts_text(const Counts& counts);

// Prints one FAIL line for every pinned topic that is absent, passes less or skips more than its
// pin allows, and one note for a topic without a pin or better than its pin. `folders`: what was
// run; a pin of a set that none of them is or holds is not looked at. Returns the number of FAIL
// lines.
int check_pins(const std::string& path, const Counts& counts,
               const std::vector<std::string>& folders);

} // namespace dllm::parity
