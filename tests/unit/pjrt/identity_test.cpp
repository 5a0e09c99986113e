#include "pjrt/cache/executable_cache.h"

#include "unit/test_files.h"

#include <elf.h>

#include <cstring>
#include <set>

namespace dllm::pjrt {
namespace {

using test::TempFolder;

CompileIdentity some() {
  return {"program", "options", "plugin", "platform", "library", {"v5e", "v5e"}, "flags", "host"};
}

TEST(CacheKey, ChangesWithEveryPart) {
  std::vector<CompileIdentity> all(11, some());
  all[1].program += "x";
  all[2].options += "x";
  all[3].plugin += "x";
  all[4].platform += "x";
  all[5].library += "x";
  all[6].devices.push_back("v5e");
  all[7].devices = {"v5ev5e"};
  all[8].environment += "x";
  all[9].host += "x";
  all[10].program = "programo"; // the same letters, cut elsewhere
  all[10].options = "ptions";
  std::set<std::string> keys;
  for (const CompileIdentity& identity : all) {
    EXPECT_EQ(cache_key(identity), cache_key(identity));
    EXPECT_EQ(cache_key(identity).size(), 64u);
    keys.insert(cache_key(identity));
  }
  EXPECT_EQ(keys.size(), all.size());
}

TEST(CacheKey, HasTheEnvironmentOfCompilers) {
  ::unsetenv("XLA_FLAGS");
  const std::string before = compiler_environment();
  ::setenv("XLA_FLAGS", "--xla_dump_to=/nowhere", 1);
  EXPECT_NE(compiler_environment(), before);
  ::unsetenv("XLA_FLAGS");
  EXPECT_EQ(compiler_environment(), before);
  EXPECT_FALSE(host_identity().empty());
}

// An ELF file of a header, one program header and one note.
std::string elf_with_note(uint32_t type, const std::string& id, uint32_t id_size) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_phoff = sizeof(header);
  header.e_phnum = 1;
  Elf64_Phdr part{};
  part.p_type = PT_NOTE;
  part.p_offset = sizeof(header) + sizeof(part);
  const Elf64_Nhdr note{4, id_size, type};
  part.p_filesz = sizeof(note) + 4 + id_size;
  std::string file(reinterpret_cast<const char*>(&header), sizeof(header));
  file.append(reinterpret_cast<const char*>(&part), sizeof(part));
  file.append(reinterpret_cast<const char*>(&note), sizeof(note));
  return file.append("GNU", 4) + id;
}

TEST(LibraryIdentity, IsTheBuildIdOrElseTheTimeOfChange) {
  TempFolder folder;
  const std::string path = folder.path("plugin.so");
  const auto identity = [&](const std::string& content) {
    write_file_atomic(path, content);
    return library_identity(path);
  };
  const std::string id("\x01\xfe\x02\xff", 4);
  EXPECT_EQ(identity(elf_with_note(NT_GNU_BUILD_ID, id, 4)), "build id 01fe02ff, 140 bytes");
  EXPECT_NE(identity(elf_with_note(7, id, 4)).find("changed at"), std::string::npos);
  EXPECT_NE(identity("no library").find("10 bytes, changed at"), std::string::npos);
  EXPECT_NE(identity("").find("0 bytes, changed at"), std::string::npos);
  // Lengths that lie, and every cut.
  identity(elf_with_note(NT_GNU_BUILD_ID, id, 0xfffffff0));
  const std::string whole = elf_with_note(NT_GNU_BUILD_ID, id, 4);
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(identity(whole.substr(0, size)).find("changed at"), std::string::npos) << size;
  test::expect_error(Code::not_found, "none", [&] { library_identity(folder.path("none")); });
}

} // namespace
} // namespace dllm::pjrt
