#include "base/files.h"

#include "unit/test_files.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

namespace dllm {
namespace {

using test::expect_error;
using test::TempFolder;

// Every reader of small files, of large ones, and of mapped ones.
void expect_refused(const std::string& path, const std::string& kind) {
  const std::string text = path + " is not a regular file: it is " + kind;
  expect_error(Code::invalid_argument, text, [&] { read_text(path); });
  expect_error(Code::invalid_argument, text, [&] { open_content(path); });
  expect_error(Code::invalid_argument, text, [&] { map_file(path); });
  expect_error(Code::invalid_argument, text, [&] { file_stamp(path); });
}

TEST(InputFile, ChecksBeforeItOpens) {
  const TempFolder folder;
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_refused(pipe, "a pipe"); // opening it for reading would wait for a writer
  expect_refused("/dev/zero", "a device");
  expect_refused(folder.path(), "a folder");

  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string socket = folder.path("s");
  ASSERT_LT(socket.size(), sizeof address.sun_path);
  std::strcpy(address.sun_path, socket.c_str());
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  expect_refused(socket, "a socket");
  ::close(fd);
}

TEST(InputFile, APipeInAModelFolderIsNamed) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("config.json").c_str(), 0600), 0);
  const auto source = open_source(folder.path());
  expect_error(Code::invalid_argument, "config.json is not a regular file: it is a pipe",
               [&] { source->open("config.json"); });
  expect_error(Code::invalid_argument, "it is a pipe",
               [&] { open_source(folder.path("config.json")); });
}

TEST(InputFile, AFileThatShrinksIsAnErrorOfTheRead) {
  const TempFolder folder;
  const std::string path = folder.path("a");
  write_file_atomic(path, std::string(1 << 20, 'x'));
  const ContentRef content = open_content(path);
  EXPECT_EQ(content->read(10, 4).text(), "xxxx");
  ASSERT_EQ(::truncate(path.c_str(), 4096), 0);
  expect_error(Code::data_loss,
               path + " changed while it was in use: 1048576 bytes when it was opened, now 4096",
               [&] { content->read(0, 1 << 20); });
  expect_error(Code::data_loss, "changed while it was in use", [&] { content->read(0, 16); });
}

TEST(InputFile, AFileThatIsWrittenToIsAnErrorOfTheRead) {
  const TempFolder folder;
  const std::string path = folder.path("a");
  write_file_atomic(path, "before");
  const InputFile file(path);
  const FileStamp stamp = file_stamp(path);
  EXPECT_NO_THROW(check_stamp(path, stamp));
  const int fd = ::open(path.c_str(), O_WRONLY);
  ASSERT_EQ(::write(fd, "behind", 6), 6);
  const timespec times[2] = {{1, 0}, {1, 0}}; // clocks of files are coarse
  ASSERT_EQ(::futimens(fd, times), 0);
  ::close(fd);
  expect_error(Code::data_loss, "it was written to after it was opened", [&] { file.read(0, 6); });
  expect_error(Code::data_loss, path + " changed", [&] { check_stamp(path, stamp); });
}

TEST(InputFile, AReadBeyondTheEndIsAnError) {
  const TempFolder folder;
  const std::string path = folder.path("a");
  write_file_atomic(path, "before");
  expect_error(Code::data_loss, path + " ended 2 bytes into a read of 4 at 4; its size is 6",
               [&] { InputFile(path).read(4, 4); });
}

// Downloads and saves put a new file in the place of the old one: who has the old one open keeps
// it.
TEST(InputFile, AFileThatIsReplacedReadsOn) {
  const TempFolder folder;
  const std::string path = folder.path("a");
  write_file_atomic(path, "before");
  const InputFile file(path);
  write_file_atomic(path, "behind");
  EXPECT_EQ(file.read(0, 6).text(), "before");
  expect_error(Code::data_loss, path + " changed", [&] { check_stamp(path, file.stamp()); });
  remove_all(path);
  EXPECT_EQ(file.read(0, 6).text(), "before");
  EXPECT_NO_THROW(check_stamp(path, file.stamp())) << "a removed file counts as unchanged";
}

} // namespace
} // namespace dllm
