#include "src/core/checkpoint_manifest.h"

#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "thinwire/hash.h"

namespace thinwire {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "thinwire checkpoint";
constexpr std::uint64_t kManifestMax = 256u << 20;
constexpr int kMembersMax = 1 << 20;

const std::map<StateExtent, std::string> kExtents = {{StateExtent::elements, "elements"},
                                                     {StateExtent::coefficients, "coefficients"},
                                                     {StateExtent::per_tile, "per_tile"},
                                                     {StateExtent::whole, "whole"}};
const std::set<std::string> kKeys = {"format",      "version",  "step",       "repaired_before",
                                     "sites",       "ranks",    "parameters", "states",
                                     "saved_sites", "chunking", "run",        "files",
                                     "checksum"};
// Said only where it is not the default, which older programs know alone.
constexpr const char* kWholeBlocks = "whole_blocks";

json to_json(const ParameterSpec& parameter) {
  return {{"name", parameter.name},
          {"shape", parameter.shape},
          {"unit", parameter.unit},
          {"trainable", parameter.trainable},
          {"table", parameter.table}};
}

json to_json(const StateSpec& state) {
  return {{"name", state.name},
          {"kind", state.kind == StateKind::replicated ? "replicated" : "own"},
          {"extent", kExtents.at(state.extent)},
          {"count", state.count},
          {"in_flight", state.in_flight},
          {"memory", state.memory}};
}

json to_json(const Manifest& manifest) {
  json all = {{"format", kFormat},
              {"version", kCheckpointVersion},
              {"step", manifest.step},
              {"repaired_before", manifest.repaired_before},
              {"sites", manifest.sites},
              {"saved_sites", manifest.saved_sites},
              {"ranks", manifest.ranks},
              {"chunking", manifest.chunking == Chunking::padded ? "padded" : "divisor"},
              {"run", manifest.run}};
  if (manifest.whole_blocks) all[kWholeBlocks] = true;
  all["parameters"] = json::array();
  for (const ParameterSpec& one : manifest.parameters) all["parameters"].push_back(to_json(one));
  all["states"] = json::array();
  for (const StateSpec& one : manifest.states) all["states"].push_back(to_json(one));
  all["files"] = json::object();
  for (const auto& [name, summary] : manifest.files) {
    all["files"][name] = {{"bytes", summary.bytes}, {"header", hex(summary.header_hash)}};
  }
  return all;
}

std::string checksum(const json& all) {
  return hex(hash64(std::string_view(all.dump(-1, ' ', false, json::error_handler_t::replace))));
}

// The names of values that are one of a few words.
template <class T>
T word(const std::string& text, const std::map<T, std::string>& words) {
  for (const auto& [value, name] : words) {
    if (name == text) return value;
  }
  throw Error("the unknown word '" + text + "'");
}

StateSpec state_from(const json& one) {
  StateSpec state;
  state.name = one.at("name");
  state.kind = word(one.at("kind").get<std::string>(),
                    std::map<StateKind, std::string>{{StateKind::replicated, "replicated"},
                                                     {StateKind::own, "own"}});
  state.extent = word(one.at("extent").get<std::string>(), kExtents);
  state.count = one.at("count");
  state.in_flight = one.at("in_flight");
  state.memory = one.value("memory", false);
  return state;
}

int member_count(const json& value) {
  const std::int64_t count = value;
  if (count < 1 || count > kMembersMax) throw Error("impossible numbers of sites or ranks");
  return static_cast<int>(count);
}

Manifest from_json(const json& all) {
  Manifest manifest;
  manifest.step = all.at("step");
  manifest.repaired_before = all.at("repaired_before");
  manifest.sites = member_count(all.at("sites"));
  manifest.saved_sites = member_count(all.at("saved_sites"));
  manifest.ranks = member_count(all.at("ranks"));
  manifest.whole_blocks = all.value(kWholeBlocks, false);
  manifest.chunking = word(all.at("chunking").get<std::string>(),
                           std::map<Chunking, std::string>{{Chunking::padded, "padded"},
                                                           {Chunking::divisor, "divisor"}});
  for (const json& one : all.at("parameters")) {
    manifest.parameters.push_back({one.at("name"), one.at("shape"), one.at("unit"),
                                   one.at("trainable"), one.value("table", false)});
  }
  for (const json& one : all.at("states")) manifest.states.push_back(state_from(one));
  manifest.run = all.at("run").get<RunSettings>();
  for (const auto& [name, value] : all.at("files").items()) {
    const Result<std::uint64_t> header = from_hex(value.at("header"));
    if (!header) throw Error(header.why());
    manifest.files[name] = {value.at("bytes"), *header};
  }
  return manifest;
}

}  // namespace

std::string part_file(int site, int rank) {
  return "site-" + std::to_string(site) + ".rank-" + std::to_string(rank) + ".safetensors";
}

std::string to_text(const Manifest& manifest) {
  json all = to_json(manifest);
  all["checksum"] = checksum(all);
  return all.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

void write_manifest(const std::filesystem::path& dir, const Manifest& manifest) {
  const std::string text = to_text(manifest);
  const ByteView piece = std::as_bytes(std::span(text));
  write_file(dir / kManifestName, {&piece, 1});
}

namespace {

Result<Manifest> refuse(const std::string& why) {
  return Result<Manifest>::refuse(std::string(kManifestName) + ": " + why);
}

}  // namespace

Result<Manifest> read_manifest(const std::filesystem::path& dir) {
  const FileHandle file = open_file(dir / kManifestName);
  if (!file) return refuse("is missing or cannot be read");
  const std::uint64_t size = size_of(file);
  if (size > kManifestMax) return refuse("is larger than any manifest");
  std::string text(size, '\0');
  if (!read_at(file, 0, std::as_writable_bytes(std::span(text)))) return refuse("cannot be read");
  return parse_manifest(text);
}

Result<Manifest> parse_manifest(const std::string& text) {
  if (!is_shallow(text)) return refuse("is nested too deep");
  json all = json::parse(text, nullptr, false);
  if (!all.is_object()) {
    return refuse(text.empty() ? "is cut short: 0 bytes found"
                               : "is damaged: no JSON object, " + std::to_string(text.size()) +
                                     " bytes found");
  }
  try {
    if (!all.contains("format") || all["format"] != kFormat)
      return refuse("is of another program: format '" + std::string(kFormat) + "' expected");
    const std::int64_t version = all.at("version");
    if (version > kCheckpointVersion) {
      return refuse("was written by a newer thinwire: format " + std::to_string(version) +
                    " found, up to " + std::to_string(kCheckpointVersion) + " can be read");
    }
    for (const std::string& key : kKeys) {
      if (!all.contains(key)) return refuse("the key '" + key + "' is missing");
    }
    for (const auto& [key, value] : all.items()) {
      if (!kKeys.contains(key) && key != kWholeBlocks)
        return refuse("the key '" + key + "' is unknown");
    }
    const std::string expected = all["checksum"];
    all.erase("checksum");
    const std::string found = checksum(all);
    if (expected != found)
      return refuse("is damaged: checksum " + expected + " expected, " + found + " found");
    return from_json(all);
  } catch (const json::exception& error) {
    return refuse(std::string("is damaged: ") + error.what());
  } catch (const Error& error) {
    return refuse(std::string("is damaged: ") + error.what());
  }
}

}  // namespace thinwire
