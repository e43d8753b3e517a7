// Vectors made by the published reference program, read from tests/golden: an index.json that
// describes cases, and one raw little-endian row-major file for each array. For tests only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace thinwire::golden {

template <typename T>
struct Array {
  std::vector<T> data;
  std::vector<std::size_t> shape;
};

template <typename T>
constexpr const char* dtype() {
  if constexpr (std::is_same_v<T, float>) return "f32";
  if constexpr (std::is_same_v<T, double>) return "f64";
  if constexpr (std::is_same_v<T, std::int32_t>) return "i32";
}

inline std::string read_file(const std::string& name) {
  const std::filesystem::path path =
      std::filesystem::path(THINWIRE_SOURCE_DIR) / "tests" / "golden" / name;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

// The array that an entry {"file", "dtype", "shape"} of the index describes.
template <typename T>
Array<T> load(const nlohmann::json& entry) {
  if (entry.at("dtype") != dtype<T>()) throw std::runtime_error("another dtype: " + entry.dump());
  Array<T> array{.data = {}, .shape = entry.at("shape").get<std::vector<std::size_t>>()};
  std::size_t count = 1;
  for (std::size_t extent : array.shape) count *= extent;
  const std::string bytes = read_file(entry.at("file"));
  if (bytes.size() != count * sizeof(T)) throw std::runtime_error("another size: " + entry.dump());
  array.data.resize(count);
  if (count > 0) std::memcpy(array.data.data(), bytes.data(), bytes.size());
  return array;
}

// One case: its settings as JSON (case_of("x")["decay"]) and its arrays by their names in "files".
struct Case {
  nlohmann::json json;

  const nlohmann::json& operator[](const char* key) const { return json.at(key); }
  Array<float> floats(const char* name) const { return load<float>(json.at("files").at(name)); }
  Array<double> doubles(const char* name) const { return load<double>(json.at("files").at(name)); }
  Array<std::int32_t> ints(const char* name) const {
    return load<std::int32_t>(json.at("files").at(name));
  }
};

// All cases of a kind ("dct_basis", "transform", "demo_steps", ...), in the order of the index.
inline std::vector<Case> cases_of_kind(const std::string& kind) {
  std::vector<Case> found;
  const nlohmann::json index = nlohmann::json::parse(read_file("index.json"));
  for (const nlohmann::json& entry : index.at("cases")) {
    if (entry.at("kind") == kind) found.push_back({entry});
  }
  return found;
}

// The case of that id. Throws when there is none.
inline Case case_of(const std::string& id) {
  const nlohmann::json index = nlohmann::json::parse(read_file("index.json"));
  for (const nlohmann::json& entry : index.at("cases")) {
    if (entry.at("id") == id) return {entry};
  }
  throw std::runtime_error("no golden case " + id);
}

}  // namespace thinwire::golden
