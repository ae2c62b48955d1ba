"""Logs for the importers, written by us in the layouts that the programs print."""

from __future__ import annotations

HCCL_TEST = """\
the minbytes is 1024, maxbytes is 1048576, iters is 20, warmup_iters is 5
data_size(Bytes): |   aveg_time(us): | alg_bandwidth(GB/s): | check_result:
1024              |      10.00       |       0.10240        | success
65536             |      20.00       |       3.27680        | success
1048576           |     100.00       |      10.48576        | success
"""
HCCL_TEST_GIB = """\
data_size(Bytes): |   avg_time(us): | alg_bandwidth(GB/s): | check_result:
1048576           |     100.00      |       9.76563        | success
67108864          |    2500.00      |      25.00000        | NULL
"""
HCCL_TEST_RANKS = """\
[1,0]<stdout>:data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:
[1,1]<stdout>:data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:
[1,0]<stdout>:1024 | 10.00 | 0.10240 | success
[1,1]<stdout>:1024 | 12.50 | 0.08192 | success
[1,0]<stdout>:2048 | 20.00 | 0.10240 | success
[1,1]<stdout>:2048 | 11.00 | 0.18618 | failed
"""
HCCL_TEST_ORDER = """\
check_result: | data_size(Bytes): | avg_time(us): | alg_bandwidth(GB/s):
success | 4096 | 8.0 | 0.512
"""
HCCL_PROFILE = """\
op_type,size_bytes,data_type,reduce_type,engine,algorithm.executor_type,algorithm.template_type,HCCL_BUFFSIZE,\
ranks.ranks,ranks.npus_per_server,ranks.servers,ranks.pods,ranks.super_pods,check_result,alg_bandwidth(GB/s),\
alg_latency(us),timestamp(ms)
allreduce,8192,fp32,sum,aicpu,sole,nhr,200,16,8,2,0,0,success,0.8192,10.0,1700000000000
allreduce,8192,fp32,sum,aiv,sole,meshoneshot,200,16,8,2,0,0,success,1.6384,5.0,1700000001000
allgather,8192,fp32,sum,aicpu,sole,mesh,200,16,8,2,0,0,NULL,0.8192,10.0,1700000002000
allreduce,16384,fp32,sum,aicpu,sole,nhr,200,16,8,2,0,0,failed,0,20.0,1700000003000
allreduce,32768,fp32,sum,aicpu,sole,nhr,200,16,8,2,0,0,noresult,,,1700000004000
"""
NCCL = """\
# nccl-tests version 2.18.2 nccl-headers=23007 nccl-library=23007
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 1 iters: 20 validation: 1
#
# Using devices
#  Rank  0 Group  0 Pid   1234 on      hosta device  0 [0000:01:00] A GPU
#  Rank  1 Group  0 Pid   1235 on      hosta device  1 [0000:02:00] A GPU
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1   100.00   10.49   10.49       0    99.00   10.59   10.59       0
     2097152        524288     float     sum      -1   150.00   13.98   13.98       0   149.00   14.07   14.07     N/A
     4194304       1048576     float     sum      -1   200.00   20.97   20.97       0   199.00   21.08   21.08       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 15.1467
#
"""
NCCL_OLD = """\
# nThread: 1 nGpus: 2 minBytes: 1048576 maxBytes: 1048576 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#                                             out-of-place                    in-place
#       size         count    type   redop     time  algbw  busbw     error     time  algbw  busbw     error
#        (B)    (elements)                     (us) (GB/s) (GB/s)               (us) (GB/s) (GB/s)
     1048576        262144   float     sum    100.0  10.49  10.49     0e+00    99.00  10.59  10.59     0e+00
"""
NCCL_PER_ITERATION = """\
# Collective test starting: all_gather_perf
#  Rank  0 Group  0 Pid   1234 on      hosta device  0 [0000:01:00] A GPU
#  Rank  1 Group  0 Pid   1235 on      hostb device  0 [0000:01:00] A GPU
#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    i_max    i_p99  \
    i_cv%\
     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%           timestamp
     1048576        131072     float    none      -1   100.00   10.49    5.24     N/A    90.00   120.00   119.00  \
     5.00\
    99.00   10.59    5.30     N/A    90.00   120.00   119.00     5.00 2026-01-31 12:00:00
"""
OSU = """\
# OSU MPI Allgather Latency Test v7.5
# Datatype: MPI_CHAR.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
1                       1.34              1.10              2.00        1000
1024                    4.00              3.50              5.00        1000
"""
OSU_PLAIN = """\
# OSU MPI Allreduce Latency Test v5.8
# Size       Avg Latency(us)
4                       1.34
1048576               300.00
"""
IMB = """\
#------------------------------------------------------------
#    Intel(R) MPI Benchmarks 2021.3, MPI-1 part
#------------------------------------------------------------
# MPI_Datatype                   :   MPI_BYTE
# MPI_Datatype for reductions    :   MPI_FLOAT
# MPI_Op                         :   MPI_SUM

#----------------------------------------------------------------
# Benchmarking Allreduce
# #processes = 2
#----------------------------------------------------------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
            0         1000         0.03         0.04         0.03
            4         1000         1.00         2.00         1.50
      1048576           40       280.00       320.00       300.00

#----------------------------------------------------------------
# Benchmarking Allgather
# #processes = 4
#----------------------------------------------------------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
         1024         1000         3.00         5.00         4.00

#----------------------------------------------------------------
# Benchmarking PingPong
# #processes = 2
#----------------------------------------------------------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
            4         1000         3.00         5.00         4.00
# All processes entering MPI_Finalize
"""
MS_MODELING = """\
message_bytes,num_devices,dtype,topology_tier,Duration(us),bandwidth_gbps
1024,8,BF16,1,5.4,0.19
65536,8,BF16,1,20.0,3.3
""".replace("BF16", "bf16")
PLAIN = """\
# from a page
collective,n_ranks,message_bytes,algorithm,time_us,busbw_gb_per_s
all_reduce,8,1000000,ring,12,145.8
all_reduce,8,1000000,tree,8,218.75
"""
LOGS = {
    "hccl_test": HCCL_TEST,
    "hccl-profile": HCCL_PROFILE,
    "nccl-tests": NCCL,
    "osu": OSU,
    "imb": IMB,
    "msmodeling": MS_MODELING,
    "csv": PLAIN,
}
