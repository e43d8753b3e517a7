// Judges a directory: what it says of itself, every file, tensor and checksum.
#include <algorithm>
#include <utility>

#include "src/core/checkpoint_body.h"
#include "src/core/checkpoint_flight.h"

namespace thinwire {
namespace {

namespace fs = std::filesystem;

std::uint64_t value_count(const std::vector<ParameterSpec>& parameters, std::uint64_t most) {
  std::uint64_t sum = 0;
  for (const ParameterSpec& one : parameters) {
    std::uint64_t count = 1;
    for (const std::size_t extent : one.shape) {
      if (extent != 0 && count > most / extent) return most + 1;
      count *= extent;
    }
    sum += count;
    if (sum > most) return most + 1;
  }
  return sum;
}

}  // namespace

std::string shape_text(const std::vector<std::size_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

std::vector<PartTensor> Checkpoint::Body::expected(int site, int rank) const {
  const PartOf part = part_of(rank);
  std::vector<PartTensor> all;
  const auto add = [&](std::vector<PartTensor> more) {
    all.insert(all.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
  };
  if (site == 0) add(element_tensors(layout_, part, kParametersPrefix));
  for (const StateSpec& spec : manifest_.states) {
    if (site == 0 || spec.kind == StateKind::own) add(state_tensors(layout_, part, spec));
  }
  for (const ParameterSpec& spec : layout_.parameters()) {
    if (site == 0 && rank == 0 && !spec.trainable)
      all.push_back({.name = kParametersPrefix + spec.name, .shape = spec.shape});
  }
  return all;
}

std::string Checkpoint::Body::judge(int site, int rank) const {
  const TensorFile& part = file(site, rank);
  const std::string where = part.path().filename().string() + ": ";
  std::size_t known = 0;
  for (const PartTensor& one : expected(site, rank)) {
    const TensorFile::Entry* entry = part.find(one.name);
    if (!entry) return where + "tensor " + one.name + " is missing";
    if (entry->type != "F32" || entry->shape != one.shape)
      return where + "tensor " + one.name + " is " + entry->type + " " + shape_text(entry->shape) +
             ", F32 " + shape_text(one.shape) + " expected";
    ++known;
  }
  for (const TensorFile::Entry& entry : part.entries()) {
    if (entry.name.starts_with("flight/") || entry.name == kLinkName) ++known;
  }
  if (known != part.entries().size()) return where + "holds tensors that are unknown";
  const Result<std::vector<InFlight>> flights = load_flights(layout_, part_of(rank), part);
  return flights ? "" : flights.why();
}

std::string Checkpoint::Body::open_files() {
  for (int site = 0; site < manifest_.saved_sites; ++site) {
    for (int rank = 0; rank < manifest_.ranks; ++rank) {
      const std::string name = part_file(site, rank);
      const auto known = manifest_.files.find(name);
      if (known == manifest_.files.end())
        return std::string(kManifestName) + ": says nothing of " + name;
      Result<TensorFile> opened = TensorFile::open(path_ / name);
      if (!opened) return opened.why();
      if (opened->summary() != known->second) {
        const bool length = opened->summary().bytes != known->second.bytes;
        return name + ": is not the file that was saved: " +
               (length ? std::to_string(known->second.bytes) + " bytes expected, " +
                             std::to_string(opened->summary().bytes) + " found"
                       : "header checksum " + hex(known->second.header_hash) + " expected, " +
                             hex(opened->summary().header_hash) + " found");
      }
      files_.push_back(std::move(*opened));
      if (std::string why = files_.back().verify(); !why.empty()) return why;
      if (std::string why = judge(site, rank); !why.empty()) return why;
    }
  }
  return manifest_.files.size() == files_.size()
             ? ""
             : std::string(kManifestName) + ": names files that are unknown";
}

Result<Checkpoint> Checkpoint::open(const fs::path& dir) {
  Result<Manifest> manifest = read_manifest(dir);
  if (!manifest) return Result<Checkpoint>::refuse(manifest.why());
  std::uint64_t bytes = 0;  // that are there, whatever it says
  for (int site = 0; site < manifest->saved_sites; ++site) {
    for (int rank = 0; rank < manifest->ranks; ++rank) {
      std::error_code missing;
      const std::uintmax_t size = fs::file_size(dir / part_file(site, rank), missing);
      if (missing) return Result<Checkpoint>::refuse(part_file(site, rank) + ": is missing");
      bytes += size;
    }
  }
  const auto refuse = [](const std::string& why) {
    return Result<Checkpoint>::refuse(std::string(kManifestName) + ": " + why);
  };
  if (value_count(manifest->parameters, bytes) > bytes)
    return refuse("its parameters are larger than its files");
  try {
    Layout layout(manifest->parameters, manifest->chunking);
    auto body = std::make_shared<Body>(dir, std::move(*manifest), std::move(layout));
    if (const std::string why = body->open_files(); !why.empty())
      return Result<Checkpoint>::refuse(why);
    return Checkpoint(std::move(body));
  } catch (const std::exception& error) {
    return refuse(error.what());
  }
}

const fs::path& Checkpoint::path() const { return body_->path_; }
std::uint64_t Checkpoint::step() const { return body_->manifest_.step; }
const RunSettings& Checkpoint::run() const { return body_->manifest_.run; }
int Checkpoint::sites() const { return body_->manifest_.sites; }
int Checkpoint::saved_sites() const { return body_->manifest_.saved_sites; }
int Checkpoint::ranks() const { return body_->manifest_.ranks; }
const Layout& Checkpoint::layout() const { return body_->layout_; }
const std::vector<StateSpec>& Checkpoint::states() const { return body_->manifest_.states; }

std::vector<SavedTensor> Checkpoint::tensors() const {
  std::vector<SavedTensor> all;
  for (const TensorFile& file : body_->files_) {
    for (const TensorFile::Entry& entry : file.entries()) {
      all.push_back(
          {file.path().filename().string(), entry.name, entry.type, entry.shape, entry.hash});
    }
  }
  return all;
}

std::uint64_t Checkpoint::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [name, summary] : body_->manifest_.files) sum += summary.bytes;
  return sum;
}

Progress Checkpoint::load(const NewSeat& seat, Shard& shard, Optimizer& optimizer) const {
  return body_->load(seat, shard, optimizer);
}

Bytes Checkpoint::link(Seat seat, int ranks) const {
  if (ranks != body_->manifest_.ranks || seat.site >= body_->manifest_.saved_sites) return {};
  const TensorFile& file = body_->file(seat.site, seat.rank);
  const TensorFile::Entry* entry = file.find(kLinkName);
  Bytes bytes(entry ? entry->bytes : 0);
  if (entry) file.read(*entry, 0, bytes);
  return bytes;
}

std::vector<float> Checkpoint::parameter(const std::string& name) const {
  return body_->parameter(name);
}

FoundCheckpoint newest_checkpoint(const fs::path& dir) {
  FoundCheckpoint found;
  for (const fs::path& path : list_checkpoints(dir)) {
    Result<Checkpoint> opened = Checkpoint::open(path);
    if (opened) {
      found.checkpoint = std::move(*opened);
      break;
    }
    found.skipped.push_back(path.filename().string() + ": " + opened.why());
  }
  return found;
}

}  // namespace thinwire
