#pragma once
// Feeds the mutants of one reader and judges every refusal.

#include "mutator.h"

#include <functional>
#include <initializer_list>
#include <set>
#include <string>

namespace dllm::hostile {

inline constexpr uint64_t kMutants = 240;

// What a reader made of some bytes.
struct Outcome {
  int32_t status = 0; // 0: an object was made and used
  std::string message;
};

using Feed = std::function<Outcome(const std::string& bytes)>;
using Make = std::function<std::string(uint64_t number)>;

class Harness {
public:
  // allowed: the refusals that the reader's documentation names.
  Harness(std::string reader, int count, char** arguments, std::initializer_list<int32_t> allowed);
  ~Harness();

  // What has to be accepted.
  void seed(const std::string& name, const std::string& bytes, const Feed& feed);
  // make(0) to make(kMutants - 1), or the file named on the command line.
  void mutants(const std::string& what, const Make& make, const Feed& feed);
  // One input whose refusal is known: status 0 for an input that must be accepted.
  void known(const std::string& name, const std::string& bytes, int32_t status,
             const std::string& part, const Feed& feed);
  void check(bool good, const std::string& what);

  // Prints the count of failures. The exit status of the program.
  int finish();

private:
  Outcome run(const std::string& what, const std::string& bytes, const Feed& feed);
  std::string judge(const Outcome& outcome, size_t bytes) const;

  std::string reader_, file_, current_;
  std::set<int32_t> allowed_;
  int failures_ = 0;
};

} // namespace dllm::hostile
