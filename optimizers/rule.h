// How parameters follow a gradient, without a word to anybody: the part that methods share. Any
// rule can move the run's parameters by the mean gradient (all_reduce.h), a site's local ones
// (local_steps.h), or make the direction that goes into a residual (demo.h).
//
// What a rule remembers is named state of the shard. Its arithmetic decides replicated bits when it
// moves replicated parameters: separately rounded operations, no libm but sqrt.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "thinwire/shard.h"
#include "thinwire/types.h"

namespace thinwire {

// x = keep x - lr direction(scale g)
struct Move {
  float lr = 0.0f;
  float keep = 1.0f;   // 1 - lr * weight decay
  float scale = 1.0f;  // of the gradient: clipping
};

class Rule {
 public:
  virtual ~Rule() = default;

  // Two rules of one method tell their states apart by what the names begin with.
  virtual void call_states(std::string prefix) { prefix_ = std::move(prefix); }

  virtual std::vector<StateSpec> states(StateKind kind) const = 0;
  virtual bool whole_matrices() const { return false; }
  virtual bool on_device() const { return false; }  // as in Traits
  // Once in a step that has a gradient, before the first piece.
  virtual void begin(Shard&) const {}
  // g and x are the piece's floats, and must not overlap.
  virtual void move(Shard& shard, const Piece& piece, ConstFloats g, Floats x,
                    const Move& how) const = 0;

 protected:
  StateSpec spec(const char* name, StateKind kind) const {
    StateSpec spec{prefix_ + name, kind};
    spec.memory = kind == StateKind::own;
    return spec;
  }
  Floats state(Shard& shard, const char* name) const { return shard.state(prefix_ + name); }
  Floats state(Shard& shard, const char* name, const Piece& piece) const {
    return state(shard, name).subspan(piece.offset, piece.size);
  }

 private:
  std::string prefix_;
};

inline Floats part(Floats all, const Piece& piece) { return all.subspan(piece.offset, piece.size); }
inline ConstFloats part(ConstFloats all, const Piece& piece) {
  return all.subspan(piece.offset, piece.size);
}

}  // namespace thinwire
