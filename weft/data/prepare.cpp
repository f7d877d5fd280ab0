#include "weft/data/prepare.h"

#include <filesystem>

#include "weft/base/check.h"
#include "weft/base/parallel.h"
#include "weft/data/prepared.h"
#include "weft/data/token_shard.h"
#include "weft/io/atomic_file.h"
#include "weft/io/checksum.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

uint64_t hash_of(const Inputs& inputs) {
  const std::string name = cache_name(inputs);
  return xxh64(std::as_bytes(std::span(name)));
}

// Writes ids into shards.
class ShardSink : public TokenSink {
 public:
  ShardSink(const std::string& folder, const Inputs& inputs, int64_t number, int64_t shard_tokens, uint64_t content)
      : folder_(folder),
        inputs_(hash_of(inputs)),
        width_(inputs.vocabulary_size <= 65536 ? 2 : 4),
        number_(number),
        most_(shard_tokens),
        content_(content) {}

  void add(std::span<const int32_t> ids) override {
    if (!ids.empty()) writer().add(ids);
  }
  void begin_document() override { writer().begin_document(); }
  void end_file(int64_t file, uint64_t hash) override { writer().end_file(file, hash); }
  void pass(const TokeniserState& state) override {
    state_ = state;
    if (writer_ && (writer_->count() >= most_ || writer_->documents() >= most_)) close();
  }
  void finish() {
    if (writer_) close();
  }

 private:
  ShardWriter& writer() {
    if (!writer_) writer_ = std::make_unique<ShardWriter>(folder_, number_, width_, inputs_, content_);
    return *writer_;
  }
  void close() {
    writer_->commit(state_);
    content_ = writer_->content();
    writer_.reset();
    ++number_;
  }

  const std::string folder_;
  const uint64_t inputs_;
  const uint32_t width_;
  int64_t number_;
  const int64_t most_;
  uint64_t content_;
  TokeniserState state_;
  std::unique_ptr<ShardWriter> writer_;
};

class Preparation {
 public:
  Preparation(const Documents& documents, const Vocabulary& vocabulary, const std::string& folder, const PrepareOptions& options)
      : documents_(documents), vocabulary_(vocabulary), folder_(folder), options_(options), inputs_(inputs_of(documents, vocabulary)) {}

  PrepareOutcome run() {
    const auto lock = lock_prepared(folder_, options_.notice);
    refuse_other_files();
    if (is_prepared(folder_) && !check_prepared()) return outcome(int64_t(read_prepared(folder_).shards.size()));
    if (is_preparing(folder_)) check_preparing();
    remove_incomplete(folder_);
    write_preparing(folder_, inputs_);
    const int64_t kept = read_shards();
    remove_shards_from(kept);
    announce(kept);
    try {
      if (next_.position.file < int64_t(documents_.files().size())) make_shards(kept);
    } catch (...) {
      forget_without_shards();
      throw;
    }
    write_description();
    return outcome(kept);
  }

 private:
  void tell(const std::string& text) const {
    if (options_.notice) options_.notice(text);
  }

