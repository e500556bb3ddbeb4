/*
 * Spawns a process without a fork: the child shares the keeper's memory until it executes another program.
 *
 * A fork copies the page tables of the whole process, and each page that either side writes to afterwards; for a Python
 * program that takes a millisecond, several times the rest of a spawn. Here the keeper is suspended (CLONE_VFORK) while
 * the child, on the keeper's own stack (CLONE_VM), enters its control groups, limits, mount namespace and user number,
 * and executes. posix_spawn works like this too, but without the groups, the limits and the user number.
 *
 * Between the clone and the exec the child makes only plain system calls and writes only `trouble` and the stack:
 * everything else in memory is the keeper's. All signals are blocked meanwhile. `confined_exec.py` has the same steps in
 * Python, for installations without a compiler; they must stay the same.
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#define INTO_CGROUP 0x200000000ULL
#define NOT_STARTED 125

/* The steps, numbered as in confined_exec.STEPS. */
enum { SPAWN, DESCRIPTORS, GROUPS, LIMITS, VIEW, USER, PROGRAM };

struct clone_arguments {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

struct order {
    char *program, **argv, **env;
    long (*descriptors)[2]; /* from, to */
    Py_ssize_t descriptor_count;
    char **files, **words; /* each word is written to its file, in this order */
    long (*limits)[2];     /* resource, maximum */
    Py_ssize_t limit_count;
    long view; /* a mount namespace, -1: the keeper's */
    long user; /* -1: the keeper's */
};

struct trouble {
    int step, number;
};

/*
 * Inlined into the caller's frame: a function around this call would return twice, the second time on a stack that the
 * child has used.
 */
static inline __attribute__((always_inline)) long clone_here(struct clone_arguments *arguments)
{
#if defined(__x86_64__)
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_clone3), "D"(arguments), "S"(sizeof *arguments)
                     : "rcx", "r11", "memory", "cc");
    return result;
#elif defined(__aarch64__)
    register long number __asm__("x8") = SYS_clone3;
    register long result __asm__("x0") = (long)arguments;
    register long size __asm__("x1") = sizeof *arguments;
    __asm__ volatile("svc 0" : "+r"(result) : "r"(number), "r"(size) : "memory", "cc");
    return result;
#else
#error "there is no system call instruction for this machine here; confined_exec.py forks instead"
#endif
}

static int write_word(const char *file, const char *word)
{
    int descriptor = open(file, O_WRONLY | O_CLOEXEC);
    if (descriptor < 0)
        return -1;
    ssize_t written = write(descriptor, word, strlen(word));
    int number = errno;
    close(descriptor);
    errno = number;
    return written < 0 ? -1 : 0;
}

static int lower(int which, rlim_t value)
{
    struct rlimit limit;
    if (syscall(SYS_prlimit64, 0, which, NULL, &limit) != 0)
        return -1;
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < value)
        value = limit.rlim_max;
    limit.rlim_cur = limit.rlim_max = value;
    return (int)syscall(SYS_prlimit64, 0, which, &limit, NULL);
}

static int take_descriptors(const struct order *order)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++)
        sigaction(number, &plain, NULL); /* the few that can't be set have no handler */
    if (setsid() < 0)
        return -1;
    for (Py_ssize_t each = 0; each < order->descriptor_count; each++)
        if (dup2((int)order->descriptors[each][0], (int)order->descriptors[each][1]) < 0)
            return -1;
    return 0;
}

static int take_user(long user)
{
    if (user < 0)
        return 0;
    /* Not through the C library, which would change all threads of the keeper. */
    if (syscall(SYS_setgroups, 0, NULL) != 0 || syscall(SYS_setresgid, user, user, user) != 0)
        return -1;
    return (int)syscall(SYS_setresuid, user, user, user);
}

static __attribute__((noinline, noreturn)) void become(const struct order *order, volatile struct trouble *trouble)
{
    sigset_t none;
    trouble->step = DESCRIPTORS;
    if (take_descriptors(order) != 0)
        goto failed;
    trouble->step = GROUPS;
    for (char **file = order->files, **word = order->words; *file != NULL; file++, word++)
        if (write_word(*file, *word) != 0)
            goto failed;
    trouble->step = LIMITS;
    for (Py_ssize_t each = 0; each < order->limit_count; each++)
        if (lower((int)order->limits[each][0], (rlim_t)order->limits[each][1]) != 0)
            goto failed;
    trouble->step = VIEW;
    if ((order->view >= 0 && setns((int)order->view, CLONE_NEWNS) != 0) || chdir("/") != 0)
        goto failed;
    trouble->step = USER;
    if (take_user(order->user) != 0)
        goto failed;
    trouble->step = PROGRAM;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(order->program, order->argv, order->env);
failed:
    trouble->number = errno;
    _exit(NOT_STARTED);
}

