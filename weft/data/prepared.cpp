#include "weft/data/prepared.h"

#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <set>
#include <thread>

#include "weft/base/check.h"
#include "weft/base/progress.h"
#include "weft/data/data_files.h"
#include "weft/data/data_list.h"
#include "weft/io/atomic_file.h"
#include "weft/io/checksum.h"
#include "weft/io/json.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Ordered = nlohmann::ordered_json;

constexpr int64_t kFormat = 1;

std::string hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", (unsigned long long)value);
  return text;
}

uint64_t hash_at(const JsonNode& node, const char* key) {
  const JsonNode value = node.at(key);
  const std::string text = value.text();
  uint64_t hash = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), hash, 16);
  if (error != std::errc() || end != text.data() + text.size()) value.refuse("is ", shown(text), ", expected hexadecimal digits");
  return hash;
}

Ordered json_of(const Inputs& inputs, bool hashes) {
  Ordered files = Ordered::array();
  for (const SourceFile& file : inputs.files) {
    files.push_back(
        {{"path", file.path}, {"bytes", file.stamp.bytes}, {"modified", file.stamp.modified}, {"fingerprint", hex(file.fingerprint)}});
    if (hashes) files.back()["hash"] = hex(file.hash);
  }
  return {{"format", kFormat},
          {"data", inputs.list},
          {"field", inputs.field},
          {"chat_template", hex(inputs.chat_template)},
          {"vocabulary", {{"kind", inputs.vocabulary_kind}, {"size", inputs.vocabulary_size}, {"hash", hex(inputs.vocabulary_hash)}}},
          {"files", std::move(files)}};
}

Inputs read_inputs(const JsonNode& root) {
  if (const int64_t format = root.at("format").integer(); format != kFormat)
    root.at("format").refuse("is ", format, ", expected ", kFormat, ": the data was prepared by another version; prepare it again");
  Inputs inputs{.list = root.at("data").text(), .field = root.at("field").text(), .chat_template = hash_at(root, "chat_template")};
  const JsonNode vocabulary = root.at("vocabulary");
  inputs.vocabulary_kind = vocabulary.at("kind").text();
  inputs.vocabulary_size = vocabulary.at("size").integer(1, INT32_MAX);
  inputs.vocabulary_hash = hash_at(vocabulary, "hash");
  for (const JsonNode& file : root.at("files").list().elements())
    inputs.files.push_back({.path = file.at("path").text(),
                            .stamp = {file.at("bytes").integer(), file.at("modified").integer(INT64_MIN)},
                            .fingerprint = hash_at(file, "fingerprint"),
                            .hash = file.find("hash") ? hash_at(file, "hash") : 0});
  return inputs;
}

std::string path_in(const std::string& folder, const char* name) { return (fs::path(folder) / name).string(); }

// JSON holds UTF-8 only; other bytes in the name of a file are replaced.
std::string dumped(const Ordered& json) { return json.dump(1, ' ', false, Ordered::error_handler_t::replace) + "\n"; }

std::string added_or_gone(const std::vector<SourceFile>& before, const std::vector<SourceFile>& now) {
  const auto first_without = [](const std::vector<SourceFile>& files, const std::vector<SourceFile>& others) {
    std::set<std::string_view> names;
    for (const SourceFile& file : others) names.insert(file.path);
    for (const SourceFile& file : files)
      if (!names.contains(file.path)) return file.path;
    return files.back().path;
  };
  return now.size() > before.size() ? first_without(now, before) + " is new" : first_without(before, now) + " is gone";
}

// The same list from any folder.
std::string absolute_list(const std::string& list) {
  std::string whole;
  for (const DataItem& item : data_items(list))
    whole += join(whole.empty() ? "" : ",", fs::absolute(item.path).lexically_normal().string());
  return whole;
}

void create_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    fail(ErrorCode::bad_file, folder, "the folder of tokens cannot be created: ", error.message(), "; choose another one (--cache, --out)");
}

}  // namespace