  // A folder of something else is left alone.
  void refuse_other_files() const {
    if (is_prepared(folder_) || is_preparing(folder_)) return;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
      const std::string name = entry.path().filename().string();
      if (!name.ends_with(kTemporarySuffix) && !name.starts_with("shard-"))
        fail(ErrorCode::bad_file, folder_, "is not empty and holds no prepared data (it has ", name, "); choose another folder");
    }
  }

  // Whether shards must be made: of other inputs, or because some are damaged.
  bool check_prepared() {
    Prepared prepared = read_prepared(folder_);
    const std::vector<SourceFile> before = prepared.inputs.files;
    if (const std::string other = difference(prepared.inputs, inputs_, prepared.conversations); !other.empty()) {
      start_again(join("was prepared before: ", other));
      return true;
    }
    for (size_t i = 0; i < prepared.shards.size(); ++i)
      if (const auto shard = TokenShard::open(folder_, int64_t(i), true); !shard || shard->header().hash != prepared.shards[i].hash) {
        tell(join(folder_, "/", shard_name(int64_t(i)), " is damaged or missing: making it again"));
        fs::remove(fs::path(folder_) / kPrepared);
        return true;
      }
    if (prepared.inputs.files != before) write_prepared(folder_, prepared);
    return false;
  }

  // Without a whole shard there is nothing to lose.
  void check_preparing() {
    if (!fs::exists(fs::path(folder_) / shard_name(0))) return;
    try {
      Inputs before = read_preparing(folder_);
      if (const std::string other = difference(before, inputs_, true); !other.empty())
        start_again(join("holds a preparation that was begun before: ", other));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::bad_file || !options_.overwrite) throw;
      start_again("holds a preparation that cannot be read");
    }
  }

  void start_again(const std::string& why) const {
    check(options_.overwrite, folder_, why, "; pass --overwrite to prepare it again, or choose another folder");
    tell(join(folder_, " ", why, "; preparing it again"));
    fs::remove(fs::path(folder_) / kPrepared);
    fs::remove(fs::path(folder_) / kPreparing);
    remove_shards_from(0);
  }

  // Reads the whole shards that are there, and returns how many.
  int64_t read_shards() {
    for (int64_t number = 0;; ++number) {
      const auto shard = TokenShard::open(folder_, number, true);
      if (!shard || shard->header().inputs != hash_of(inputs_)) return number;
      next_ = shard->next();
      content_ = shard->header().content;
    }
  }

  void remove_shards_from(int64_t first) const {
    for (int64_t number = first; fs::remove(fs::path(folder_) / shard_name(number)); ++number) {
    }
  }

  void announce(int64_t kept) const {
    const size_t files = documents_.files().size();
    const std::string what = join(files, files == 1 ? " file" : " files", " into ", folder_);
    tell(kept == 0 ? join("tokenising ", what) : join("continuing to tokenise ", what, " after ", kept, kept == 1 ? " shard" : " shards"));
  }

  void make_shards(int64_t first) {
    ShardSink sink(folder_, inputs_, first, options_.shard_tokens, content_);
    const int threads = options_.threads > 0 ? options_.threads : available_threads();
    tokenise(documents_, vocabulary_, {threads, options_.batch_bytes}, sink, next_);
    sink.finish();
  }

  // Stopped before the first whole shard, a preparation leaves nothing to continue.
  void forget_without_shards() const {
    if (fs::exists(fs::path(folder_) / shard_name(0))) return;
    std::error_code ignored;
    fs::remove(fs::path(folder_) / kPreparing, ignored);
    fs::remove(folder_, ignored);  // fails, rightly, if there is something else
  }

  void write_description() {
    Prepared prepared{.inputs = inputs_};
    size_t read = 0;
    for (int64_t number = 0;; ++number) {
      const auto shard = TokenShard::open(folder_, number, false);
      if (!shard) break;
      prepared.shards.push_back({shard->count(), shard->documents(), shard->header().hash});
      prepared.conversations = shard->next().conversations;
      for (size_t i = 0; i < shard->files().size(); i += 2, ++read) {
        check(shard->files()[i] < prepared.inputs.files.size(), folder_, "its shards are of other data");
        prepared.inputs.files[shard->files()[i]].hash = shard->files()[i + 1];
      }
    }
    check(read == prepared.inputs.files.size(), folder_, "its shards hold ", read, " of ", prepared.inputs.files.size(), " files");
    if (options_.copy_tokenizer) copy_tokenizer(prepared);
    write_prepared(folder_, prepared);
    fs::remove(fs::path(folder_) / kPreparing);
    sync_folder(folder_);
  }

  void copy_tokenizer(Prepared& prepared) const {
    const std::string copy = folder_ + "/tokenizer";
    fs::create_directories(copy);
    vocabulary_.write_files(copy);
    auto read_back = tokenizer_vocabulary(copy);
    if (read_back->end_of_text() != vocabulary_.end_of_text()) {
      const auto end = vocabulary_.end_of_text();
      prepared.end_token = end ? read_back->decode(std::span(&*end, 1)) : "none";
      read_back = tokenizer_vocabulary(copy, prepared.end_token);
    }
    prepared.copy_hash = vocabulary_hash(*read_back);
  }

  PrepareOutcome outcome(int64_t kept) const {
    PrepareOutcome outcome{.kept = kept};
    for (const ShardFacts& shard : read_prepared(folder_).shards) {
      outcome.tokens += shard.tokens;
      outcome.documents += shard.documents;
      ++outcome.shards;
    }
    return outcome;
  }

  const Documents& documents_;
  const Vocabulary& vocabulary_;
  const std::string folder_;
  const PrepareOptions& options_;
  const Inputs inputs_;
  TokeniserState next_;  // behind the last shard that is there
  uint64_t content_ = 0;
};

}  // namespace

PrepareOutcome prepare(const Documents& documents, const Vocabulary& vocabulary, const std::string& folder, const PrepareOptions& options) {
  return Preparation(documents, vocabulary, folder, options).run();
}

}  // namespace weft
