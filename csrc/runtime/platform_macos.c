/*
 * platform_macos.c: quality-of-service classes in the place of affinity, which macOS does not have; the probe, as no
 * other process may read the clocks of our threads; os_sync_wait_on_address, and a barrier of mutex and condition.
 */
#include "platform.h"

#if defined(__APPLE__)

#include <dlfcn.h>
#include <errno.h>
#include <mach/mach.h>
#include <pthread/qos.h>

/* No handler: the probe does the looking. */
void lt_platform_prepare(void) {}

int32_t lt_platform_place(const uint64_t *mask, size_t words, int32_t qos) {
    qos_class_t got = QOS_CLASS_UNSPECIFIED;
    int relative = 0, failure;
    size_t i;
    for (i = 0; mask != NULL && i < words; i++) {
        if (mask[i] != 0) {
            return -ENOTSUP;
        }
    }
    if (qos == 0) {
        return 0;
    }
    failure = pthread_set_qos_class_self_np((qos_class_t)qos, 0);
    if (failure == 0) {
        failure = pthread_get_qos_class_np(pthread_self(), &got, &relative);
    }
    if (failure != 0) {
        return -failure;
    }
    return (int32_t)got == qos ? 1 : -ENODEV;
}

int lt_lower_priority(void) { return pthread_set_qos_class_self_np(QOS_CLASS_BACKGROUND, 0); }

static struct lt_slot *slot_of(struct lt_page_header *page, uint64_t tid) {
    uint32_t i, used = __atomic_load_n(&page->slots_used, __ATOMIC_ACQUIRE);
    uint32_t pid = (uint32_t)getpid();
    for (i = 0; i < used; i++) {
        struct lt_slot *slot = lt_slots(page) + i;
        if (__atomic_load_n(&slot->claimed, __ATOMIC_ACQUIRE) != 0 && LT_LOAD(slot->tid) == tid &&
            LT_LOAD(slot->pid) == pid) {
            return slot;
        }
    }
    return NULL;
}

static uint64_t time_ns(time_value_t time) {
    return (uint64_t)time.seconds * 1000000000u + (uint64_t)time.microseconds * 1000u;
}

static void probe_thread(struct lt_page_header *page, thread_act_t port) {
    static const uint32_t states[] = {
        [TH_STATE_RUNNING] = LT_STATE_RUNNING,     [TH_STATE_STOPPED] = LT_STATE_STOPPED,
        [TH_STATE_WAITING] = LT_STATE_ASLEEP,      [TH_STATE_UNINTERRUPTIBLE] = LT_STATE_ASLEEP,
        [TH_STATE_HALTED] = LT_STATE_STOPPED,
    };
    thread_identifier_info_data_t who;
    thread_basic_info_data_t what;
    mach_msg_type_number_t count = THREAD_IDENTIFIER_INFO_COUNT;
    struct lt_slot *slot;
    if (thread_info(port, THREAD_IDENTIFIER_INFO, (thread_info_t)&who, &count) != KERN_SUCCESS) {
        return;
    }
    count = THREAD_BASIC_INFO_COUNT;
    slot = slot_of(page, who.thread_id);
    if (slot == NULL || thread_info(port, THREAD_BASIC_INFO, (thread_info_t)&what, &count) != KERN_SUCCESS) {
        return;
    }
    LT_STORE(slot->cpu_ns, time_ns(what.user_time) + time_ns(what.system_time));
    if (what.run_state > 0 && what.run_state < (int)(sizeof states / sizeof states[0])) {
        LT_STORE(slot->run_state, states[what.run_state]);
    }
}

void lt_platform_probe(struct lt_page_header *page) {
    thread_act_array_t ports = NULL;
    mach_msg_type_number_t i, count = 0;
    if (task_threads(mach_task_self(), &ports, &count) != KERN_SUCCESS) {
        return;
    }
    for (i = 0; i < count; i++) {
        probe_thread(page, ports[i]);
        mach_port_deallocate(mach_task_self(), ports[i]);
    }
    vm_deallocate(mach_task_self(), (vm_address_t)ports, count * sizeof ports[0]);
}

/*
 * From macOS 14.4. Looked up by name: a weak import would still have to be known to the SDK that we are linked with,
 * and an older one does not know it.
 */
typedef int (*wait_call)(void *word, uint64_t value, size_t size, uint32_t flags);
typedef int (*wake_call)(void *word, size_t size, uint32_t flags);
static wait_call wait_on_address;
static wake_call wake_by_address_all;

const char *lt_word_unavailable(void) {
    /* POSIX has dlsym's result stored through a void *, as C does not convert it to a pointer to a function. */
    *(void **)&wait_on_address = dlsym(RTLD_DEFAULT, "os_sync_wait_on_address");
    *(void **)&wake_by_address_all = dlsym(RTLD_DEFAULT, "os_sync_wake_by_address_all");
    return wait_on_address != NULL && wake_by_address_all != NULL ? NULL : "os_sync_wait_on_address needs macOS 14.4";
}

void lt_word_wait(uint32_t *word, uint32_t seen) { wait_on_address(word, seen, sizeof *word, 0); }

void lt_word_wake_all(uint32_t *word) { wake_by_address_all(word, sizeof *word, 0); }

struct os_barrier {
    pthread_mutex_t lock;
    pthread_cond_t moved_on;
    uint32_t n, arrived, generation;
};

void *lt_os_barrier_new(uint32_t n) {
    struct os_barrier *barrier = (struct os_barrier *)calloc(1, sizeof *barrier);
    if (barrier != NULL) {
        pthread_mutex_init(&barrier->lock, NULL);
        pthread_cond_init(&barrier->moved_on, NULL);
        barrier->n = n;
    }
    return barrier;
}

void lt_os_barrier_wait(void *at) {
    struct os_barrier *barrier = (struct os_barrier *)at;
    uint32_t seen;
    pthread_mutex_lock(&barrier->lock);
    seen = barrier->generation;
    if (++barrier->arrived == barrier->n) {
        barrier->arrived = 0;
        barrier->generation++;
        pthread_cond_broadcast(&barrier->moved_on);
    }
    while (barrier->generation == seen) {
        pthread_cond_wait(&barrier->moved_on, &barrier->lock);
    }
    pthread_mutex_unlock(&barrier->lock);
}

void lt_os_barrier_free(void *at) {
    struct os_barrier *barrier = (struct os_barrier *)at;
    pthread_cond_destroy(&barrier->moved_on);
    pthread_mutex_destroy(&barrier->lock);
    free(barrier);
}

#endif /* __APPLE__ */
