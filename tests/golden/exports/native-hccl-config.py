"""HCCL process groups that autotune chose, and which call goes to which. Made by: autotune export.

    groups = make_groups()                      # once, on every rank, after init_process_group("hccl")
    dist.all_reduce(tensor, group=groups[group_of("all_reduce", tensor.nbytes, "float32", dist.get_world_size())])

message_bytes is the larger of a rank's input and output: of an all_gather the gathered output. Run on hardware: no.
"""

PROCESS = {}

GROUPS = {
    'group0': {'hccl_algo': 'allgather=level0:NA;level1:NB/allreduce=level0:NA;level1:ring/alltoall=level0:NA;level1:pairwise/reduce=level0:NA;level1:H-D_R/reducescatter=level0:NA;level1:H-D_R'},
    'group1': {'hccl_algo': 'allgather=level0:NA;level1:ring/allreduce=level0:NA;level1:NHR/alltoall=level0:NA;level1:pairwise/reduce=level0:NA;level1:H-D_R/reducescatter=level0:NA;level1:ring'},
}

# collective, ranks, element type (None: any), first size, first size after it, group
ROUTES = [
    ('all_gather', 3, None, 30, 1000, 'group0'),
    ('all_gather', 3, None, 1000, 100000, 'group1'),
    ('all_reduce', 4, 'bfloat16', 8, 4194304, 'group0'),
    ('all_reduce', 4, 'float32', 8192, 262144, 'group0'),
    ('all_reduce', 8, 'float32', 1024, 65536, 'group1'),
    ('all_reduce', 8, 'float32', 65536, 1048577, 'group0'),
    ('all_to_all', 4, None, 4096, 65537, 'group0'),
    ('reduce', 4, 'float32', 4096, 65537, 'group0'),
    ('reduce_scatter', 4, 'float32', 64, 4096, 'group0'),
    ('reduce_scatter', 4, 'float32', 4096, 65537, 'group1'),
]


def make_groups():
    """One group for each of GROUPS; every rank calls this in the same order."""
    import os

    import torch.distributed as dist
    import torch_npu

    missing = {name: value for name, value in PROCESS.items() if os.environ.get(name) != value}
    if missing:
        raise RuntimeError(f"export these before the job starts: {missing}")
    groups = {None: None}
    for name, config in GROUPS.items():
        options = torch_npu._C._distributed_c10d.ProcessGroupHCCL.Options()
        options.hccl_config = dict(config)
        groups[name] = dist.new_group(backend="hccl", pg_options=options)
    return groups


def group_of(collective, message_bytes, dtype, n_ranks):
    """The group of a call; None, which is the job's own group, where nothing was measured."""
    for route in ROUTES:
        if route[:2] == (collective, n_ranks) and route[2] in (None, dtype) and route[3] <= message_bytes < route[4]:
            return route[5]
    return None