// The process that is waited for may remove the folder.
std::unique_ptr<FolderLock> lock_prepared(const std::string& folder, const std::function<void(const std::string&)>& notice) {
  for (bool told = false;; told = true) {
    create_folder(folder);
    if (auto lock = FolderLock::try_lock(folder)) return lock;
    if (!told && notice) notice(join("another process prepares ", folder, ": waiting for it"));
    report_progress({.what = "waiting for another process"});
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

uint64_t vocabulary_hash(const Vocabulary& vocabulary) {
  const std::string kind = vocabulary.kind();
  return xxh64(std::as_bytes(std::span(kind)), vocabulary.hash());
}

Inputs inputs_of(const Documents& documents, const Vocabulary& vocabulary) {
  Inputs inputs{.list = absolute_list(documents.list()), .field = documents.field(), .chat_template = documents.template_identity()};
  inputs.vocabulary_kind = vocabulary.kind();
  inputs.vocabulary_size = vocabulary.size();
  inputs.vocabulary_hash = vocabulary_hash(vocabulary);
  for (const DataFile& file : documents.listed())
    inputs.files.push_back(
        {.path = fs::absolute(file.path).lexically_normal().string(), .stamp = file.stamp, .fingerprint = fingerprint_of(file.path)});
  return inputs;
}

std::string cache_name(const Inputs& inputs, const std::string& of) {
  uint64_t hash = xxh64(std::as_bytes(std::span(inputs.field)), inputs.chat_template);
  for (const SourceFile& file : inputs.files) {
    const Kind kind = kind_of(file.path) == Kind::unknown ? Kind::text : kind_of(file.path);
    const uint64_t facts[] = {uint64_t(kind), uint64_t(coding_of(file.path)), uint64_t(file.stamp.bytes), file.fingerprint};
    hash = xxh64(std::as_bytes(std::span(facts)), hash);
  }
  return join(of, "-", hex(hash), "-", hex(inputs.vocabulary_hash));
}

bool is_prepared(const std::string& folder) { return fs::exists(path_in(folder, kPrepared)); }
bool is_preparing(const std::string& folder) { return !is_prepared(folder) && fs::exists(path_in(folder, kPreparing)); }

Inputs read_preparing(const std::string& folder) {
  const std::string path = path_in(folder, kPreparing);
  const Json json = read_json(path);
  return read_inputs(JsonNode(path, json));
}

Prepared read_prepared(const std::string& folder) {
  const std::string path = path_in(folder, kPrepared);
  const Json json = read_json(path);
  const JsonNode root(path, json);
  Prepared prepared{.inputs = read_inputs(root), .conversations = root.at("conversations").boolean()};
  if (const auto tokenizer = root.find("tokenizer")) {
    prepared.copy_hash = hash_at(*tokenizer, "hash");
    prepared.end_token = tokenizer->at("end_token").text();
  }
  for (const JsonNode& shard : root.at("shards").list().elements())
    prepared.shards.push_back({shard.at("tokens").integer(), shard.at("documents").integer(), hash_at(shard, "hash")});
  return prepared;
}

void write_prepared(const std::string& folder, const Prepared& prepared) {
  Ordered json = json_of(prepared.inputs, true);
  json["conversations"] = prepared.conversations;
  if (prepared.copy_hash != 0) json["tokenizer"] = {{"hash", hex(prepared.copy_hash)}, {"end_token", prepared.end_token}};
  json["shards"] = Ordered::array();
  for (const ShardFacts& shard : prepared.shards)
    json["shards"].push_back({{"tokens", shard.tokens}, {"documents", shard.documents}, {"hash", hex(shard.hash)}});
  AtomicFile file(path_in(folder, kPrepared));
  file.write(dumped(json));
  file.commit();
}

void write_prepared_if_possible(const std::string& folder, const Prepared& prepared) {
  try {
    write_prepared(folder, prepared);
  } catch (const Error&) {
  }
}

void write_preparing(const std::string& folder, const Inputs& inputs) {
  AtomicFile file(path_in(folder, kPreparing));
  file.write(dumped(json_of(inputs, false)));
  file.commit();
}

std::string difference(Inputs& before, const Inputs& now, bool conversations) {
  if (before.vocabulary_hash != now.vocabulary_hash) return "the tokenizer is another one";
  if (before.field != now.field) return join("the field was \"", before.field, "\", and is \"", now.field, "\" now");
  if (conversations && before.chat_template != now.chat_template) return "the chat template is another one";
  return changed(before.files, now.files);
}

std::string changed(std::vector<SourceFile>& before, const std::vector<SourceFile>& now) {
  if (before.size() != now.size()) return added_or_gone(before, now);
  for (size_t i = 0; i < before.size(); ++i) {
    SourceFile& old = before[i];
    const SourceFile& file = now[i];
    if (old.stamp.bytes != file.stamp.bytes) return join(file.path, " had ", old.stamp.bytes, " bytes, and has ", file.stamp.bytes, " now");
    if (old.fingerprint != file.fingerprint) return join(file.path, " has other contents now");
    if (old.stamp.modified == file.stamp.modified) continue;
    if (old.hash == 0) return join(file.path, " was modified meanwhile");
    if (hash_of_file(file.path) != old.hash) return join(file.path, " has other contents now");
    old.stamp = file.stamp;
  }
  return "";
}

}  // namespace weft