static __attribute__((noinline)) long enter_child(const struct order *order, long group, volatile struct trouble *trouble)
{
    struct clone_arguments arguments = {.flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD};
    if (group >= 0) {
        arguments.flags |= INTO_CGROUP;
        arguments.cgroup = (uint64_t)group;
    }
    long process = clone_here(&arguments);
    if (process == 0)
        become(order, trouble);
    return process;
}

/* ---- the Python interface ---------------------------------------------------------------------------------------- */

/* A list of bytes as C strings with NULL after the last; they are valid as long as the list. */
static char **words_of(PyObject *list)
{
    Py_ssize_t count = PyList_Size(list);
    char **words = PyMem_Calloc((size_t)count + 1, sizeof *words);
    if (words == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t each = 0; each < count; each++) {
        if (PyBytes_AsStringAndSize(PyList_GetItem(list, each), &words[each], NULL) != 0) { /* refuses embedded NULs */
            PyMem_Free(words);
            return NULL;
        }
    }
    return words;
}

static long (*pairs_of(PyObject *list, Py_ssize_t *count))[2]
{
    *count = PyList_Size(list);
    long(*pairs)[2] = PyMem_Calloc((size_t)*count + 1, sizeof *pairs);
    if (pairs == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t each = 0; each < *count; each++)
        if (!PyArg_ParseTuple(PyList_GetItem(list, each), "ll", &pairs[each][0], &pairs[each][1])) {
            PyMem_Free(pairs);
            return NULL;
        }
    return pairs;
}

static PyObject *spawned(const struct order *order, long group)
{
    volatile struct trouble trouble = {SPAWN, 0}; /* written by the child, which the compiler can't see */
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    long process = enter_child(order, group, &trouble);
    if (process > 0 && trouble.number != 0)
        while (waitpid((pid_t)process, NULL, 0) < 0 && errno == EINTR)
            ;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (process < 0)
        return Py_BuildValue("(lii)", 0L, SPAWN, (int)-process);
    return Py_BuildValue("(lii)", trouble.number != 0 ? 0L : process, trouble.step, trouble.number);
}

static PyObject *spawn_program(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *argv, *env, *descriptors, *files, *words, *limits, *result = NULL;
    long group;
    struct order order = {0};
    if (!PyArg_ParseTuple(arguments, "yO!O!O!O!O!O!lll:spawn_program", &order.program, &PyList_Type, &argv, &PyList_Type,
                          &env, &PyList_Type, &descriptors, &PyList_Type, &files, &PyList_Type, &words, &PyList_Type,
                          &limits, &group, &order.view, &order.user))
        return NULL;
    if (PyList_Size(argv) == 0 || PyList_Size(files) != PyList_Size(words)) {
        PyErr_SetString(PyExc_ValueError, "there must be an argument, and a word for each file");
        return NULL;
    }
    if ((order.argv = words_of(argv)) != NULL && (order.env = words_of(env)) != NULL &&
        (order.files = words_of(files)) != NULL && (order.words = words_of(words)) != NULL &&
        (order.descriptors = pairs_of(descriptors, &order.descriptor_count)) != NULL &&
        (order.limits = pairs_of(limits, &order.limit_count)) != NULL)
        result = spawned(&order, group);
    PyMem_Free(order.argv);
    PyMem_Free(order.env);
    PyMem_Free(order.files);
    PyMem_Free(order.words);
    PyMem_Free(order.descriptors);
    PyMem_Free(order.limits);
    return result;
}

static PyMethodDef methods[] = {
    {"spawn_program", spawn_program, METH_VARARGS,
     "spawn_program(program, argv, env, descriptors, files, words, limits, group, view, user) -> (process, step, errno)\n\n"
     "The id of the new process; 0 with the failed step and its errno."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_confined_exec", .m_doc = "Spawns without a fork.", .m_size = 0, .m_methods = methods,
};

PyMODINIT_FUNC PyInit__confined_exec(void) { return PyModuleDef_Init(&definition); }
