// A shard of tokenised data: a file of ids with the places where documents begin, written whole or not at all, and mapped to be read.
// Not installed.
//
//   128 bytes          ShardHeader
//   count ids          2 bytes each if the vocabulary has at most 65536 ids, else 4; then zeros up to a multiple of 8 bytes
//   documents x 4      the first id of each document that begins in the shard, counted from the shard's first id; zeros up to 8 bytes
//   files x 16         number and hash (hash_of_file) of the files that were read to their end
//
// The header also holds the state in which tokenising goes on behind the shard, so that a killed preparation continues there.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/data/tokenise.h"
#include "weft/io/atomic_file.h"
#include "weft/io/mapped_file.h"

namespace weft {

struct ShardHeader {
  char magic[8];
  uint32_t width;   // bytes per id
  int32_t largest;  // id
  uint64_t count, documents, files;
  uint64_t hash;    // of all after the header, in blocks of 1 MiB
  uint64_t inputs;  // hash of the description of data and vocabulary
  uint64_t number;  // 0, 1, 2, ...
  int64_t next_file, next_offset, next_count;
  uint8_t first, separated, conversations, unused[5];
  uint64_t content;  // of all ids and documents up to the shard's end, whatever the shards
  uint64_t reserved[2];
  uint64_t check;  // hash of the header before it
};
static_assert(sizeof(ShardHeader) == 128);

std::string shard_name(int64_t number);  // "shard-00000.tokens"

// Collects the ids of one shard and writes them to a file as they come.
class ShardWriter {
 public:
  ShardWriter(const std::string& folder, int64_t number, uint32_t width, uint64_t inputs, uint64_t content);

  void add(std::span<const int32_t> ids);
  void begin_document();
  void end_file(int64_t file, uint64_t hash) { files_.insert(files_.end(), {uint64_t(file), hash}); }
  int64_t count() const { return int64_t(header_.count); }
  int64_t documents() const { return int64_t(begins_.size()); }
  uint64_t content() const { return header_.content; }

  // The file appears under its name.
  void commit(const TokeniserState& next);

 private:
  void append(std::span<const std::byte> bytes);
  void pad();
  void write_block();

  AtomicFile file_;
  ShardHeader header_{};
  std::vector<std::byte> block_;
  std::vector<uint16_t> narrow_;
  std::vector<uint32_t> begins_;
  std::vector<uint64_t> files_;
};

// A mapped shard.
class TokenShard {
 public:
  // Null if the file is missing or its header and size are not those of a shard. `whole`: also if its contents do not have their hash.
  static std::unique_ptr<TokenShard> open(const std::string& folder, int64_t number, bool whole);

  const ShardHeader& header() const { return header_; }
  int64_t count() const { return int64_t(header_.count); }
  int64_t documents() const { return int64_t(header_.documents); }
  int32_t operator[](int64_t i) const { return header_.width == 2 ? int32_t(narrow_[i]) : wide_[i]; }
  int64_t document_begin(int64_t d) const { return begins_[d]; }
  std::span<const uint64_t> files() const { return files_; }  // number, hash, number, hash, ...
  TokeniserState next() const;

 private:
  explicit TokenShard(const std::string& path) : file_(path) {}
  bool read_header(bool whole);

  MappedFile file_;
  ShardHeader header_;
  const uint16_t* narrow_ = nullptr;
  const int32_t* wide_ = nullptr;
  const uint32_t* begins_ = nullptr;
  std::span<const uint64_t> files_;
};

}  // namespace weft
