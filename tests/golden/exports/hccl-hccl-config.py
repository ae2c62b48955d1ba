"""HCCL process groups that autotune chose, and which call goes to which. Made by: autotune export.

    groups = make_groups()                      # once, on every rank, after init_process_group("hccl")
    dist.all_reduce(tensor, group=groups[group_of("all_reduce", tensor.nbytes, "float32", dist.get_world_size())])

message_bytes is the larger of a rank's input and output: of an all_gather the gathered output. Run on hardware: no.
"""

PROCESS = {}

GROUPS = {
    'group0': {'hccl_op_expansion_mode': 3},
    'group1': {'hccl_algo': 'allreduce=level0:NA;level1:NHR'},
}

# collective, ranks, element type (None: any), first size, first size after it, group
ROUTES = [
    ('all_gather', 16, None, 1024, 1048576, 'group0'),
    ('all_gather', 16, None, 1048576, 8388608, 'group1'),
    ('all_reduce', 16, 'float32', 1024, 1048576, 'group0'),
    ('all_reduce', 16, 'float32', 1048576, 8388608, 'group1'),
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
