// The flags of `thinwire hub`, `keygen`, `status` and `train --site`. Internal to the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "apps/hub_command.h"
#include "apps/site_command.h"
#include "apps/status_command.h"

namespace thinwire::app {

class FarFlags {
 public:
  // Adds verbs to `app` and the site's flags to `train`; CLI11 keeps references into this object.
  FarFlags(CLI::App& app, CLI::App& train);
  FarFlags(const FarFlags&) = delete;
  FarFlags& operator=(const FarFlags&) = delete;

  bool wants_hub() const { return hub_verb_->parsed(); }
  bool wants_keygen() const { return keygen_verb_->parsed(); }
  bool wants_status() const { return status_verb_->parsed(); }

  HubCommand hub;
  StatusCommand status;
  SiteCommand site;
  std::string keygen_file;
  bool log_json = false;

 private:
  CLI::App* hub_verb_;
  CLI::App* keygen_verb_;
  CLI::App* status_verb_;
};

}  // namespace thinwire::app
