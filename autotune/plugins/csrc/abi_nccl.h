/* The binary interface of NCCL's tuner plugins, versions 2 to 5, in our own words, so that no vendor header is needed.
 * Source: NVIDIA/nccl, src/include/plugin/tuner/tuner_v2.h to tuner_v5.h, nccl_tuner.h, nccl_common.h. C11 and C++. */
#ifndef AUTOTUNE_PLUGINS_ABI_NCCL_H
#define AUTOTUNE_PLUGINS_ABI_NCCL_H

#include <stddef.h>
#include <stdint.h>

enum { kNcclSuccess = 0 };
enum { kNcclLogWarning = 2, kNcclLogInfo = 3 };
enum { kNcclTuning = 0x40 };
enum { kNcclBroadcast, kNcclReduce, kNcclAllGather, kNcclReduceScatter, kNcclAllReduce, kNcclFunctions };
enum { kNcclProtocols = 3, kNcclAlgorithms = 7 };

typedef void (*NcclLogger)(int level, unsigned long flags, const char *file, int line, const char *format, ...);

typedef struct {
  const char *name;
  int (*init)(size_t nRanks, size_t nNodes, NcclLogger logger, void **context);
  int (*getCollInfo)(void *context, int function, size_t nBytes, int collNetSupport, int nvlsSupport, int numPipeOps,
                     int *algorithm, int *protocol, int *nChannels);
  int (*destroy)(void *context);
} NcclTunerV2;

/* The table of costs is one array of numAlgo x numProto floats, whatever its type says. */
typedef struct {
  const char *name;
  int (*init)(size_t nRanks, size_t nNodes, NcclLogger logger, void **context);
  int (*getCollInfo)(void *context, int function, size_t nBytes, int numPipeOps, float **costs, int numAlgo, int numProto,
                     int *nChannels);
  int (*destroy)(void *context);
} NcclTunerV3;

typedef struct {
  const char *name;
  int (*init)(size_t nRanks, size_t nNodes, NcclLogger logger, void **context);
  int (*getCollInfo)(void *context, int function, size_t nBytes, int numPipeOps, float **costs, int numAlgo, int numProto,
                     int regBuff, int *nChannels);
  int (*destroy)(void *context);
} NcclTunerV4;

typedef struct {
  const char *name;
  int (*init)(void **context, uint64_t communicator, size_t nRanks, size_t nNodes, NcclLogger logger, void *domains,
              void *constants);
  int (*getCollInfo)(void *context, int function, size_t nBytes, int numPipeOps, float **costs, int numAlgo, int numProto,
                     int regBuff, int *nChannels);
  int (*finalize)(void *context);
} NcclTunerV5;

#endif
