// Ranks as threads: what they agree on, and what they compare.
#include "weft/train/agreement.h"

#include "tests/unit/thread_ranks.h"
#include "weft/base/progress.h"
#include "weft/train/same_on_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace weft {
namespace {

// The end of each rank: "ok", "stopped", or the text of its AgreedError.
std::vector<std::string> ends(int size, const std::function<void(const Agreement&)>& work) {
  std::vector<std::string> all(static_cast<size_t>(size));
  ThreadRanks(size, 7).run([&](Communicator& communicator) {
    std::string& end = all[size_t(communicator.rank())];
    try {
      work(Agreement(communicator));
      end = "ok";
    } catch (const Stopped&) {
      end = "stopped";
    } catch (const AgreedError& error) {
      end = join(name(error.code()), ": ", error.what());
    }
  });
  return all;
}

void expect_all(const std::vector<std::string>& ends, const std::string& text) {
  for (const std::string& end : ends) EXPECT_EQ(end, text);
}

TEST(agreement, success_and_one_error_for_all) {
  expect_all(ends(3, [](const Agreement& ranks) { ranks.all([] {}); }), "ok");
  expect_all(ends(3, [](const Agreement& ranks) { ranks.all([] { fail(ErrorCode::bad_file, "a.txt", "is missing"); }); }),
             join(name(ErrorCode::bad_file), ": a.txt: is missing"));
}

TEST(agreement, an_error_of_some_ranks_names_them) {
  const auto of = [](std::vector<int> which) {
    return ends(6, [which](const Agreement& ranks) {
      ranks.all([&] {
        const int rank = ranks.communicator().rank();
        if (std::find(which.begin(), which.end(), rank) != which.end()) fail(ErrorCode::bad_file, "a.txt", "is missing");
      });
    });
  };
  const std::string code(name(ErrorCode::bad_file));
  expect_all(of({2}), code + ": rank 2 on this process: a.txt: is missing");
  expect_all(of({0}), code + ": rank 0 on this process: a.txt: is missing");
  expect_all(of({1, 3}), code + ": ranks 1 and 3: a.txt: is missing");
  expect_all(of({0, 1, 2, 4, 5}), code + ": ranks 0, 1, 2, 4 and 1 other: a.txt: is missing");
}

TEST(agreement, different_errors_are_listed) {
  const auto found = ends(3, [](const Agreement& ranks) {
    ranks.all([&] {
      if (const int rank = ranks.communicator().rank(); rank > 0) fail(ErrorCode::bad_file, "file", "number ", rank);
    });
  });
  expect_all(found,
             join(name(ErrorCode::bad_file), ": rank 1 on this process: file: number 1\nweft: rank 2 on this process: file: number 2"));
}

TEST(agreement, errors_of_other_kinds) {
  const auto found = ends(2, [](const Agreement& ranks) { ranks.all([] { throw std::bad_alloc(); }); });
  expect_all(found, join(name(ErrorCode::device_fault), ": train: out of memory"));
}

// A failure outweighs a stop; one rank's stop is everybody's.
TEST(agreement, stops) {
  const auto stop_of = [](int which, bool failing) {
    return ends(3, [=](const Agreement& ranks) {
      ranks.all([&] {
        if (ranks.communicator().rank() == which) throw Stopped();
        if (failing) fail(ErrorCode::bad_file, "a.txt", "is missing");
      });
    });
  };
  expect_all(stop_of(0, false), "stopped");
  expect_all(stop_of(2, false), "stopped");
  expect_all(stop_of(2, true), join(name(ErrorCode::bad_file), ": ranks 0 and 1: a.txt: is missing"));
}

// Ranks without work do not turn the error of all others into one of single ranks.
TEST(agreement, some_ranks_work) {
  const auto found = ends(4, [](const Agreement& ranks) {
    ranks.some(ranks.communicator().rank() % 2 == 0, [] { fail(ErrorCode::bad_file, "a.txt", "is missing"); });
  });
  expect_all(found, join(name(ErrorCode::bad_file), ": a.txt: is missing"));
}

TEST(agreement, rank_0_reads_bytes_of_the_others) {
  std::vector<std::byte> read(3 * 5);
  const auto found = ends(3, [&](const Agreement& ranks) {
    const int rank = ranks.communicator().rank();
    ranks.first(
        [&] {
          for (int from : {2, 1, 2}) {
            const auto into = std::span(read).subspan(size_t(from) * 5, 5);
            ranks.read(from, {.item = from, .offset = 3, .bytes = 5}, into);
          }
        },
        [&](const Agreement::Request& request, std::span<std::byte> into) {
          EXPECT_EQ(request.item, rank);
          EXPECT_EQ(int64_t(into.size()), request.bytes);
          std::memset(into.data(), rank * 10 + int(request.offset), into.size());
        });
  });
  expect_all(found, "ok");
  EXPECT_EQ(read[5], std::byte{13});
  EXPECT_EQ(read[14], std::byte{23});
}

TEST(agreement, an_error_of_rank_0_is_everybodys) {
  const auto found = ends(3, [](const Agreement& ranks) {
    ranks.first([] { fail(ErrorCode::bad_file, "out", "disk full"); }, [](const Agreement::Request&, std::span<std::byte>) {});
  });
  expect_all(found, join(name(ErrorCode::bad_file), ": out: disk full"));
}

// Work of a second that reports progress: the others hear of it, and the values of rank 0 are everybody's.
TEST(agreement, signs_of_life_and_values) {
  const auto found = ends(3, [](const Agreement& ranks) {
    ranks.first([] {
      for (int i = 0; i < 20; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(40));
        report_progress({.what = "work", .done = i, .total = 20});
      }
    });
    EXPECT_EQ(ranks.of_first(ranks.communicator().first() ? 5 : 6), 5);
  });
  expect_all(found, "ok");
}

