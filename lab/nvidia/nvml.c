/* Stand-in for NVIDIA's libnvidia-ml.so.1, for machines without NVIDIA GPUs: NVIDIA's device plugin and GPU feature
 * discovery find the GPUs that a directory lists.
 *
 * Each subdirectory of $STRATA_PCI_ROOT (default /etc/strata/pci/devices) is a PCI device, with the files of
 * /sys/bus/pci/devices; a GPU if vendor is 0x10de and device is in kinds.h, which strata_lab.nvml writes. More files,
 * read at each call, change what is reported:
 *   uuid   GPU-...; default: a hash of $NODE_NAME and the address
 *   xid    number of an Xid error: those who wait for events get one whenever it changes; 0 or no file: none
 * A directory that vanishes is a GPU that fell off the bus: Xid 79, and errors from calls that need the hardware.
 *
 * Signatures and constants are those of the public header nvml.h (go-nvml ships it). A function that is missing would
 * end the calling process: strata_lab.nvml adds one that says "not supported" for each that callers refer to. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15
};
enum { NVIDIA = 0x10de, MAX_CARDS = 16, OFF_THE_BUS = 79, NO_INSTANCE = -1 };
enum { EVENT_SINGLE_BIT_ECC = 1, EVENT_DOUBLE_BIT_ECC = 2, EVENT_XID = 8, POLL_MS = 100 };
enum { BRAND_TESLA = 2, BRAND_NVIDIA = 14, TOPOLOGY_INTERNAL = 0, TOPOLOGY_NODE = 40, TOPOLOGY_SYSTEM = 50 };

struct kind {
    unsigned device;
    const char *name;
    uint64_t mebibytes;
    int major, minor; /* compute capability */
    unsigned instances; /* MIG devices at most; 0: no MIG */
};
static const struct kind KINDS[] = {
#include "kinds.h"
};

struct card {
    char address[16], path[512], uuid[48];
    unsigned domain, bus, slot, index;
    const struct kind *kind;
};
static struct card cards[MAX_CARDS];
static unsigned count;
static int users;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int read_text(const struct card *card, const char *name, char *out, size_t size) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", card->path, name);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    size_t length = fread(out, 1, size - 1, file);
    fclose(file);
    while (length && isspace((unsigned char)out[length - 1])) length--;
    out[length] = 0;
    return length > 0;
}

static long read_number(const struct card *card, const char *name, long otherwise) {
    char text[64];
    return read_text(card, name, text, sizeof text) ? strtol(text, NULL, 0) : otherwise;
}

static uint64_t fnv1a(const char *text, uint64_t hash) {
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash;
}

static void find_uuid(struct card *card) {
    if (read_text(card, "uuid", card->uuid, sizeof card->uuid)) return;
    const char *node = getenv("NODE_NAME");
    uint64_t first = fnv1a(card->address, fnv1a(node ? node : "", 0xcbf29ce484222325u));
    uint64_t second = fnv1a(card->address, first);
    snprintf(card->uuid, sizeof card->uuid, "GPU-%08x-%04x-%04x-%04x-%012llx", (unsigned)(first >> 32),
             (unsigned)(first >> 16) & 0xffff, (unsigned)first & 0xffff, (unsigned)(second >> 48),
             (unsigned long long)(second & 0xffffffffffffu));
}

static int by_address(const void *a, const void *b) {
    return strcmp(((const struct card *)a)->address, ((const struct card *)b)->address);
}

static void discover(void) {
    const char *root = getenv("STRATA_PCI_ROOT");
    if (!root || !*root) root = "/etc/strata/pci/devices";
    count = 0;
    DIR *directory = opendir(root);
    if (!directory) return;
    for (struct dirent *entry; (entry = readdir(directory)) && count < MAX_CARDS;) {
        struct card *card = &cards[count];
        memset(card, 0, sizeof *card);
        unsigned function;
        if (sscanf(entry->d_name, "%x:%x:%x.%x", &card->domain, &card->bus, &card->slot, &function) != 4) continue;
        snprintf(card->address, sizeof card->address, "%.15s", entry->d_name);
        snprintf(card->path, sizeof card->path, "%s/%.15s", root, entry->d_name);
        if (read_number(card, "vendor", 0) != NVIDIA) continue;
        long device = read_number(card, "device", 0);
        for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
            if ((long)KINDS[i].device == device) card->kind = &KINDS[i];
        if (!card->kind) continue;
        find_uuid(card);
        count++;
    }
    closedir(directory);
    qsort(cards, count, sizeof *cards, by_address);
    for (unsigned i = 0; i < count; i++) cards[i].index = i;
}

