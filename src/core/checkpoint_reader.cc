// The reading half: judges a directory, then gives any part of it.
#include <algorithm>
#include <map>
#include <utility>

#include "src/codec/codec.h"
#include "src/core/checkpoint_flight.h"
#include "src/core/checkpoint_manifest.h"
#include "src/core/checkpoint_parts.h"
#include "src/core/update_form.h"
#include "thinwire/checkpoint.h"

namespace thinwire {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::vector<std::size_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

std::string text_of(const ParameterSpec& spec) {
  return "'" + spec.name + "' " + text_of(spec.shape) + " of unit " + std::to_string(spec.unit) +
         (spec.trainable ? "" : ", frozen");
}

// Why the model here is another one, or nothing.
std::string unlike(const Layout& saved, const Layout& here) {
  const auto& there = saved.parameters();
  const auto& mine = here.parameters();
  for (std::size_t i = 0; i < std::min(there.size(), mine.size()); ++i) {
    if (there[i] != mine[i])
      return "parameter " + std::to_string(i) + " is " + text_of(there[i]) + " there and " +
             text_of(mine[i]) + " here";
  }
  if (there.size() != mine.size())
    return std::to_string(there.size()) + " parameters there and " + std::to_string(mine.size()) +
           " here";
  return saved.chunking() == here.chunking() ? "" : "tiles are cut otherwise (chunking)";
}

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

class Checkpoint::Body {
 public:
  Body(fs::path path, Manifest manifest, Layout layout)
      : path_(std::move(path)), manifest_(std::move(manifest)), layout_(std::move(layout)) {}

  // Why it cannot be used, or nothing.
  std::string open_files();
  Progress load(const NewSeat& seat, Shard& shard, Optimizer& optimizer) const;
  std::vector<float> parameter(const std::string& name) const;

  fs::path path_;
  Manifest manifest_;
  Layout layout_;
  std::vector<TensorFile> files_;  // by site, then rank

  const TensorFile& file(int site, int rank) const {
    return files_[static_cast<std::size_t>(site * manifest_.ranks + rank)];
  }