// All work for different times and report progress: rank 0 passes on what it hears while others wait already. Messages stay in step.
TEST(agreement, signs_of_life_of_every_rank) {
  for (const int slowest : {0, 1, 3}) {
    const auto found = ends(4, [&](const Agreement& ranks) {
      const int rank = ranks.communicator().rank(), reports = rank == slowest ? 20 : 5 * rank;
      ranks.all([&] {
        for (int i = 0; i < reports; ++i) {
          std::this_thread::sleep_for(std::chrono::milliseconds(40));
          report_progress({.what = "work", .done = i, .total = reports});
        }
      });
      EXPECT_EQ(ranks.communicator().all_gather_values(rank), (std::vector<int>{0, 1, 2, 3}));
    });
    expect_all(found, "ok");
  }
}

TEST(agreement, one_process_keeps_its_errors) {
  const Agreement one(alone());
  EXPECT_THROW(one.all([] { throw std::out_of_range("x"); }), std::out_of_range);
  EXPECT_THROW(one.first([] { throw Stopped(); }), Stopped);
  try {
    one.all([] { fail(ErrorCode::bad_file, "a", "b"); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(dynamic_cast<const AgreedError*>(&error), nullptr);
  }
}

TEST(same_on_ranks, the_first_difference_is_named) {
  const auto found = ends(3, [](const Agreement& ranks) {
    const int rank = ranks.communicator().rank();
    check_same(ranks.communicator(), {{"build", "weft 1"}, {"setting seed", rank == 2 ? "5" : "0"}, {"data", join(rank)}});
  });
  expect_all(found, join(name(ErrorCode::invalid_argument),
                         ": train: ranks must have the same setting seed: rank 0 on this process has 0, rank 2 on this process has 5"));
  expect_all(ends(2, [](const Agreement& ranks) { check_same(ranks.communicator(), {{"a", ""}, {"b:", "1:2"}}); }), "ok");
  const auto fewer = ends(2, [](const Agreement& ranks) {
    check_same(ranks.communicator(), ranks.communicator().first() ? std::vector<Fact>{{"a", "1"}} : std::vector<Fact>{});
  });
  expect_all(fewer, join(name(ErrorCode::invalid_argument),
                         ": train: ranks must have the same a: rank 0 on this process has 1, rank 1 on this process has none"));
}

TEST(same_on_ranks, facts_of_a_rank) {
  const auto build = build_facts();
  ASSERT_EQ(build.size(), 2u);
  EXPECT_NE(build[0].value.find("weft "), std::string::npos);
  TrainConfig config;
  const auto names = setting_facts(config);
  const auto has = [&](const char* key) {
    return std::any_of(names.begin(), names.end(), [&](const Fact& fact) { return fact.name == join("setting ", key); });
  };
  for (const char* key : {"seed", "batch", "model", "shard", "timeout"}) EXPECT_TRUE(has(key)) << key;
  for (const char* key : {"data", "device", "threads", "cache"}) EXPECT_FALSE(has(key)) << key;
}

}  // namespace
}  // namespace weft
