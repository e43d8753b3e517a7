// The writing half. A seat's state is copied into a buffer of its own; one thread writes the
// buffers of a step when all are full.
#include "thinwire/checkpoint_writer.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

#include "src/codec/codec.h"
#include "src/core/checkpoint_flight.h"
#include "src/core/checkpoint_manifest.h"
#include "src/core/checkpoint_parts.h"
#include "thinwire/log.h"

namespace thinwire {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPartial = ".partial";
constexpr const char* kFailed = ".failed";  // instead of a part of another process
// Files of other processes' ranks are waited for so long, looked for so often.
constexpr std::chrono::seconds kPatience{60};
constexpr std::chrono::milliseconds kLookAgain{10};
constexpr std::chrono::seconds kLastPatience{2};  // when this process goes

std::string step_name(std::uint64_t step) {
  std::string digits = std::to_string(step);
  return "step-" + std::string(digits.size() < 10 ? 10 - digits.size() : 0, '0') + digits;
}

bool is_step_name(const std::string& name) {
  return name.size() > 5 && name.size() < 24 && name.starts_with("step-") &&
         name.find_first_not_of("0123456789", 5) == std::string::npos;
}

// What a seat has given.
struct Copy {
  Progress progress;
  std::vector<std::vector<float>> sections;  // params(), then the states
  std::vector<float> frozen;                 // unit after unit; of the first seat alone
  Bytes link;
  bool full = false;
};

void copy_floats(ConstFloats from, std::vector<float>& to) {
  to.resize(from.size());
  copy(from, to);
}

}  // namespace

class CheckpointWriter::Body {
 public:
  explicit Body(CheckpointOptions options)
      : options_(std::move(options)),
        copies_(static_cast<std::size_t>(options_.saved_sites) * options_.ranks_here) {
    std::error_code trouble;
    fs::create_directories(options_.dir, trouble);
    if (trouble) {
      throw UsageError("cannot create " + options_.dir.string() + ": " + trouble.message() +
                       "; choose another directory to save into");
    }
    if (publishes()) {
      lock_ = lock_directory(options_.dir);
      clear_partial("");
    }
    thread_ = std::jthread([this] { work(); });
  }