 private:
  std::vector<PartTensor> expected(int site, int rank) const;
  std::string judge(int site, int rank) const;
  void read(int site, const std::vector<PartTensor>& wanted,
            const std::function<std::vector<PartTensor>(PartOf)>& saved, Floats into) const;
  void read_parameters(Shard& shard, PartOf part) const;
  void read_state(int site, const StateSpec& spec, PartOf part, Floats into) const;
  void read_own(int site, Shard& shard, PartOf part) const;
  std::vector<InFlight> flights(int site, PartOf part, const UpdateForm& form) const;
  std::vector<InFlight> take_back(int site, Shard& shard, PartOf part, Optimizer& optimizer) const;
  void fold(const NewSeat& seat, Shard& shard, PartOf part, Optimizer& optimizer) const;
  void check_fit(const Shard& shard) const;
};

std::vector<PartTensor> Checkpoint::Body::expected(int site, int rank) const {
  const PartOf part{rank, manifest_.ranks};
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
      return where + "tensor " + one.name + " is " + entry->type + " " + text_of(entry->shape) +
             ", F32 " + text_of(one.shape) + " expected";
    ++known;
  }
  for (const TensorFile::Entry& entry : part.entries()) {
    if (entry.name.starts_with("flight/") || entry.name == kLinkName) ++known;
  }
  if (known != part.entries().size()) return where + "holds tensors that are unknown";
  const Result<std::vector<InFlight>> flights =
      load_flights(layout_, {rank, manifest_.ranks}, part);
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

// Every run of a whole that both the wanted part and a saved one have.
void Checkpoint::Body::read(int site, const std::vector<PartTensor>& wanted,
                            const std::function<std::vector<PartTensor>(PartOf)>& saved,
                            Floats into) const {
  std::map<std::string, const PartTensor*> by_name;
  for (const PartTensor& one : wanted) by_name[one.name] = &one;
  for (int rank = 0; rank < manifest_.ranks; ++rank) {
    for (const PartTensor& from : saved({rank, manifest_.ranks})) {
      const auto found = by_name.find(from.name);
      if (found == by_name.end()) continue;
      const PartTensor& to = *found->second;
      const std::size_t begin = std::max(from.begin, to.begin);
      const std::size_t end = std::min(from.begin + from.size, to.begin + to.size);
      if (begin >= end) continue;
      const Floats values = into.subspan(to.offset + begin - to.begin, end - begin);
      const TensorFile& part = file(site, rank);
      part.read(*part.find(from.name), (begin - from.begin) * sizeof(float),
                std::as_writable_bytes(values));
    }
  }
}

void Checkpoint::Body::read_parameters(Shard& shard, PartOf part) const {
  read(
      0, element_tensors(layout_, part, kParametersPrefix),
      [&](PartOf of) { return element_tensors(layout_, of, kParametersPrefix); }, shard.params());
}

void Checkpoint::Body::read_state(int site, const StateSpec& spec, PartOf part, Floats into) const {
  const PartOf wanted = spec.extent == StateExtent::whole ? PartOf{0, part.ranks} : part;
  read(
      site, state_tensors(layout_, wanted, spec),
      [&](PartOf of) { return state_tensors(layout_, of, spec); }, into);
}

void Checkpoint::Body::read_own(int site, Shard& shard, PartOf part) const {
  for (const StateSpec& spec : manifest_.states) {
    if (spec.kind == StateKind::own) read_state(site, spec, part, shard.state(spec.name));
  }
}

std::vector<InFlight> Checkpoint::Body::flights(int site, PartOf part,
                                                const UpdateForm& form) const {
  std::vector<std::vector<InFlight>> by_rank;
  for (int rank = 0; rank < manifest_.ranks; ++rank) {
    Result<std::vector<InFlight>> one =
        load_flights(layout_, {rank, manifest_.ranks}, file(site, rank));
    if (!one) throw Error(one.why());
    for (const InFlight& flight : *one) {
      std::string why = misfit(flight.update, form);
      if (why.empty() && !finite_floats(flight.update)) why = "values that are not finite";
      if (!why.empty()) throw Error(path_.string() + ": an update in flight holds " + why);
    }
    by_rank.push_back(std::move(*one));
  }
  if (part.ranks == manifest_.ranks) return by_rank[static_cast<std::size_t>(part.rank)];
  std::vector<InFlight> all = by_rank.front();
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<const Update*> updates;
    for (const auto& one : by_rank) {
      if (i >= one.size() || one[i].step.index != all[i].step.index)
        throw Error(path_.string() + ": its ranks have other updates in flight");
      const Picks& picks = one[i].update.picks;
      const Picks& first = by_rank.front()[i].update.picks;
      if (!picks.positions.empty() && !first.positions.empty() &&
          (picks.value_bits != first.value_bits || picks.scales.empty() != first.scales.empty())) {
        throw Error(path_.string() + ": its ranks have updates of different forms in flight");
      }
      updates.push_back(&one[i].update);
    }
    InFlight cut{all[i].step, 0, recut(layout_, updates, part)};  // the hash is of another part
    all[i] = std::move(cut);
  }
  return all;
}

// Leaves nothing in flight; a step that was spoken stays so, with nothing said.
std::vector<InFlight> Checkpoint::Body::take_back(int site, Shard& shard, PartOf part,
                                                  Optimizer& optimizer) const {
  std::vector<InFlight> all = flights(site, part, optimizer.traits().form);
  for (InFlight& one : all) {
    optimizer.take_back(one.step, shard, one.update);
    one.update = {};
    one.state_hash = 0;
  }
  for (const StateSpec& spec : manifest_.states) {
    if (spec.in_flight) std::ranges::fill(shard.state(spec.name), 0.0f);
  }
  return all;
}

