#pragma once
// The values of one column in one row group, from its pages: one page and the dictionary are in memory.

#include "text/parquet/encodings.h"
#include "text/parquet/footer.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace dllm::text::parquet {

constexpr int64_t kMaxPage = int64_t{256} << 20; // bytes, compressed and not
constexpr int64_t kMaxPageValues = int64_t{16} << 20;

struct PageHeader;

class ColumnReader {
public:
  // REQUIRES: leaf.type is Physical::bytes. File, leaf and task outlive it. at: null, or holds the byte of the file that was
  // read last. Fails naming file, column and row group: data_loss, unimplemented, resource_exhausted for a page above
  // kMaxPage.
  ColumnReader(const InputFile& file, const Leaf& leaf, const RowGroup& group, const Chunk& chunk,
               const Task* task, int64_t* at);

  // False at the end of the row group. True: the levels are those of the next value.
  bool more();
  int repetition() const { return repetition_; } // 0: a row begins
  int definition() const { return definition_; }
  // Nothing for a null, or for a list without items. REQUIRES: more() was true. Valid until the next more().
  std::optional<std::string_view> take();

private:
  struct Block { // memory that is not filled before use, so that a size alone costs nothing
    std::unique_ptr<char[]> data;
    size_t capacity = 0;
    char* make(size_t size);
  };

  void load_page();
  // Parses the header at at_ and goes behind it.
  PageHeader read_header();
  std::string_view read_body(int64_t size);
  void check_crc(const PageHeader& header, std::string_view body) const;
  std::string_view unpack(std::string_view body, int64_t size, Block& to);
  void begin_dictionary(const PageHeader& header, std::string_view body);
  void begin_v1(const PageHeader& header, std::string_view body);
  void begin_v2(const PageHeader& header, std::string_view body);
  // Levels with their length in front, as in pages of version 1.
  HybridReader take_levels(std::string_view& bytes, int most, int64_t encoding);

  const InputFile& file_;
  const Leaf& leaf_;
  Chunk chunk_;
  std::string where_;
  const Task* task_;
  int64_t* reported_;
  int64_t at_, end_;      // bytes of the file that are left
  int64_t left_;          // values of the column after this page
  int64_t page_left_ = 0; // values of the page that were not looked at
  bool loaded_ = false;   // the levels are of a value that was not taken
  int repetition_ = 0, definition_ = 0;
  Block body_, page_, dictionary_page_;
  std::optional<Dictionary> dictionary_;
  HybridReader repetitions_, definitions_;
  TextValues values_;
};

} // namespace dllm::text::parquet
