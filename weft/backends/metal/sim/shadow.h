// Shadow memory of all accesses: finds races, reads of unwritten threadgroup memory, and accesses out of bounds.
//
// Two accesses of which one writes are ordered if one thread made both, or if a barrier for that memory is between them:
// threadgroup_barrier for the whole group, simdgroup_barrier for its simdgroup. Only the end of the dispatch orders two groups. Atomic
// accesses do not race with each other.
//
// For each cell of memory the last write and two reads since are kept. That is enough: if any read races with a later write, one of the two
// does. The reads are of different groups, else of different simdgroups, else the latest of different threads.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace weft::metal::sim {

enum class Memory : int { device = 0, threadgroup = 1 };

// A thread at one moment. An epoch counts the barriers it has passed.
struct Toucher {
  uint32_t group, index;
  std::array<uint32_t, 2> epoch, simd_epoch;  // by Memory
};

// An error found; `code` are the instructions to report by file and line, or null.
struct Finding {
  std::string what;  // %1 and %2 are replaced by the places
  std::array<const void*, 2> code{};
};

// Bytes of the host's memory that one instruction of a launch wrote, or read and did not write.
struct Touched {
  const char *begin, *end;
  bool written;
  const void* code;
};

class Shadow {
 public:
  class Block;  // memory that several bindings may share

  void begin_launch();
  void begin_group();  // discards threadgroup memory
  // `host`: the host's address of these bytes of device memory; null: they belong to this launch alone.
  std::shared_ptr<Block> add_block(const char* host, uint64_t bytes);
  // Adds a binding: `bytes` of the block from `offset` on, which kernels see at `begin`.
  struct Binding {
    const char* begin;
    uint64_t bytes;
    std::string name;
    std::shared_ptr<Block> block;
    uint64_t offset;
    bool read_only;
  };
  void add(const Binding& binding);
  void add_variable(const char* begin, uint64_t bytes, const std::string& name);
  void add_unbound(const char* begin, const std::string& name);

  // False: the access is out of bounds and must not happen; a finding says where.
  bool access(const Toucher& who, const void* address, uint64_t bytes, int access, const void* code);

  const std::vector<Finding>& findings() const { return findings_; }
  // The launch's accesses to the host's memory, in order of address.
  std::vector<Touched> touched() const;

 private:
  struct Record {
    uint32_t thread = 0;  // group * 1024 + index + 1; 0: none
    uint32_t epoch = 0, simd_epoch = 0;
    bool atomic = false;
    const void* code = nullptr;
  };
  struct Cell {
    Record write, read[2];
  };
  struct Region : Binding {
    Memory memory;
    bool bound = true;
  };

  Region* find(std::vector<Region>& regions, const char* address, uint64_t bytes);
  void touch(const Region& region, Cell& cell, const Record& now, bool writes, uint64_t offset);
  static bool ordered(const Record& before, const Record& now);
  static void keep(Cell& cell, const Record& now);
  void race(const Region& region, const Record& before, const char* did, const Record& now, const char* does, uint64_t offset);
  void outside(const Toucher& who, const char* address, uint64_t bytes, bool writes, const void* code);
  void found(int kind, const std::string& what, const void* first, const void* second = nullptr);

  std::vector<Region> device_, threadgroup_;
  std::vector<std::shared_ptr<Block>> shared_;  // shared with the host
  std::vector<Finding> findings_;
  std::set<std::tuple<int, const void*, const void*>> known_;
};

}  // namespace weft::metal::sim
