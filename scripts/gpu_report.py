#!/usr/bin/env python3
"""What gpu_check.sh has measured as one JSON (--collect DIR), and a JSON as docs/gpu_results.md (FILE)."""
import datetime
import json
import os
import pathlib
import sys

# What is asked of each kernel: the share of the copy bandwidth measured in the same run.
BOUNDS = {"extract k=8": 0.5, "extract k=16": 0.5, "extract k=32": 0.5, "adamw": 0.8,
          "step_along 1 sites": 0.6, "step_along 4 sites": 0.6}


def read_lines(path):
    found = []
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:  # a bench that was cut off
                pass
    return found


# A program that left nothing crashed or was stopped.
def tests(work):
    counts = {"run": 0, "failed": 0, "skipped": 0, "failures": []}
    for log in sorted(work.glob("*_test.log")):
        name = log.name.removesuffix(".log")
        try:
            suites = json.loads((work / f"{name}.tests.json").read_text())["testsuites"]
        except (OSError, ValueError):
            counts["failed"] += 1
            counts["failures"].append(name)
            continue
        for test in (test for suite in suites for test in suite["testsuite"]):
            counts["run"] += 1
            counts["skipped"] += test.get("result") == "SKIPPED"
            if test.get("failures"):
                counts["failed"] += 1
                counts["failures"].append(f"{name}: {test['name']}")
    return counts


def methods(path):
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return []
    return [{key: one[key] for key in ("method", "loss", "tokens_per_s", "compute_s", "hash")} for one in found]


def collect(work):
    kernels = read_lines(work / "kernels.jsonl")
    head = kernels.pop(0) if kernels and "card" in kernels[0] else {}
    for one in kernels:
        bound = BOUNDS.get(one["kernel"])
        if bound is not None:
            one["bound"] = bound
            one["ok"] = one["of_copy"] >= bound  # slower than asked for is said, and no failure
    return {"date": datetime.date.today().isoformat(), **head,
            "passed": os.environ.get("GPU_CHECK_STATUS") == "0",
            "seconds": int(os.environ.get("GPU_CHECK_SECONDS", 0)),
            "build_seconds": int(os.environ.get("GPU_CHECK_BUILT", 0)),
            "tests": tests(work), "kernels": kernels,
            "cuda": methods(work / "cuda.json"), "cpu": methods(work / "cpu.json")}


def report(found):
    print("# Results on a GPU\n")
    print(f"{found['date']}, {found.get('card', '?')}, CUDA {found.get('toolkit_cuda', '?')}; "
          f"`scripts/gpu_check.sh` took {found['seconds']} s, {found['build_seconds']} of them to build.\n")
    counted = found["tests"]
    if not found["passed"]:
        print("**Something failed**: " + (", ".join(counted["failures"]) or "not a test") + ".\n")
    print(f"Tests of devices: {counted['run']} run, {counted['failed']} failed, {counted['skipped']} skipped. "
          f"A copy within the card: {found.get('copy_gb_s', 0):.0f} GB/s, read and written.\n")
    print("| kernel | bytes a parameter | GB/s | of the copy | asked for |\n|---|---|---|---|---|")
    for one in found["kernels"]:
        if "of_copy" not in one:
            print(f"| {one['kernel']} | | {one['tflop_s']:.1f} TFLOP/s | | |")
            continue
        asked = f"{one['bound']:.0%}" if "bound" in one else ""
        print(f"| {one['kernel']} | {one['planned_bytes_a_parameter']:.2f} | {one['gb_s']:.0f} | {one['of_copy']:.0%} "
              f"| {asked} |")
    print("\n| method on the card | held-out loss | tokens/s |\n|---|---|---|")
    for one in found["cuda"]:
        loss = "diverged" if one["loss"] is None else f"{one['loss']:.3f}"
        print(f"| {one['method']} | {loss} | {one['tokens_per_s'] or 0:.0f} |")


if sys.argv[1] == "--collect":
    print(json.dumps(collect(pathlib.Path(sys.argv[2])), indent=1))
else:
    report(json.loads(pathlib.Path(sys.argv[1]).read_text()))
