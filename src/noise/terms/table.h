#pragma once
// The table of the terms of a loss. A new term is its file in this folder, and its name twice here.

#include "noise/terms/term.h"

#include <functional>

namespace dllm::noise {

namespace term_files {

TermEntry align();
TermEntry cola();
TermEntry consistency();
TermEntry distill();
TermEntry entropy();

inline constexpr TermEntry (*kTable[])() = {align, cola, consistency, distill, entropy};

} // namespace term_files

// Group of the options of terms and of their teacher.
inline constexpr const char* kTermGroup = "term";

// Returns the rows of the table.
const std::vector<TermEntry>& term_entries();

// Returns the names of the terms that `fits` accepts, for a sentence: "align, distill and entropy".
// last: the word before the last name. An empty function accepts all terms.
std::string term_names(const std::string& last,
                       const std::function<bool(const TermEntry&)>& fits = {});

} // namespace dllm::noise