  ~Body() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
  }

  bool save(Seat seat, const Trainer& trainer, Bytes link) {
    std::optional<Progress> progress = trainer.progress();
    if (!progress) return false;
    const std::size_t index = static_cast<std::size_t>(seat.site) * options_.ranks_here +
                              static_cast<std::size_t>(seat.rank - options_.first_rank);
    TW_CHECK(index < copies_.size());
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !copies_[index].full || given_up_; });
      if (given_up_) return false;
      if (!layout_) {
        layout_.emplace(trainer.layout());
        states_ = trainer.shard().states();
        whole_blocks_ = trainer.shard().whole_blocks();
      }
    }
    fill(copies_[index], seat, trainer, std::move(*progress));
    copies_[index].link = std::move(link);
    {
      std::lock_guard lock(mutex_);
      copies_[index].full = true;
    }
    changed_.notify_all();
    return true;
  }

  void flush() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !all_full(); });
    if (!failure_.empty()) throw Error(failure_);
  }

  void give_up() {
    {
      std::lock_guard lock(mutex_);
      given_up_ = true;
    }
    changed_.notify_all();
  }

  std::optional<std::uint64_t> published() const {
    std::lock_guard lock(mutex_);
    return published_;
  }

  static std::uint64_t step_of(const fs::path& path) {
    return std::stoull(path.filename().string().substr(5));
  }

 private:
  bool publishes() const { return options_.first_rank == 0; }
  bool is_stopping() const {
    std::lock_guard lock(mutex_);
    return stopping_;
  }
  bool all_full() const {
    return std::all_of(copies_.begin(), copies_.end(), [](const Copy& copy) { return copy.full; });
  }

  // What is unfinished, but for the one of that name.
  void clear_partial(const std::string& but) const {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(options_.dir, ignored)) {
      const fs::path& path = entry.path();
      if (path.extension() != kPartial || path.filename() == but) continue;
      if (is_step_name(path.stem().string())) fs::remove_all(path, ignored);
    }
  }

  // The only part that training waits for.
  void fill(Copy& copy, Seat seat, const Trainer& trainer, Progress progress) const {
    const Shard& shard = trainer.shard();
    copy.sections.resize(1 + states_.size());
    copy_floats(shard.params(), copy.sections[0]);
    for (std::size_t i = 0; i < states_.size(); ++i)
      copy_floats(shard.state(states_[i].name), copy.sections[i + 1]);
    copy.progress = std::move(progress);
    copy.frozen.clear();
    for (int unit = 0; seat.site == 0 && seat.rank == 0 && unit < layout_->units(); ++unit) {
      const std::vector<float> frozen = to_host(trainer.frozen(unit));
      copy.frozen.insert(copy.frozen.end(), frozen.begin(), frozen.end());
    }
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopping_ || all_full(); });
      if (!all_full()) return;
      lock.unlock();
      std::string failure = write();
      lock.lock();
      failure_ = std::move(failure);
      if (failure_.empty() && publishes()) published_ = copies_[0].progress.step;
      for (Copy& copy : copies_) copy.full = false;
      changed_.notify_all();
    }
  }

  // What went wrong, or nothing.
  std::string write() {
    const std::uint64_t step = copies_[0].progress.step;
    const fs::path partial = options_.dir / (step_name(step) + kPartial);
    try {
      for (const Copy& copy : copies_) {
        if (copy.progress.step != step) throw Error("its ranks are at different steps");
      }
      if (publishes()) clear_partial(partial.filename().string());
      fs::create_directories(partial);
      for (int site = 0; site < options_.saved_sites; ++site) {
        for (int i = 0; i < options_.ranks_here; ++i) write_part(partial, site, i);
      }
      if (publishes()) publish(partial, step);
      return "";
    } catch (const std::exception& error) {
      std::error_code ignored;
      if (publishes()) {
        fs::remove_all(partial, ignored);
      } else {
        std::ofstream(partial / (part_file(0, options_.first_rank) + kFailed));
      }
      const std::string why =
          "the checkpoint of step " + std::to_string(step) + " was not written: " + error.what();
      log_warn(why);
      return why;
    }
  }

  void write_part(const fs::path& partial, int site, int index) const {
    const int rank = options_.first_rank + index;
    const Copy& copy = copies_[static_cast<std::size_t>(site * options_.ranks_here + index)];
    const PartOf part{rank, options_.ranks, whole_blocks_};
    std::vector<NamedTensor> tensors;
    const auto add = [&](const std::vector<PartTensor>& parts, const std::vector<float>& floats) {
      for (const PartTensor& one : parts) {
        const ConstFloats values = ConstFloats(floats).subspan(one.offset, one.size);
        tensors.push_back({one.name, "F32", one.shape, std::as_bytes(values)});
      }
    };
    if (site == 0) add(element_tensors(*layout_, part, kParametersPrefix), copy.sections[0]);
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (site > 0 && states_[i].kind == StateKind::replicated) continue;
      add(state_tensors(*layout_, part, states_[i]), copy.sections[i + 1]);
    }
    if (site == 0 && rank == 0) add_frozen(copy, tensors);
    const std::vector<SavedFlight> flights = save_flights(*layout_, part, copy.progress.in_flight);
    std::map<std::string, std::string> metadata;
    for (const SavedFlight& flight : flights) {
      tensors.push_back({flight.name, "U8", {flight.bytes.size()}, flight.bytes});
      metadata[flight.name] = flight.about;
    }
    if (!copy.link.empty()) tensors.push_back({kLinkName, "U8", {copy.link.size()}, copy.link});
    metadata[kGuardName] = guard_text(copy.progress.guard);
    write_tensors(partial / part_file(site, rank), tensors, metadata);
  }

  void add_frozen(const Copy& copy, std::vector<NamedTensor>& tensors) const {
    std::size_t begin = 0;
    for (int unit = 0; unit < layout_->units(); ++unit) {
      for (std::size_t i = 0; i < layout_->parameters().size(); ++i) {
        const Place& place = layout_->place(i);
        if (place.unit != unit || place.trainable) continue;
        const ConstFloats values =
            ConstFloats(copy.frozen).subspan(begin + place.offset, place.size);
        const ParameterSpec& spec = layout_->parameters()[i];
        tensors.push_back(
            {kParametersPrefix + spec.name, "F32", spec.shape, std::as_bytes(values)});
      }
      begin += layout_->frozen_size(unit);
    }
  }

  void publish(const fs::path& partial, std::uint64_t step) {
    Manifest manifest{.step = step,
                      .repaired_before = copies_[0].progress.repaired_before,
                      .sites = options_.sites,
                      .saved_sites = options_.saved_sites,
                      .ranks = options_.ranks,
                      .whole_blocks = whole_blocks_,
                      .chunking = layout_->chunking(),
                      .parameters = layout_->parameters(),
                      .states = states_,
                      .run = options_.run,
                      .files = {}};
    const auto end = std::chrono::steady_clock::now() + kPatience;
    for (int site = 0; site < options_.saved_sites; ++site) {
      for (int rank = 0; rank < options_.ranks; ++rank) {
        const std::string name = part_file(site, rank);
        wait_for(partial / name, end);
        const Result<TensorFile> file = TensorFile::open(partial / name);
        if (!file) throw Error(file.why());
        manifest.files[name] = file->summary();
      }
    }
    write_manifest(partial, manifest);
    sync_directory(partial);
    replace_directory(partial, options_.dir / step_name(step));
    sync_directory(options_.dir);
    delete_old(step);
  }

  void wait_for(const fs::path& file, std::chrono::steady_clock::time_point end) const {
    bool goes = false;
    while (!fs::exists(file)) {
      if (fs::exists(file.string() + kFailed))
        throw Error(file.filename().string() + ": its process could not write it");
      if (!goes && is_stopping()) {
        goes = true;
        end = std::min(end, std::chrono::steady_clock::now() + kLastPatience);
      }
      if (std::chrono::steady_clock::now() > end)
        throw Error(file.filename().string() + " of another process did not come");
      std::this_thread::sleep_for(kLookAgain);
    }
  }

  // Deleted under a name that is none of a checkpoint: half of one is never taken for a whole.
  void delete_old(std::uint64_t newest) const {
    int kept = 0;
    for (const fs::path& path : list_checkpoints(options_.dir)) {
      const std::uint64_t step = step_of(path);
      const bool nth = options_.keep_every > 0 && step % options_.keep_every == 0;
      if (step > newest || nth || kept++ < options_.keep_last) continue;
      const fs::path going = path.string() + kPartial;
      std::error_code trouble;
      fs::rename(path, going, trouble);
      fs::remove_all(going, trouble);
    }
  }

  const CheckpointOptions options_;
  FileHandle lock_;
  std::optional<Layout> layout_;  // of the first trainer that saved
  std::vector<StateSpec> states_;
  bool whole_blocks_ = false;
  mutable std::mutex mutex_;  // guards what follows; a copy that is full belongs to the thread
  std::condition_variable changed_;
  std::vector<Copy> copies_;
  std::optional<std::uint64_t> published_;
  std::string failure_;  // of the last checkpoint
  bool stopping_ = false;
  bool given_up_ = false;
  std::jthread thread_;
};

