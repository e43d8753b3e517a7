#!/usr/bin/env bash
# One site of 2 x 4 ranks under Slurm: sbatch examples/deploy/slurm.sh [MORE FLAGS OF thinwire train]
# srun starts the ranks and sets SLURM_PROCID and SLURM_NTASKS; they meet at the first node.
#SBATCH --job-name=thinwire
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=2
#SBATCH --time=04:00:00
set -euo pipefail

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# Jobs that share a node must not share a port.
MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))
export MASTER_ADDR MASTER_PORT

# A rank that fails ends the job; the others name it before.
srun --kill-on-bad-exit=1 thinwire train --near gloo --method distro --model small --batch 64 \
  --threads "${SLURM_CPUS_PER_TASK:-1}" --connect-timeout 120 \
  --out "${SLURM_SUBMIT_DIR:-.}/out-$SLURM_JOB_ID" "$@"
