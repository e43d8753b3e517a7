// The arithmetic of a group: who sends which part to whom.
#include <algorithm>
#include <cstring>
#include <utility>

#include "thinwire/error.h"
#include "thinwire/hash.h"
#include "transports/gloo_group_internal.h"
#include "transports/gloo_slots_internal.h"
#include "transports/ordered_mean_internal.h"

namespace thinwire::near {
namespace {

// Cuts of every member are in the header as one number.
std::uint64_t hash_of(Cuts cuts) { return hash64(std::as_bytes(cuts)); }

std::size_t pieces_of(std::size_t floats) { return (floats + kPiece - 1) / kPiece; }

ConstFloats piece_of(ConstFloats data, std::size_t piece) {
  const std::size_t begin = piece * kPiece;
  return data.subspan(begin, std::min(kPiece, data.size() - begin));
}

// The same floats in another place, unless it is the same place.
void copy(ConstFloats from, Floats to) {
  if (from.data() != to.data()) std::copy(from.begin(), from.end(), to.begin());
}

}  // namespace

void Group::reduce_scatter_mean(ConstFloats whole, Floats mine, Cuts cuts) {
  TW_CHECK(cuts.size() == options_.members.size() + 1 && cuts.back() == whole.size());
  TW_CHECK(mine.size() == cuts[rank() + 1] - cuts[rank()]);
  begin(Operation::reduce_scatter_mean, whole.size(), hash_of(cuts));
  scatter(whole, mine, cuts);
}

void Group::all_gather(ConstFloats mine, Floats whole, Cuts cuts) {
  TW_CHECK(cuts.size() == options_.members.size() + 1 && cuts.back() == whole.size());
  TW_CHECK(mine.size() == cuts[rank() + 1] - cuts[rank()]);
  begin(Operation::all_gather, whole.size(), hash_of(cuts));
  gather(mine, whole, cuts);
}

// Everyone sums an even part, then all take the sums: each way 2 (n-1)/n of the data, as a ring.
void Group::all_reduce_mean(Floats whole) {
  begin(Operation::all_reduce_mean, whole.size(), 0);
  std::vector<std::size_t> cuts;
  for (std::size_t member = 0; member <= options_.members.size(); ++member) {
    cuts.push_back(whole.size() * member / options_.members.size());
  }
  const Floats mine = whole.subspan(cuts[rank()], cuts[rank() + 1] - cuts[rank()]);
  scatter(whole, mine, cuts);
  gather(mine, whole, cuts);
}

void Group::broadcast(Floats data, int root) {
  TW_CHECK(root >= 0 && root < size());
  begin(Operation::broadcast, data.size(), static_cast<std::uint64_t>(root));
  std::vector<Stream> streams;
  for (const auto& peer : peers_) {
    if (rank() == root) streams.push_back(outgoing(*peer, data));
    if (peer->member == root) streams.push_back(incoming(*peer, data));
  }
  rank() == root ? send_all(streams) : receive_all(streams);
}

void Group::barrier() { begin(Operation::barrier, 0, 0); }

void Group::all_to_all(ConstFloats whole, Floats parts, Cuts cuts) {
  const std::size_t mine = cuts[rank() + 1] - cuts[rank()];
  TW_CHECK(cuts.size() == options_.members.size() + 1 && cuts.back() == whole.size());
  TW_CHECK(parts.size() == mine * options_.members.size());
  begin(Operation::all_to_all, whole.size(), hash_of(cuts));
  std::vector<Stream> in;
  std::vector<Stream> out;
  for (const auto& peer : peers_) {
    in.push_back(incoming(*peer, parts.subspan(mine * peer->member, mine)));
  }
  for (const auto& peer : peers_) {
    const std::size_t begin = cuts[peer->member];
    out.push_back(outgoing(*peer, whole.subspan(begin, cuts[peer->member + 1] - begin)));
  }
  copy(whole.subspan(cuts[rank()], mine), parts.subspan(mine * rank(), mine));
  receive_all(in);
  send_all(out);
}

void Group::scatter(ConstFloats whole, Floats mine, Cuts cuts) {
  std::vector<Stream> out;
  std::vector<Stream> in;
  for (const auto& peer : peers_) {
    const std::size_t begin = cuts[peer->member];
    out.push_back(outgoing(*peer, whole.subspan(begin, cuts[peer->member + 1] - begin)));
  }
  sum_pieces(whole.subspan(cuts[rank()], mine.size()), mine, in);
  send_all(out);
}

// `own` is this member's own contribution. A piece of each peer lies in the scratch until it has
// come from all.
void Group::sum_pieces(ConstFloats own, Floats mine, std::vector<Stream>& in) {
  const std::size_t pieces = pieces_of(mine.size());
  if (pieces == 0) return;
  const std::size_t slots = std::min(kInFlight, pieces);
  const std::size_t piece_size = std::min(kPiece, mine.size());
  scratch_.resize(std::max(scratch_.size(), peers_.size() * slots * piece_size));
  const auto place = [&](std::size_t peer, std::size_t piece) {
    return scratch_.data() + (peer * slots + piece % slots) * piece_size;
  };
  const auto post = [&](std::size_t at, std::size_t piece) {
    Stream& stream = in[at];
    const std::size_t offset = static_cast<std::size_t>(place(at, piece) - place(at, 0));
    post_receive(*stream.peer, *stream.buffer, kDataSlot, offset * sizeof(float),
                 piece_of(mine, piece).size_bytes());
    if (piece + 1 == pieces) post_receive(*stream.peer, *stream.buffer, kDataSlot, 0, 0);
  };
  for (std::size_t at = 0; at < peers_.size(); ++at) {
    const std::size_t bytes = slots * piece_size * sizeof(float);
    in.push_back({peers_[at].get(), mesh_->buffer(place(at, 0), bytes), 0});
    for (std::size_t piece = 0; piece < slots; ++piece) post(at, piece);
  }
  std::vector<const float*> sources(options_.members.size());
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    sources[rank()] = piece_of(own, piece).data();
    for (std::size_t at = 0; at < in.size(); ++at) {
      await(*in[at].peer, *in[at].buffer, false);
      sources[in[at].peer->member] = place(at, piece);
    }
    ordered_mean(sources, mine.subspan(piece * kPiece, piece_of(own, piece).size()));
    for (std::size_t at = 0; at < in.size(); ++at) {
      if (piece + slots < pieces) post(at, piece + slots);
    }
  }
  for (Stream& stream : in) stream.waits = 1;  // the end
  receive_all(in);
}

