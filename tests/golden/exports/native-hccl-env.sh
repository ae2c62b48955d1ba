export HCCL_ALGO='allgather=level0:NA;level1:NB/allreduce=level0:NA;level1:ring/alltoall=level0:NA;level1:pairwise/reduce=level0:NA;level1:H-D_R/reducescatter=level0:NA;level1:H-D_R'
