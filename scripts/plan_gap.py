"""Prints the mean paired difference of the losses of two methods in a plan's result: RESULT.json A B."""
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    result = json.load(file)
(size,) = result["sizes"]
losses = {
    method["method"]: {seed["seed"]: seed["loss"] for seed in method["seeds"]}
    for method in size["methods"]
}
a, b = losses[sys.argv[2]], losses[sys.argv[3]]
print(sum(a[seed] - b[seed] for seed in result["report_seeds"]) / len(result["report_seeds"]))