CheckpointWriter::CheckpointWriter(CheckpointOptions options)
    : body_(std::make_unique<Body>(std::move(options))) {}
CheckpointWriter::~CheckpointWriter() = default;
bool CheckpointWriter::save(Seat seat, const Trainer& trainer, Bytes link) {
  return body_->save(seat, trainer, std::move(link));
}
void CheckpointWriter::flush() { body_->flush(); }
void CheckpointWriter::give_up() { body_->give_up(); }
std::optional<std::uint64_t> CheckpointWriter::published() const { return body_->published(); }

std::vector<fs::path> list_checkpoints(const fs::path& dir) {
  std::vector<std::pair<std::uint64_t, fs::path>> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(dir, ignored)) {
    const std::string name = entry.path().filename().string();
    if (is_step_name(name)) found.emplace_back(std::stoull(name.substr(5)), entry.path());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

std::string difference(const RunSettings& saved, const RunSettings& here) {
  std::set<std::string> names;
  for (const auto& [name, value] : saved) names.insert(name);
  for (const auto& [name, value] : here) names.insert(name);
  for (const std::string& name : names) {
    const auto there = saved.find(name);
    const auto mine = here.find(name);
    const std::string a = there == saved.end() ? "missing" : there->second;
    const std::string b = mine == here.end() ? "missing" : mine->second;
    if (a != b) return name + " is " + a + " there and " + b + " here";
  }
  return "";
}

}  // namespace thinwire
