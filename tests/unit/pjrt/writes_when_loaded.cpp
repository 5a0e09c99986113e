// A shared library that is no plugin, with a constructor that leaves a mark.

#include <cstdio>
#include <cstdlib>

namespace {

[[gnu::constructor]] void leave_mark() {
  const char* path = std::getenv("WRITES_WHEN_LOADED");
  if (path == nullptr) return;
  if (std::FILE* file = std::fopen(path, "w")) std::fclose(file);
}

} // namespace