static int lost(const struct card *card) { return access(card->path, F_OK) != 0; }

static int put(char *to, unsigned size, const char *text) {
    if (!to) return INVALID_ARGUMENT;
    if (strlen(text) >= size) return INSUFFICIENT_SIZE;
    strcpy(to, text);
    return SUCCESS;
}

/* what a GPU is called is known also once it is lost */
#define KNOWN(card) do { if (!users) return UNINITIALIZED; if (!(card)) return INVALID_ARGUMENT; } while (0)
#define THERE(card) do { KNOWN(card); if (lost(card)) return GPU_IS_LOST; } while (0)

/* --- library and driver */

EXPORT int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&lock);
    if (!users) discover();
    int result = count ? SUCCESS : DRIVER_NOT_LOADED; /* the kernel module does not load where it finds no GPU */
    if (result == SUCCESS) users++;
    pthread_mutex_unlock(&lock);
    return result;
}
EXPORT int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
EXPORT int nvmlInit(void) { return nvmlInitWithFlags(0); }

EXPORT int nvmlShutdown(void) {
    pthread_mutex_lock(&lock);
    int result = users ? SUCCESS : UNINITIALIZED;
    if (users) users--;
    pthread_mutex_unlock(&lock);
    return result;
}

EXPORT const char *nvmlErrorString(int result) {
    switch (result) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case TIMEOUT: return "Timeout";
    case GPU_IS_LOST: return "GPU is lost";
    default: return "Unknown Error";
    }
}

EXPORT int nvmlSystemGetDriverVersion(char *to, unsigned size) { return put(to, size, DRIVER_VERSION); }
EXPORT int nvmlSystemGetNVMLVersion(char *to, unsigned size) { return put(to, size, "13." DRIVER_VERSION); }
EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return SUCCESS; }
EXPORT int nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

/* --- which GPUs there are */

EXPORT int nvmlDeviceGetCount_v2(unsigned *number) {
    if (!users) return UNINITIALIZED;
    *number = count;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetCount(unsigned *number) { return nvmlDeviceGetCount_v2(number); }

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct card **card) {
    if (!users) return UNINITIALIZED;
    if (index >= count) return INVALID_ARGUMENT;
    *card = &cards[index];
    return lost(*card) ? GPU_IS_LOST : SUCCESS;
}
EXPORT int nvmlDeviceGetHandleByIndex(unsigned index, struct card **card) {
    return nvmlDeviceGetHandleByIndex_v2(index, card);
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, struct card **card) {
    if (!users) return UNINITIALIZED;
    for (unsigned i = 0; i < count; i++)
        if (!strcmp(cards[i].uuid, uuid)) return nvmlDeviceGetHandleByIndex_v2(i, card);
    return NOT_FOUND;
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *id, struct card **card) {
    unsigned domain, bus, slot, function;
    if (!users) return UNINITIALIZED;
    if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) return INVALID_ARGUMENT;
    for (unsigned i = 0; i < count; i++)
        if (cards[i].domain == domain && cards[i].bus == bus && cards[i].slot == slot)
            return nvmlDeviceGetHandleByIndex_v2(i, card);
    return NOT_FOUND;
}
EXPORT int nvmlDeviceGetHandleByPciBusId(const char *id, struct card **card) {
    return nvmlDeviceGetHandleByPciBusId_v2(id, card);
}

