#!/bin/bash
# A start script as it is often copied: every fault in it is found by `autotune doctor --env` (docs/ascend.md).
source /usr/local/Ascend/ascend-toolkit/set_env.sh
export HCCL_ALGO=level0:NA;level1:ring
export HCCL_OP_EXPANSION_MODE="AIV"
export VLLM_ASCEND_ENABLE_FUSED_MC2=1
export HCCL_BUFSIZE=1024
export HCCL_ALG_MULTIPLE_DIMENSION_SPLIT_RATIO=0.3
torchrun --nproc-per-node 8 train.py
