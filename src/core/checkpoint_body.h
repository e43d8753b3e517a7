// The inside of Checkpoint, in two files: checkpoint_reader.cc (judges a directory) and
// checkpoint_load.cc (gives any part of it).
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/core/checkpoint_manifest.h"
#include "src/core/checkpoint_parts.h"
#include "src/core/checkpoint_tensors.h"
#include "thinwire/checkpoint.h"

namespace thinwire {

std::string shape_text(const std::vector<std::size_t>& shape);  // "[64, 192]"

class Checkpoint::Body {
 public:
  Body(std::filesystem::path path, Manifest manifest, Layout layout)
      : path_(std::move(path)), manifest_(std::move(manifest)), layout_(std::move(layout)) {}

  // Why it cannot be used, or nothing.
  std::string open_files();
  Progress load(const NewSeat& seat, Shard& shard, Optimizer& optimizer) const;
  std::vector<float> parameter(const std::string& name) const;

  std::filesystem::path path_;
  Manifest manifest_;
  Layout layout_;
  std::vector<TensorFile> files_;  // by site, then rank

  const TensorFile& file(int site, int rank) const {
    return files_[static_cast<std::size_t>(site * manifest_.ranks + rank)];
  }

 private:
  PartOf part_of(int rank) const { return {rank, manifest_.ranks, manifest_.whole_blocks}; }
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

}  // namespace thinwire