/* --- what a GPU is */

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char address[32]; };
EXPORT int nvmlDeviceGetPciInfo_v3(struct card *card, struct pci *pci) {
    KNOWN(card);
    memset(pci, 0, sizeof *pci);
    snprintf(pci->legacy, sizeof pci->legacy, "%04X:%02X:%02X.0", card->domain & 0xffff, card->bus & 0xff,
             card->slot & 0xff);
    snprintf(pci->address, sizeof pci->address, "%08X:%02X:%02X.0", card->domain, card->bus, card->slot);
    pci->domain = card->domain;
    pci->bus = card->bus;
    pci->device = card->slot;
    pci->id = card->kind->device << 16 | NVIDIA;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetName(struct card *card, char *to, unsigned size) {
    KNOWN(card);
    return put(to, size, card->kind->name);
}
EXPORT int nvmlDeviceGetUUID(struct card *card, char *to, unsigned size) {
    KNOWN(card);
    return put(to, size, card->uuid);
}
EXPORT int nvmlDeviceGetIndex(struct card *card, unsigned *index) { KNOWN(card); *index = card->index; return SUCCESS; }
EXPORT int nvmlDeviceGetMinorNumber(struct card *card, unsigned *minor) {
    KNOWN(card);
    *minor = card->index;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetBrand(struct card *card, int *brand) {
    KNOWN(card);
    *brand = strncmp(card->kind->name, "Tesla", 5) ? BRAND_NVIDIA : BRAND_TESLA;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetArchitecture(struct card *card, unsigned *architecture) {
    KNOWN(card);
    int major = card->kind->major, minor = card->kind->minor;
    /* Pascal 4, Volta 5, Turing 6, Ampere 7, Ada 8, Hopper 9, Blackwell 10 */
    *architecture = major == 6 ? 4 : major == 7 ? (minor < 5 ? 5 : 6) : major == 8 ? (minor < 9 ? 7 : 8)
                  : major == 9 ? 9 : 10;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetCudaComputeCapability(struct card *card, int *major, int *minor) {
    KNOWN(card);
    *major = card->kind->major;
    *minor = card->kind->minor;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetMigMode(struct card *card, unsigned *now, unsigned *next) {
    KNOWN(card);
    if (!card->kind->instances) return NOT_SUPPORTED;
    *now = *next = 0;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetMaxMigDeviceCount(struct card *card, unsigned *most) {
    KNOWN(card);
    *most = card->kind->instances;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(struct card *card, unsigned index, struct card **mig) {
    (void)index;
    (void)mig;
    KNOWN(card);
    return NOT_FOUND;
}
EXPORT int nvmlDeviceIsMigDeviceHandle(struct card *card, unsigned *mig) { KNOWN(card); *mig = 0; return SUCCESS; }
EXPORT int nvmlDeviceGetTopologyCommonAncestor(struct card *a, struct card *b, int *level) {
    THERE(a);
    THERE(b);
    *level = a == b ? TOPOLOGY_INTERNAL
           : read_number(a, "numa_node", 0) == read_number(b, "numa_node", 0) ? TOPOLOGY_NODE : TOPOLOGY_SYSTEM;
    return SUCCESS;
}
struct memory { unsigned long long total, free, used; };
EXPORT int nvmlDeviceGetMemoryInfo(struct card *card, struct memory *memory) {
    THERE(card);
    memory->total = memory->free = card->kind->mebibytes << 20;
    memory->used = 0;
    return SUCCESS;
}

/* --- events */

struct event { struct card *card; unsigned long long type, data; int gpu_instance, compute_instance; };
struct set { long last[MAX_CARDS]; unsigned long long types[MAX_CARDS]; };

EXPORT int nvmlEventSetCreate(struct set **set) {
    *set = calloc(1, sizeof **set);
    return *set ? SUCCESS : INVALID_ARGUMENT;
}
EXPORT int nvmlEventSetFree(struct set *set) { free(set); return SUCCESS; }
EXPORT int nvmlDeviceGetSupportedEventTypes(struct card *card, unsigned long long *types) {
    THERE(card);
    *types = EVENT_SINGLE_BIT_ECC | EVENT_DOUBLE_BIT_ECC | EVENT_XID;
    return SUCCESS;
}
EXPORT int nvmlDeviceRegisterEvents(struct card *card, unsigned long long types, struct set *set) {
    THERE(card);
    set->types[card->index] = types;
    return SUCCESS;
}
EXPORT int nvmlEventSetWait_v2(struct set *set, struct event *event, unsigned milliseconds) {
    for (unsigned waited = 0;; waited += POLL_MS) {
        if (!users) return UNINITIALIZED;
        for (unsigned i = 0; i < count; i++) {
            if (!(set->types[i] & EVENT_XID)) continue;
            long xid = lost(&cards[i]) ? OFF_THE_BUS : read_number(&cards[i], "xid", 0);
            if (xid == set->last[i]) continue;
            set->last[i] = xid;
            if (!xid) continue;
            *event = (struct event){&cards[i], EVENT_XID, (unsigned long long)xid, NO_INSTANCE, NO_INSTANCE};
            return SUCCESS;
        }
        if (waited >= milliseconds) return TIMEOUT;
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
    }
}
EXPORT int nvmlEventSetWait(struct set *set, struct event *event, unsigned milliseconds) {
    return nvmlEventSetWait_v2(set, event, milliseconds);
}
