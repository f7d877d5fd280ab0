#include "weft/data/token_shard.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "weft/base/check.h"
#include "weft/base/progress.h"
#include "weft/io/checksum.h"

namespace weft {
namespace {

constexpr char kMagic[8] = {'W', 'E', 'F', 'T', 'T', 'O', 'K', '3'};
constexpr size_t kBlock = size_t(1) << 20;
constexpr uint64_t kMost = uint64_t(1) << 32;  // ids and documents of a shard

uint64_t check_of(const ShardHeader& header) { return xxh64(std::as_bytes(std::span(&header, 1)).first(offsetof(ShardHeader, check))); }

// A polynomial in an odd number, modulo 2^64: goes on from any id.
uint64_t continued(uint64_t content, uint64_t next) { return content * 0x9E3779B97F4A7C15u + next; }

size_t padded(size_t bytes) { return (bytes + 7) / 8 * 8; }

uint64_t hash_of(std::span<const std::byte> bytes) {
  uint64_t hash = 0;
  const auto tell = report_bytes("checking tokens", bytes.size());
  for (size_t at = 0; at < bytes.size(); at += kBlock) {
    hash = xxh64(bytes.subspan(at, std::min(kBlock, bytes.size() - at)), hash);
    tell(int64_t(at));
  }
  return hash;
}

std::string path_in(const std::string& folder, int64_t number) { return (std::filesystem::path(folder) / shard_name(number)).string(); }

}  // namespace

std::string shard_name(int64_t number) {
  char name[40];
  std::snprintf(name, sizeof name, "shard-%05lld.tokens", (long long)number);
  return name;
}

ShardWriter::ShardWriter(const std::string& folder, int64_t number, uint32_t width, uint64_t inputs, uint64_t content)
    : file_(path_in(folder, number)) {
  std::memcpy(header_.magic, kMagic, sizeof kMagic);
  header_.width = width;
  header_.inputs = inputs;
  header_.number = uint64_t(number);
  header_.content = content;
  block_.reserve(kBlock);
  file_.write(std::as_bytes(std::span(&header_, 1)));
}

void ShardWriter::add(std::span<const int32_t> ids) {
  header_.count += ids.size();
  check(header_.count < kMost, file_.path(), "a shard would have more than 4294967295 ids");
  for (const int32_t id : ids) {
    header_.largest = std::max(header_.largest, id);
    header_.content = continued(header_.content, uint64_t(id) + 1);
  }
  if (header_.width == 4) return append(std::as_bytes(ids));
  narrow_.assign(ids.begin(), ids.end());
  append(std::as_bytes(std::span(narrow_)));
}

void ShardWriter::begin_document() {
  begins_.push_back(uint32_t(header_.count));
  header_.content = continued(header_.content, uint64_t(1) << 40);  // no id
}

void ShardWriter::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t some = std::min(bytes.size(), kBlock - block_.size());
    block_.insert(block_.end(), bytes.begin(), bytes.begin() + ptrdiff_t(some));
    bytes = bytes.subspan(some);
    if (block_.size() == kBlock) write_block();
  }
}

void ShardWriter::pad() {
  constexpr std::byte kZeros[8] = {};
  append(std::span(kZeros).first(padded(block_.size()) - block_.size()));
}

void ShardWriter::write_block() {
  header_.hash = xxh64(block_, header_.hash);
  file_.write(block_);
  block_.clear();
}

void ShardWriter::commit(const TokeniserState& next) {
  pad();
  append(std::as_bytes(std::span(begins_)));
  pad();
  append(std::as_bytes(std::span(files_)));
  if (!block_.empty()) write_block();
  header_.documents = begins_.size();
  header_.files = files_.size() / 2;
  header_.next_file = next.position.file;
  header_.next_offset = next.position.offset;
  header_.next_count = next.position.count;
  header_.first = next.first;
  header_.separated = next.separated;
  header_.conversations = next.conversations;
  header_.check = check_of(header_);
  file_.write_at(0, std::as_bytes(std::span(&header_, 1)));
  file_.commit();
}

std::unique_ptr<TokenShard> TokenShard::open(const std::string& folder, int64_t number, bool whole) {
  const std::string path = path_in(folder, number);
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return nullptr;
  std::unique_ptr<TokenShard> shard(new TokenShard(path));
  const bool good = shard->read_header(whole) && shard->header_.number == uint64_t(number);
  return good ? std::move(shard) : nullptr;
}

bool TokenShard::read_header(bool whole) {
  const auto bytes = file_.bytes();
  if (bytes.size() < sizeof header_) return false;
  std::memcpy(&header_, bytes.data(), sizeof header_);
  if (std::memcmp(header_.magic, kMagic, sizeof kMagic) != 0 || header_.check != check_of(header_)) return false;
  const auto rest = bytes.subspan(sizeof header_);
  if ((header_.width != 2 && header_.width != 4) || header_.count >= kMost || header_.documents >= kMost || header_.files >= kMost)
    return false;
  const size_t ids = padded(header_.count * header_.width), begins = padded(header_.documents * sizeof(uint32_t));
  if (rest.size() != ids + begins + header_.files * 2 * sizeof(uint64_t)) return false;
  narrow_ = reinterpret_cast<const uint16_t*>(rest.data());
  wide_ = reinterpret_cast<const int32_t*>(rest.data());
  begins_ = reinterpret_cast<const uint32_t*>(rest.data() + ids);
  files_ = {reinterpret_cast<const uint64_t*>(rest.data() + ids + begins), size_t(header_.files * 2)};
  if (header_.documents > 0 && begins_[header_.documents - 1] > header_.count) return false;
  return std::is_sorted(begins_, begins_ + header_.documents) && (!whole || hash_of(rest) == header_.hash);
}

TokeniserState TokenShard::next() const {
  return {.position = {header_.next_file, header_.next_offset, header_.next_count},
          .first = header_.first != 0,
          .separated = header_.separated != 0,
          .conversations = header_.conversations != 0};
}

}  // namespace weft
