/* The binary interface of HCCL's tuner plugin, version 1, in our own words, so that no vendor header is needed. Names of
 * the interface are HCCL's. Source: hicann/hccl, src/ops/op_common/selector/inc/hccl_tuner_plugin.h, and CANN's
 * hccl_types.h (values of the enumerations). C11 and C++. */
#ifndef AUTOTUNE_PLUGINS_ABI_HCCL_H
#define AUTOTUNE_PLUGINS_ABI_HCCL_H

#include <stddef.h>
#include <stdint.h>

enum { kHcclSuccess = 0 };
enum { kHcclLogWarning = 1, kHcclLogInfo = 2 };
enum { kHcclAllReduce = 2, kHcclAllGather = 6, kHcclReduceScatter = 7 }; /* HcclCMDType */

typedef struct {
  uint32_t nRanks;
  uint32_t nNpusPerServer; /* on this rank's server: not the same on all ranks, if servers differ */
  uint32_t nServers;
  uint32_t nPods;
  uint32_t nSuperPods;
  const char *commName;
  uint64_t bufferSize;
  uint32_t structSize;
} HcclTunerCommInfo;

typedef struct {
  int32_t collType; /* HcclCMDType */
  size_t nBytes;    /* of one rank's input */
  int32_t dataType; /* HcclDataType */
  uint32_t structSize;
} HcclTunerCollInfo;

typedef struct {
  const char *algName;
  const char *engineName;
  const char *executorName;
  const char *templateName;
  float cost; /* below 0: not to be used; the least is taken */
  uint32_t structSize;
} HcclTunerAlgoEntry;

typedef struct {
  int32_t (*ctxCreate)(void *comm, const char *tag, uint64_t size, void **context);
  int32_t (*ctxGet)(void *comm, const char *tag, void **context, uint64_t *size);
  int32_t (*ctxDestroy)(void *comm, const char *tag);
  void (*logFunction)(int level, const char *file, int line, const char *format, ...);
  uint32_t structSize;
} HcclTunerHostFunctions;

typedef struct {
  int32_t (*init)(void *comm, const HcclTunerCommInfo *info, const HcclTunerHostFunctions *host);
  int32_t (*getCollInfo)(void *comm, const HcclTunerCollInfo *call, HcclTunerAlgoEntry *entries, int count, int *matched);
  uint32_t structSize;
} HcclTunerFunctionsV1;

#endif
