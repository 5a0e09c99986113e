#pragma once
// A ColumnReader reads the values of one column in one row group. It keeps one page and the
// dictionary in memory.

#include "text/parquet/encodings.h"
#include "text/parquet/footer.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace dllm::text::parquet {

constexpr int64_t kMaxPage = int64_t{256} << 20; // bytes, both compressed and decompressed
constexpr int64_t kMaxPageValues = int64_t{16} << 20;

struct PageHeader;

class ColumnReader {
public:
  // File, leaf and task outlive the reader. at: null, or gets the last byte of the file that was
  // read. Reading fails with data_loss, unimplemented, or resource_exhausted for a page above
  // kMaxPage, naming file, column and row group. REQUIRES: leaf.type is Physical::bytes.
  ColumnReader(const InputFile& file, const Leaf& leaf, const RowGroup& group, const Chunk& chunk,
               const Task* task, int64_t* at);

  // Moves to the next value and sets its levels. Returns false at the end of the row group.
  bool more();
  int repetition() const { return repetition_; } // 0: the value begins a row
  int definition() const { return definition_; }
  // Returns the value, or nothing for a null or a list without items. Valid until the next more().
  // REQUIRES: more() returned true.
  std::optional<std::string_view> take();

private:
  // Memory that is not initialized, so that a large size in a damaged file costs nothing.
  struct Block {
    std::unique_ptr<char[]> data;
    size_t capacity = 0;
    char* make(size_t size);
  };

  void load_page();
  // Parses the page header at at_ and moves at_ to its end.
  PageHeader read_header();
  std::string_view read_body(int64_t size);
  void check_crc(const PageHeader& header, std::string_view body) const;
  std::string_view unpack(std::string_view body, int64_t size, Block& to);
  void begin_dictionary(const PageHeader& header, std::string_view body);
  void begin_v1(const PageHeader& header, std::string_view body);
  void begin_v2(const PageHeader& header, std::string_view body);
  // Takes levels that follow their length, as in pages of version 1.
  HybridReader take_levels(std::string_view& bytes, int most, int64_t encoding);

  const InputFile& file_;
  const Leaf& leaf_;
  Chunk chunk_;
  std::string where_;
  const Task* task_;
  int64_t* reported_;
  int64_t at_, end_;      // bytes [at_, end_) of the file are unread
  int64_t left_;          // values of the column after this page
  int64_t page_left_ = 0; // values of this page that more() did not reach
  bool loaded_ = false;   // more() returned true and take() was not called
  int repetition_ = 0, definition_ = 0;
  Block body_, page_, dictionary_page_;
  std::optional<Dictionary> dictionary_;
  HybridReader repetitions_, definitions_;
  TextValues values_;
};

} // namespace dllm::text::parquet
