#include "apps/inspect_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "apps/table.h"
#include "src/core/checkpoint_tensors.h"
#include "thinwire/checkpoint.h"
#include "thinwire/error.h"

namespace thinwire::app {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

bool is_checkpoint(const fs::path& dir) { return fs::exists(dir / "manifest.json"); }

void check_there(const fs::path& dir) {
  if (!fs::is_directory(dir)) throw UsageError("there is no directory " + dir.string());
  if (!is_checkpoint(dir) && list_checkpoints(dir).empty()) {
    throw UsageError(dir.string() + " holds no checkpoint (thinwire train --save)");
  }
}

std::string shape_text(const std::vector<std::size_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Json about(const Checkpoint& one) {
  return {{"path", one.path().string()}, {"valid", true},        {"step", one.step()},
          {"bytes", one.bytes()},        {"sites", one.sites()}, {"saved_sites", one.saved_sites()},
          {"ranks", one.ranks()},        {"run", one.run()}};
}

// One line a checkpoint; false: none can be used.
bool print_all(const fs::path& dir, bool as_json) {
  bool any = false;
  Json all = Json::array();
  for (const fs::path& path : list_checkpoints(dir)) {
    const Result<Checkpoint> opened = Checkpoint::open(path);
    any = any || opened;
    all.push_back(opened ? about(*opened)
                         : Json{{"path", path.string()}, {"valid", false}, {"why", opened.why()}});
    if (as_json) continue;
    const std::string name = path.filename().string();
    if (opened) {
      std::cout << fmt::format("{:<18} valid  {:>10}  {} of {} sites, {} ranks\n", name,
                               bytes_text(static_cast<double>(opened->bytes())),
                               opened->saved_sites(), opened->sites(), opened->ranks());
    } else {
      std::cout << fmt::format("{:<18} cannot be used\n    {}\n", name, opened.why());
    }
  }
  if (as_json) std::cout << all.dump(1) << "\n";
  return any;
}

void print_one(const Checkpoint& one, bool as_json) {
  if (as_json) {
    Json json = about(one);
    for (const SavedTensor& tensor : one.tensors()) {
      json["tensors"].push_back({{"file", tensor.file},
                                 {"name", tensor.name},
                                 {"type", tensor.type},
                                 {"shape", tensor.shape},
                                 {"hash", hex(tensor.hash)}});
    }
    std::cout << json.dump(1) << "\n";
    return;
  }
  std::cout << fmt::format("step {}, {} of {} sites, {} ranks, {}\n\n", one.step(),
                           one.saved_sites(), one.sites(), one.ranks(),
                           bytes_text(static_cast<double>(one.bytes())));
  for (const auto& [name, value] : one.run())
    std::cout << fmt::format("  {:<24} {}\n", name, value);
  std::string file;
  for (const SavedTensor& tensor : one.tensors()) {
    if (tensor.file != std::exchange(file, tensor.file)) std::cout << "\n" << tensor.file << "\n";
    std::cout << fmt::format("  {:<36} {:>18} {:<3} {}\n", tensor.name, shape_text(tensor.shape),
                             tensor.type, hex(tensor.hash));
  }
}

Checkpoint open_or_throw(const fs::path& dir) {
  check_there(dir);
  if (is_checkpoint(dir)) {
    Result<Checkpoint> opened = Checkpoint::open(dir);
    if (!opened) throw Error(dir.string() + " cannot be used: " + opened.why());
    return std::move(*opened);
  }
  FoundCheckpoint found = newest_checkpoint(dir);
  for (const std::string& skipped : found.skipped) std::cerr << "cannot use " << skipped << "\n";
  if (!found.checkpoint) throw Error(dir.string() + " holds no checkpoint that can be used");
  return std::move(*found.checkpoint);
}

}  // namespace

void run_inspect(const InspectCommand& command) {
  check_there(command.dir);
  if (is_checkpoint(command.dir)) return print_one(open_or_throw(command.dir), command.json);
  if (!print_all(command.dir, command.json)) {
    throw Error(command.dir + " holds no checkpoint that can be used");
  }
}

void run_export(const ExportCommand& command) {
  const Checkpoint checkpoint = open_or_throw(command.dir);
  std::vector<std::vector<float>> values;
  std::vector<NamedTensor> tensors;
  for (const ParameterSpec& spec : checkpoint.layout().parameters()) {
    values.push_back(checkpoint.parameter(spec.name));
    tensors.push_back({spec.name, "F32", spec.shape, std::as_bytes(std::span(values.back()))});
  }
  // What readers of that ecosystem look for.
  const std::map<std::string, std::string> metadata{
      {"format", "pt"}, {"thinwire_step", std::to_string(checkpoint.step())}};
  const TensorFileSummary written = write_tensors(command.file, tensors, metadata);
  std::cout << fmt::format("{}: step {}, {} parameters, {}\n", command.file, checkpoint.step(),
                           tensors.size(), bytes_text(static_cast<double>(written.bytes)));
}

}  // namespace thinwire::app
