// weft inspect: prints the contents of a safetensors file, a GGUF file or a model folder.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "weft/base/check.h"
#include "weft/chat/chat_format.h"
#include "weft/io/gguf.h"
#include "weft/io/is_there.h"
#include "weft/io/json.h"
#include "weft/io/weight_files.h"
#include "weft/models/folder.h"

namespace weft::cli {
namespace {

namespace fs = std::filesystem;
using Ordered = nlohmann::ordered_json;

// The tokenizer and the spelling of the tokens that begin and end a text.
Ordered tokenizer_of(const ModelFolder& folder) {
  const Tokenizer& tokenizer = folder.tokenizer();
  const auto spelled = [&](std::span<const int32_t> ids) { return tokenizer.pieces(ids); };
  const auto separator = folder.tokenizer_folder().separator();
  return {{"kind", tokenizer.kind()},
          {"vocab_size", tokenizer.vocab_size()},
          {"before_text", spelled(tokenizer.before())},
          {"after_text", spelled(tokenizer.after())},
          {"end_tokens", spelled(folder.end_ids())},
          {"between_documents", separator ? Ordered(tokenizer.token_of(*separator)) : Ordered(nullptr)},
          {"ignored", tokenizer.ignored()}};
}

// The value of "chat_template": false if there is none, the error if it cannot be read.
Ordered chat_template_of(const std::string& path) {
  try {
    const auto format = is_gguf(path) ? has_tokenizer(path) ? TokenizerFolder(path).chat_format() : std::nullopt : ChatFormat::load(path);
    if (!format) return false;
    return {{"names", format->names()}, {"parses", true}, {"marks_answers", format->has_generation_blocks()}};
  } catch (const Error& error) {
    return {{"parses", false}, {"error", error.what()}};
  }
}

Ordered tensors_of(const WeightFiles& files, int64_t& parameters, int64_t& bytes) {
  Ordered list = Ordered::array();
  for (const std::string& name : files.names()) {
    const SafeTensors::Entry& entry = files.at(name);
    parameters += entry.shape.numel();
    bytes += int64_t(entry.bytes.size());
    Ordered tensor = {{"name", name},
                      {"dtype", entry.stored},
                      {"shape", std::vector<int64_t>(entry.shape.begin(), entry.shape.end())},
                      {"bytes", entry.bytes.size()}};
    if (files.files().size() > 1) tensor["file"] = fs::path(files.file_of(name).path()).filename().string();
    list.push_back(std::move(tensor));
  }
  return list;
}

// Adds the tensors and metadata of a folder's weight files, or of one safetensors file.
void describe_weights(const std::string& path, Ordered& out) {
  const WeightFiles files(path);
  int64_t parameters = 0, bytes = 0;
  Ordered tensors = tensors_of(files, parameters, bytes);
  out["files"] = files.files().size();
  out["parameters"] = parameters;
  out["bytes"] = bytes;
  Ordered metadata = Ordered::object();
  for (const auto& file : files.files())
    for (const auto& [key, value] : file->metadata()) metadata[key] = value;
  out["metadata"] = std::move(metadata);
  out["tensors"] = std::move(tensors);
}

void describe_gguf(const std::string& path, Ordered& out) {
  const Gguf file(path);
  int64_t parameters = 0, bytes = 0;
  Ordered tensors = Ordered::array(), metadata = Ordered::object();
  for (const auto& [name, entry] : file.tensors()) {
    parameters += entry.shape.numel();
    bytes += int64_t(entry.bytes.size());
    tensors.push_back({{"name", name},
                       {"dtype", entry.type->name},
                       {"shape", std::vector<int64_t>(entry.shape.begin(), entry.shape.end())},
                       {"bytes", entry.bytes.size()}});
  }
  for (const auto& [key, value] : file.metadata()) {
    const std::string shown = file.shown_value(value);
    metadata[key] = value.type != Gguf::Type::text && Ordered::accept(shown) ? Ordered::parse(shown) : Ordered(shown);
  }
  out["files"] = 1;
  out["parameters"] = parameters;
  out["bytes"] = bytes;
  out["metadata"] = std::move(metadata);
  out["tensors"] = std::move(tensors);
}

// A folder with an unsupported model can still be inspected.
template <class Read>
Ordered unless_unsupported(Read read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    return {{"unsupported", error.what()}};
  }
}

Ordered describe(const std::string& path) {
  std::error_code ignored;
  const bool gguf = is_gguf(path), model = gguf || fs::is_directory(path, ignored);
  Ordered out, weights;
  out["path"] = path;
  if (gguf || (model && is_there(fs::path(path) / "config.json"))) {
    out["config"] = unless_unsupported([&] { return Ordered::parse(model_config_json(read_model_config(path))); });
  }
  gguf ? describe_gguf(path, weights) : describe_weights(path, weights);
  for (const char* key : {"files", "parameters", "bytes", "metadata"}) out[key] = std::move(weights[key]);
  if (const ModelFolder folder(path); model && folder.has_tokenizer())
    out["tokenizer"] = unless_unsupported([&] { return tokenizer_of(folder); });
  if (model) out["generation"] = Ordered::parse(generation_config_json(read_generation_config(path)));
  if (model) out["chat_template"] = chat_template_of(path);
  out["tensors"] = std::move(weights["tensors"]);
  return out;
}

std::string shape_text(const Ordered& shape) {
  if (shape.empty()) return "scalar";
  std::string text;
  for (const auto& extent : shape) text += (text.empty() ? "" : "x") + extent.dump();
  return text;
}

void print_tokenizer(const Ordered& tokenizer) {
  std::printf("\ntokenizer: %s, %s tokens\n", tokenizer["kind"].get<std::string>().c_str(), tokenizer["vocab_size"].dump().c_str());
  for (const auto& [key, what] : {std::pair{"before_text", "before a text"},
                                  {"after_text", "after a text"},
                                  {"end_tokens", "ends a text"},
                                  {"between_documents", "between documents"}})
    std::printf("  %-32s %s\n", what, tokenizer[key].empty() ? "none" : tokenizer[key].dump().c_str());
  for (const auto& name : tokenizer["ignored"]) std::printf("  %-32s set, does nothing here\n", name.get<std::string>().c_str());
}

void print_chat_template(const Ordered& chat) {
  if (!chat["parses"].get<bool>())
    return void(std::printf("\nchat template: cannot be used: %s\n", chat["error"].get<std::string>().c_str()));
  std::string names;
  for (const auto& name : chat["names"]) names += (names.empty() ? "" : ", ") + name.get<std::string>();
  std::printf("\nchat template: %s%s; applied by weft chat and by --chat of generate and tokenize, not to plain prompts\n", names.c_str(),
              chat["marks_answers"].get<bool>() ? ", marks what the assistant says" : "");
}

void print(const Ordered& about) {
  std::printf("%s\n", about["path"].get<std::string>().c_str());
  if (about.contains("config")) {
    std::printf("\nconfig\n");
    for (const auto& [key, value] : about["config"].items()) std::printf("  %-32s %s\n", key.c_str(), value.dump().c_str());
  }
  if (about.contains("tokenizer")) {
    const Ordered& tokenizer = about["tokenizer"];
    if (tokenizer.contains("unsupported"))
      std::printf("\ntokenizer: not supported: %s\n", tokenizer["unsupported"].get<std::string>().c_str());
    else
      print_tokenizer(tokenizer);
  }
  if (about.contains("generation") && !about["generation"].empty()) {
    std::printf("\ngeneration settings\n");
    for (const auto& [key, value] : about["generation"].items()) std::printf("  %-32s %s\n", key.c_str(), value.dump().c_str());
  }
  if (about.contains("chat_template") && about["chat_template"].is_object()) print_chat_template(about["chat_template"]);
  if (!about["metadata"].empty()) {
    std::printf("\nmetadata\n");
    for (const auto& [key, value] : about["metadata"].items())
      std::printf("  %-32s %s\n", key.c_str(), value.dump(-1, ' ', false, Ordered::error_handler_t::replace).c_str());
  }
  std::printf("\ntensors\n");
  for (const auto& tensor : about["tensors"])
    std::printf("  %-56s %-8s %s\n", tensor["name"].get<std::string>().c_str(), tensor["dtype"].get<std::string>().c_str(),
                shape_text(tensor["shape"]).c_str());
  std::printf("\n%zu tensors in %s file(s), %s parameters, %.1f MB\n", about["tensors"].size(), about["files"].dump().c_str(),
              about["parameters"].dump().c_str(), about["bytes"].get<double>() / 1e6);
}

}  // namespace

Run add_inspect(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "inspect", "Show the tensors, shapes, dtypes, parameter count and config of a safetensors file, a GGUF file or a model folder");
  struct Options {
    std::string path;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  command->add_option("FILE_OR_DIR", options->path, "A safetensors file, a GGUF file, or a Hugging Face model folder")->required();
  command->add_flag("--json", options->json, "Print JSON");
  return [options] {
    const Ordered about = describe(options->path);
    if (options->json)
      std::printf("%s\n", about.dump(2, ' ', false, Ordered::error_handler_t::replace).c_str());
    else
      print(about);
    return kOk;
  };
}

}  // namespace weft::cli
