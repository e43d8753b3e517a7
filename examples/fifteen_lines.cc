// Trains a small GPT at two sites, here two threads, with DisTrO: fifteen_lines [TEXT FILE].
#include <cstdio>
#include <thread>

#include "models/gpt.h"
#include "models/text.h"
#include "optimizers/catalog.h"
#include "thinwire/trainer.h"
#include "transports/loopback.h"

using namespace thinwire;

int main(int argc, char** argv) {
  const Text text = Text::read(argc > 1 ? argv[1] : "README.md");
  LoopbackWorld world({.sites = 2});
  const auto train = [&](int site) {
    Settings settings("distro", {{"delay", "1"}});
    const auto optimizer = optimizer_catalog().make("distro", settings);
    DelayedSync sync(world.far(site, 0), {.delay = optimizer->traits().delay});
    Gpt model(GptOptions::preset("nano"), text, {.part = std::size_t(site), .parts = 2});
    Trainer trainer(model, world.near(site, 0), *optimizer, sync,
                    {.schedule = {.peak = 8e-3f, .steps = 100}, .sites = 2});
    float loss = 0.0f;
    while (trainer.steps_done() < 100) loss = trainer.step().loss;
    std::printf("site %d: loss %.2f, %.0f bytes a step, parameters %016lx\n", site, loss,
                sync.traffic().bytes_sent / 100.0, trainer.state_hash());
  };
  std::jthread other(train, 1);
  train(0);
}
