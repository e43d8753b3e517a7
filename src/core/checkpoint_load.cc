// Parameters, states and updates in flight of a checkpoint, for any seat of any run.
#include <algorithm>
#include <map>
#include <utility>

#include "src/codec/codec.h"
#include "src/core/checkpoint_body.h"
#include "src/core/checkpoint_flight.h"
#include "src/core/update_form.h"

namespace thinwire {
namespace {

std::string text_of(const ParameterSpec& spec) {
  return "'" + spec.name + "' " + shape_text(spec.shape) + " of unit " + std::to_string(spec.unit) +
         (spec.trainable ? "" : ", frozen") + (spec.table ? ", a table" : "");
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

}  // namespace

// Every run of a whole that both the wanted part and a saved one have.
void Checkpoint::Body::read(int site, const std::vector<PartTensor>& wanted,
                            const std::function<std::vector<PartTensor>(PartOf)>& saved,
                            Floats into) const {
  std::map<std::string, const PartTensor*> by_name;
  for (const PartTensor& one : wanted) by_name[one.name] = &one;
  for (int rank = 0; rank < manifest_.ranks; ++rank) {
    for (const PartTensor& from : saved(part_of(rank))) {
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
  const PartOf wanted =
      spec.extent == StateExtent::whole ? PartOf{0, part.ranks, part.whole_blocks} : part;
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
    Result<std::vector<InFlight>> one = load_flights(layout_, part_of(rank), file(site, rank));
    if (!one) throw Error(one.why());
    const std::size_t floats = part_floats(layout_, part_of(rank));
    for (const InFlight& flight : *one) {
      std::string why = misfit(flight.update, form, floats);
      if (why.empty() && !finite_floats(flight.update)) why = "values that are not finite";
      if (!why.empty()) throw Error(path_.string() + ": an update in flight holds " + why);
    }
    for (const InFlight& flight : *one) {
      const bool fewer = !flight.update.dense.empty() && flight.update.dense.size() != floats;
      if (fewer && part != part_of(part.rank)) {
        throw UsageError(path_.string() + " holds updates in flight that only " +
                         std::to_string(manifest_.ranks) +
                         " ranks a site can go on with; start as many");
      }
    }
    by_rank.push_back(std::move(*one));
  }
  if (part == part_of(part.rank)) return by_rank[static_cast<std::size_t>(part.rank)];
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
    InFlight cut{all[i].step, 0,
                 recut(layout_, updates, part_of(0), part)};  // the hash is of another part
    all[i] = std::move(cut);
  }
  return all;
}

// Leaves nothing in flight; a step that was spoken stays so, with nothing said.
std::vector<InFlight> Checkpoint::Body::take_back(int site, Shard& shard, PartOf part,
                                                  Optimizer& optimizer) const {
  std::vector<InFlight> all = flights(site, part, optimizer.traits().form);
  for (InFlight& one : all) {
    if (one.step.speaks) optimizer.take_back(one.step, shard, one.update);
    one.update = {};
    one.state_hash = 0;
  }
  for (const StateSpec& spec : manifest_.states) {
    if (spec.in_flight) std::ranges::fill(shard.state(spec.name), 0.0f);
  }
  return all;
}

// r + (mean over all saved - mean over those that go on): the mean of what is owed stays, and each
// keeps what sets it apart. Nobody inherits what others remember of their gradients.
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
        const bool shares = stay < saved && !spec.memory;
        values[i] = is_new ? mean : shares ? own + (mean - of_staying) : own;
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
  if (!shard.device().is_host()) {
    Shard here = shard.copy_on(Device());
    Progress progress = load(seat, here, optimizer);
    shard.take_values(here);
    return progress;
  }
  const PartOf part{shard.rank(), shard.ranks(), shard.whole_blocks()};
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

}  // namespace thinwire