// r + (mean over all saved - mean over those that go on): the mean of what is owed stays, and each
// keeps what sets it apart.
void Checkpoint::Body::fold(const NewSeat& seat, Shard& shard, PartOf part,
                            Optimizer& optimizer) const {
  const int saved = manifest_.saved_sites;
  std::map<std::string, std::vector<float>> mine, all, staying;
  for (int site = 0; site < saved; ++site) {
    read_own(site, shard, part);
    take_back(site, shard, part, optimizer);
    for (const StateSpec& spec : manifest_.states) {
      if (spec.kind != StateKind::own) continue;
      const ConstFloats values = shard.state(spec.name);
      if (site == seat.site) mine[spec.name].assign(values.begin(), values.end());
      for (auto* sum : {&all, &staying}) {
        if (sum == &staying && site >= seat.saved_sites) continue;
        std::vector<float>& to = (*sum)[spec.name];
        to.resize(values.size(), 0.0f);
        for (std::size_t i = 0; i < values.size(); ++i) to[i] += values[i];
      }
    }
  }
  const int stay = std::min(saved, seat.saved_sites);
  for (const StateSpec& spec : manifest_.states) {
    if (spec.kind != StateKind::own) continue;
    const Floats values = shard.state(spec.name);
    const bool is_new = seat.site >= saved;
    const bool drop = seat.residuals == Residuals::drop;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float mean = all[spec.name][i] / static_cast<float>(saved);
      const float of_staying = staying[spec.name][i] / static_cast<float>(stay);
      const float own = is_new ? 0.0f : mine[spec.name][i];
      if (drop) {
        values[i] = own;
      } else {
        values[i] = is_new ? mean : stay == saved ? own : own + (mean - of_staying);
      }
    }
  }
}

void Checkpoint::Body::check_fit(const Shard& shard) const {
  if (const std::string why = unlike(layout_, shard.layout()); !why.empty()) {
    throw UsageError(path_.string() + " is of another model: " + why);
  }
  if (manifest_.states == shard.states()) return;
  std::string names[2];
  for (const StateSpec& spec : manifest_.states) names[0] += " " + spec.name;
  for (const StateSpec& spec : shard.states()) names[1] += " " + spec.name;
  throw UsageError(path_.string() + " is of another optimizer: its states are" + names[0] +
                   ", those of this one" + names[1] +
                   (names[0] == names[1] ? " (other sizes)" : ""));
}

Progress Checkpoint::Body::load(const NewSeat& seat, Shard& shard, Optimizer& optimizer) const {
  check_fit(shard);
  const PartOf part{shard.rank(), shard.ranks()};
  read_parameters(shard, part);
  for (const StateSpec& spec : manifest_.states) {
    if (spec.kind == StateKind::replicated) read_state(0, spec, part, shard.state(spec.name));
  }
  Progress progress{.step = manifest_.step, .repaired_before = manifest_.repaired_before};
  const bool same = seat.sites == manifest_.sites && seat.saved_sites == manifest_.saved_sites;
  const int site = std::min(seat.site, manifest_.saved_sites - 1);
  if (same) {
    read_own(site, shard, part);
    progress.in_flight = flights(site, part, optimizer.traits().form);
    progress.guard = guard_from(file(site, 0));
    return progress;
  }
  fold(seat, shard, part, optimizer);
  for (InFlight& one : flights(site, part, optimizer.traits().form)) {
    if (one.step.index == progress.step) progress.in_flight = {{one.step, 0, {}}};
  }
  return progress;
}

std::vector<float> Checkpoint::Body::parameter(const std::string& name) const {
  const std::size_t index = layout_.index_of(name);
  const Place& place = layout_.place(index);
  std::vector<float> values(place.size);
  if (!place.trainable) {
    const TensorFile& first = file(0, 0);
    first.read(*first.find(kParametersPrefix + name), 0, std::as_writable_bytes(std::span(values)));
    return values;
  }
  const PartTensor whole{kParametersPrefix + name, {}, 0, place.size, 0};
  read(
      0, {whole}, [&](PartOf of) { return element_tensors(layout_, of, kParametersPrefix); },
      values);
  return values;
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
