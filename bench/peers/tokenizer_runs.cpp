// Weft's side of bench/peers/tokenizers_bench.py; prints JSON lines:
//   bench_tokenizer speed FOLDER FILE THREADS ROUNDS   best seconds: to encode the file's paragraphs one by one, the file as one text, and
//                                                      the file as training data on THREADS threads
//   bench_tokenizer encode FOLDER TEXTS.json           ids and decoded texts of a list of texts; the places where each can be cut, and how
//                                                      many of them change its ids (none should)
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "weft/base/error.h"
#include "weft/data/tokenise.h"
#include "weft/io/tokenizer/tokenizer.h"

namespace {

using nlohmann::json;
using namespace weft;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

// Paragraphs end at an empty line.
std::vector<std::string> paragraphs(const std::string& text) {
  std::vector<std::string> found;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find("\n\n", at), text.size());
    found.push_back(text.substr(at, end - at));
    at = std::min(end + 2, text.size());
  }
  return found;
}

double best_seconds(int rounds, const std::function<void()>& body) {
  double best = 1e30;
  for (int i = 0; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

struct Counter : TokenSink {
  size_t ids = 0;
  void add(std::span<const int32_t> more) override { ids += more.size(); }
  void begin_document() override {}
};

void speed(const std::string& folder, const std::string& file, int threads, int rounds) {
  const Tokenizer tokenizer = Tokenizer::load(folder);
  const std::string text = contents(file);
  const std::vector<std::string> parts = paragraphs(text);
  size_t ids = 0, data_ids = 0;
  const double by_parts = best_seconds(rounds, [&] {
    ids = 0;
    for (const std::string& part : parts) ids += tokenizer.encode(part, false).size();
  });
  const double whole = best_seconds(rounds, [&] { tokenizer.encode(text, false); });
  const auto vocabulary = tokenizer_vocabulary(folder, "none");
  const double data = best_seconds(rounds, [&] {
    Counter counter;
    tokenise(Documents(file), *vocabulary, {threads}, counter);
    data_ids = counter.ids;
  });
  std::cout << json{{"bytes", text.size()}, {"ids", ids},   {"paragraphs", by_parts},
                    {"whole", whole},       {"data", data}, {"data_ids", data_ids}}
            << "\n";
}

// The number of places where the text can be cut, and of those that change its ids.
std::pair<int, int> cuts(const Tokenizer& tokenizer, std::string_view text) {
  const std::vector<int32_t> whole = tokenizer.encode(text, false, Tokenizer::Unknown::left_out);
  int places = 0, wrong = 0;
  for (size_t at = text.size(); (at = tokenizer.cut(text, at - (at > 0)));) {
    std::vector<int32_t> ids = tokenizer.encode(text.substr(0, at), false);
    const std::vector<int32_t> rest = tokenizer.encode_rest(text.substr(at));
    ids.insert(ids.end(), rest.begin(), rest.end());
    ++places;
    wrong += ids != whole;
  }
  return {places, wrong};
}

void encode(const std::string& folder, const std::string& file) {
  const Tokenizer tokenizer = Tokenizer::load(folder);
  for (const json& text : json::parse(contents(file))) {
    const std::vector<int32_t> ids = tokenizer.encode(text.get<std::string>(), true, Tokenizer::Unknown::left_out);
    StreamingDecoder stream(tokenizer);
    std::string streamed;
    for (const int32_t id : ids) streamed += stream.push(id);
    const auto [places, wrong] = cuts(tokenizer, text.get<std::string>());
    std::cout << json{{"ids", ids},       {"decoded", tokenizer.decode(ids)},       {"skipped", tokenizer.decode(ids, true)},
                      {"places", places}, {"streamed", streamed + stream.finish()}, {"wrong_cuts", wrong}}
              << "\n";
  }
}

}  // namespace

int main(int count, char** words) try {
  const std::string what = count > 1 ? words[1] : "";
  if (what == "speed" && count == 6)
    speed(words[2], words[3], std::stoi(words[4]), std::stoi(words[5]));
  else if (what == "encode" && count == 4)
    encode(words[2], words[3]);
  else
    return std::cerr << "usage: bench_tokenizer speed FOLDER FILE THREADS ROUNDS | encode FOLDER TEXTS.json\n", 2;
} catch (const weft::Error& error) {
  std::cerr << error.what() << "\n";
  return 2;
}
