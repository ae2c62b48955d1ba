// What autotune/exchange/words.json says of the libraries that load these plugins. Made from it:
// `UPDATE_GOLDEN=1 pytest tests/plugins/test_words.py` writes this file again.
#pragma once

#include "lines.h"

namespace autotune::plugin::made {

inline constexpr std::string_view hccl_tuner_backends[] = {"hccl"};
inline constexpr std::string_view hccl_tuner_all_reduce_own[] = {"mesh", "mesh2die", "meshoneshot", "meshtwoshot", "meshchunk", "meshchunktwoshot", "nhr"};
inline constexpr Pair hccl_tuner_all_reduce_native[] = {{"direct", "meshtwoshot"}, {"flat", "meshoneshot"}, {"nhr", "nhr"}};
inline constexpr std::string_view hccl_tuner_all_gather_own[] = {"mesh", "mesh2die", "nhr"};
inline constexpr Pair hccl_tuner_all_gather_native[] = {{"direct", "mesh"}, {"nhr", "nhr"}};
inline constexpr std::string_view hccl_tuner_reduce_scatter_own[] = {"mesh", "mesh2die", "meshchunk", "nhr"};
inline constexpr Pair hccl_tuner_reduce_scatter_native[] = {{"direct", "mesh"}, {"nhr", "nhr"}};
inline constexpr Words hccl_tuner_words[] = {
    {"all_reduce", Counted::kMessage, hccl_tuner_all_reduce_own, hccl_tuner_all_reduce_native},
    {"all_gather", Counted::kPerRank, hccl_tuner_all_gather_own, hccl_tuner_all_gather_native},
    {"reduce_scatter", Counted::kMessage, hccl_tuner_reduce_scatter_own, hccl_tuner_reduce_scatter_native},
};
inline constexpr std::string_view nccl_backends[] = {"nccl", "rccl"};
inline constexpr std::string_view nccl_all_reduce_own[] = {"ring", "tree", "collnet_direct", "collnet_chain", "nvls", "nvls_tree"};
inline constexpr Pair nccl_all_reduce_native[] = {{"ring", "ring"}, {"tree", "tree"}, {"double_tree", "tree"}};
inline constexpr std::string_view nccl_all_gather_own[] = {"ring", "pat", "nvls", "collnet_direct"};
inline constexpr Pair nccl_all_gather_native[] = {{"ring", "ring"}};
inline constexpr std::string_view nccl_reduce_scatter_own[] = {"ring", "pat", "nvls", "collnet_direct"};
inline constexpr Pair nccl_reduce_scatter_native[] = {{"ring", "ring"}};
inline constexpr std::string_view nccl_broadcast_own[] = {"ring"};
inline constexpr Pair nccl_broadcast_native[] = {{"ring", "ring"}, {"chain", "ring"}};
inline constexpr std::string_view nccl_reduce_own[] = {"ring"};
inline constexpr Pair nccl_reduce_native[] = {{"ring", "ring"}, {"chain", "ring"}};
inline constexpr Words nccl_words[] = {
    {"all_reduce", Counted::kMessage, nccl_all_reduce_own, nccl_all_reduce_native},
    {"all_gather", Counted::kMessage, nccl_all_gather_own, nccl_all_gather_native},
    {"reduce_scatter", Counted::kMessage, nccl_reduce_scatter_own, nccl_reduce_scatter_native},
    {"broadcast", Counted::kMessage, nccl_broadcast_own, nccl_broadcast_native},
    {"reduce", Counted::kMessage, nccl_reduce_own, nccl_reduce_native},
};
}  // namespace autotune::plugin::made

namespace autotune::plugin {

inline constexpr Library kHcclTuner{made::hccl_tuner_backends, made::hccl_tuner_words};
inline constexpr Library kNccl{made::nccl_backends, made::nccl_words};

}  // namespace autotune::plugin