void Group::gather(ConstFloats mine, Floats whole, Cuts cuts) {
  std::vector<Stream> in;
  std::vector<Stream> out;
  for (const auto& peer : peers_) {
    const std::size_t begin = cuts[peer->member];
    in.push_back(incoming(*peer, whole.subspan(begin, cuts[peer->member + 1] - begin)));
  }
  for (const auto& peer : peers_) out.push_back(outgoing(*peer, mine));
  copy(mine, whole.subspan(cuts[rank()], mine.size()));
  receive_all(in);
  send_all(out);
}

Group::Stream Group::outgoing(Peer& peer, ConstFloats data) {
  Stream stream{&peer, mesh_->buffer(data.data(), data.size_bytes()), 0};
  for (std::size_t piece = 0; piece < pieces_of(data.size()); ++piece, ++stream.waits) {
    post_send(peer, *stream.buffer, kDataSlot, piece * kPiece * sizeof(float),
              piece_of(data, piece).size_bytes());
  }
  if (stream.waits > 0) post_send(peer, *stream.buffer, kDataSlot, 0, 0), ++stream.waits;
  return stream;
}

Group::Stream Group::incoming(Peer& peer, Floats data) {
  Stream stream{&peer, mesh_->buffer(data.data(), data.size_bytes()), 0};
  for (std::size_t piece = 0; piece < pieces_of(data.size()); ++piece, ++stream.waits) {
    post_receive(peer, *stream.buffer, kDataSlot, piece * kPiece * sizeof(float),
                 piece_of(data, piece).size_bytes());
  }
  if (stream.waits > 0) post_receive(peer, *stream.buffer, kDataSlot, 0, 0), ++stream.waits;
  return stream;
}

// In turns, so that whoever stands still is found while the others' data comes.
void Group::receive_all(std::vector<Stream>& streams) {
  for (bool more = true; more;) {
    more = false;
    for (Stream& stream : streams) {
      if (stream.waits == 0) continue;
      await(*stream.peer, *stream.buffer, false);
      more = --stream.waits > 0 || more;
    }
  }
}

void Group::send_all(std::vector<Stream>& streams) {
  for (bool more = true; more;) {
    more = false;
    for (Stream& stream : streams) {
      if (stream.waits == 0) continue;
      await(*stream.peer, *stream.buffer, true);
      more = --stream.waits > 0 || more;
    }
  }
}

}  // namespace thinwire::near
