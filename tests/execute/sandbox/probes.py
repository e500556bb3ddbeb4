"""Hostile programs: each runs inside the sandbox and prints a line for everything that gave way.

Each is Python with `PRELUDE` before it; `facts` (the test's knowledge of the machine, as JSON in its first argument)
lists what there is to find outside. A probe that prints nothing but `end` has found no way.
"""

from __future__ import annotations

PRELUDE = """
import ctypes, errno, fcntl, json, os, resource, signal, socket, stat, struct, subprocess, sys
facts = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)

def broken(what):
    print("broken:", what, flush=True)

def call(number, *words):
    ctypes.set_errno(0)
    answer = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(w) if isinstance(w, int) else w for w in words))
    return 0 if answer >= 0 else ctypes.get_errno()

def refused(what, number, *words, by=errno.EPERM):
    told = call(number, *words)
    if told != by:
        broken(f"{what} answered {errno.errorcode.get(told, told)}")

def fails(what, action, *words):
    try:
        action(*words)
    except OSError:
        return
    broken(what)

def reads(path):
    with open(path, "rb") as file:
        return file.read(65536)
"""

EPILOGUE = "\nprint('end')\n"

# Names of the calls are those of x86-64: where the processor is another one, only the probes without numbers run.
QUIET: dict[str, str] = {
    "the agent's environment and memory": """
for process in (facts["agent"], facts["keeper"]):
    for name in ("environ", "mem", "maps", "fd", "root", "cwd"):
        fails(f"/proc/{process}/{name}", os.stat, f"/proc/{process}/{name}")
for name in set(filter(str.isdigit, os.listdir("/proc"))) - {"1"}:
    if facts["canary"].encode() in reads(f"/proc/{name}/environ"):
        broken(f"the canary is in the environment of {name}")
""",
    "reading another process": """
here = ctypes.create_string_buffer(8)
local = struct.pack("PN", ctypes.addressof(here), 8)
for process in (os.getppid(), facts["agent"]):
    refused("process_vm_readv", 310, process, local, 1, local, 1, 0)
    refused("process_vm_writev", 311, process, local, 1, local, 1, 0)
refused("kcmp", 312, os.getpid(), os.getppid(), 0, 0, 0)
refused("pidfd_getfd", 438, 0, 0, 0)
""",
    "tracing": """
for request, process in ((0, 0), (16, os.getppid()), (0x4206, os.getppid()), (16, facts["agent"])):
    refused(f"ptrace {request}", 101, request, process, 0, 0)
""",
    "signals to outside": """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for process in (facts["agent"], facts["keeper"], facts["neighbour"]):
    fails(f"a signal to {process}", os.kill, process, signal.SIGKILL)
fails("a signal to everybody", os.kill, -1, signal.SIGTERM)
""",
    "other attempts' files": """
for view in ("", "/proc/self/root", "/proc/1/root", "/proc/self/cwd/..", "/proc/thread-self/root"):
    for place in (facts["data"], facts["precious"], "/root", "/home", "/var/lib", "/etc/shadow", "/sys", "/boot"):
        if os.path.lexists(view + place):
            broken(f"sees {view}{place}")
if sorted(os.listdir("/task")) != [".rota-script", "checkpoint"]:
    broken(f"finds {os.listdir('/task')} in its own folder")
for name in ("/etc/passwd", "/etc/group"):
    if len(reads(name).splitlines()) != 2:
        broken(f"{name} has the machine's")
""",
    "writing outside": """
places = ("/", "/usr", "/usr/bin", "/usr/local/lib", "/bin", "/lib", "/etc", "/run", "/var", "/var/tmp", "/proc", "/dev")
for place in places:
    fails(f"a file in {place}", os.open, f"{place}/probe", os.O_CREAT | os.O_WRONLY)
    fails(f"a folder in {place}", os.mkdir, f"{place}/probe-folder")
for name in ("/etc/passwd", "/etc/ld.so.cache", "/usr/bin/env", sys.executable):
    fails(f"{name} opened for writing", os.open, name, os.O_WRONLY)
    fails(f"{name} changed", os.chmod, name, 0o777)
fails("a hard link to the system", os.link, "/usr/bin/env", "/task/env")
""",
    "mounts": """
import pathlib
pathlib.Path("/task/here").mkdir()
refused("mount", 165, b"none", b"/task/here", b"tmpfs", 0, 0)
refused("mount of cgroups", 165, b"none", b"/task/here", b"cgroup2", 0, 0)
refused("remount", 165, b"none", b"/usr", b"none", 0x1020, 0)
refused("umount2", 166, b"/proc", 2)
refused("pivot_root", 155, b"/task", b"/task/here")
refused("chroot", 161, b"/task")
for name, number in (("open_tree", 428), ("move_mount", 429), ("fsopen", 430), ("fsconfig", 431), ("fsmount", 432),
                     ("fspick", 433), ("mount_setattr", 442)):
    refused(name, number, 0, 0, 0, 0, 0)
""",
    "namespaces": """
for flag in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000, 0x80):
    refused(f"unshare {flag:x}", 272, flag)
    if flag != 0x80:
        refused(f"clone {flag:x}", 56, flag | signal.SIGCHLD, 0, 0, 0, 0)
refused("clone3", 435, ctypes.create_string_buffer(88), 88, by=errno.ENOSYS)
refused("setns", 308, os.open("/proc/self/ns/net", os.O_RDONLY), 0)
""",
    "devices": """
for place in ("/task/device", "/tmp/device"):
    for kind, number in ((stat.S_IFBLK, os.makedev(254, 0)), (stat.S_IFCHR, os.makedev(1, 1))):
        fails(f"mknod {place}", os.mknod, place, 0o600 | kind, number)
known = {"console", "core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty",
         "urandom", "zero"}
if set(os.listdir("/dev")) - known:
    broken(f"/dev has {sorted(set(os.listdir('/dev')) - known)}")
""",
    "keys": """
refused("add_key", 248, b"user", b"probe", b"x", 1, -3)
refused("request_key", 249, b"user", b"probe", 0, -3)
refused("keyctl", 250, 0, -3, 0)
""",
    "doors of the kernel": """
blank = ctypes.create_string_buffer(256)
for name, number in (("bpf", 321), ("perf_event_open", 298), ("io_uring_setup", 425), ("io_uring_enter", 426),
                     ("io_uring_register", 427), ("userfaultfd", 323), ("init_module", 175), ("finit_module", 313),
                     ("delete_module", 176), ("kexec_load", 246), ("kexec_file_load", 320), ("reboot", 169),
                     ("swapon", 167), ("acct", 163), ("quotactl", 179), ("syslog", 103), ("fanotify_init", 300),
                     ("name_to_handle_at", 303), ("open_by_handle_at", 304), ("iopl", 172), ("ioperm", 173),
                     ("move_pages", 279), ("lookup_dcookie", 212), ("uselib", 134), ("vhangup", 153)):
    refused(name, number, blank, 0, 0, 0, 0)
fails("userfaultfd by its device", os.open, "/dev/userfaultfd", os.O_RDWR)
""",
    "a foreign instruction set": """
import mmap
refused("an x32 call", 0x40000000 + 39, by=errno.ENOSYS)
if os.uname().machine == "x86_64":
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex("b814000000cd80c3"))  # getpid of 32 bits
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    child = os.fork()
    if child == 0:
        function()
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in (-signal.SIGSYS, -signal.SIGSEGV):
        broken(f"a 32-bit call ended with {status}")
""",
    "raw and odd sockets": """
for family, kind, protocol in ((2, socket.SOCK_RAW, 1), (10, socket.SOCK_RAW, 58), (17, socket.SOCK_RAW, 0x300),
                               (17, socket.SOCK_DGRAM, 0x300), (38, socket.SOCK_SEQPACKET, 0), (40, socket.SOCK_STREAM, 0),
                               (44, socket.SOCK_RAW, 0), (29, socket.SOCK_RAW, 1)):
    fails(f"a socket of family {family}", socket.socket, family, kind, protocol)
route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
route.bind((0, 0))
route.send(struct.pack("=IHHIIBxHiII", 32, 16, 5, 1, 0, 0, 0, 1, 0, 1))  # take lo down
answer = route.recv(4096)
if struct.unpack_from("=i", answer, 16)[0] == 0:
    broken("it can change its interfaces")
""",
    "connections": """
def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.settimeout(5)
        client.connect(address)
fails("loopback of the machine", connect, socket.AF_INET, ("127.0.0.1", facts["port"]))
fails("the metadata address", connect, socket.AF_INET, ("169.254.169.254", 80))
fails("the internet", connect, socket.AF_INET, ("9.9.9.9", 53))
fails("an abstract socket", connect, socket.AF_UNIX, "\\0" + facts["abstract"])
fails("a socket in the file system", connect, socket.AF_UNIX, facts["socket"])
for place in ("/var/run/postgresql/.s.PGSQL.5432", "/tmp/.s.PGSQL.5432", "/run/dbus/system_bus_socket",
              "/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock"):
    fails(place, connect, socket.AF_UNIX, place)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
    fails("a datagram", client.sendto, b"x", ("9.9.9.9", 53))
lines = open("/proc/net/dev").read().splitlines()[2:]
if [line.split(":")[0].strip() for line in lines] != ["lo"]:
    broken(f"it has interfaces {lines}")
""",
    "typing into a terminal": """
import pty
ours, theirs = pty.openpty()
for request in (0x5412, 0x541C, 0x100005412):
    refused(f"ioctl {request:x}", 16, theirs, request, ctypes.create_string_buffer(b"x"))
fails("a controlling terminal", os.open, "/dev/tty", os.O_RDWR)
if os.getsid(0) != os.getsid(os.getppid()) and os.getsid(0) > 3:
    broken("it shares a session with somebody")
""",
    "privileges": """
for place in ("/", "/usr", "/task", "/tmp", "/dev/shm", "/etc/passwd"):
    if not os.statvfs(place).f_flag & os.ST_NOSUID:
        broken(f"{place} honours set-user-id")
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    if int(status[key], 16):
        broken(f"{key} is {status[key].strip()}")
if status["NoNewPrivs"].strip() != "1" or status["Seccomp"].strip() != "2":
    broken("no_new_privs or the filter is missing")
for action in (os.setuid, os.setgid, os.seteuid):
    fails(action.__name__, action, 0)
fails("setgroups", os.setgroups, [0])
if os.getgroups() not in ([], [1000], [65534]):
    broken(f"it is in the groups {os.getgroups()}")
import shutil
shutil.copy("/usr/bin/id", "/task/id")
os.chmod("/task/id", 0o6755)
if subprocess.run(["/task/id", "-u"], capture_output=True, text=True).stdout.strip() != "1000":
    broken("a set-user-id file changed who runs it")
""",
    "control groups": """
for line in open("/proc/self/cgroup").read().splitlines():
    if line.split(":", 2)[2] != "/":
        broken(f"it sees where its group is: {line}")
for place in ("/sys", "/sys/fs/cgroup", "/sys/kernel"):
    if os.path.lexists(place):
        broken(f"sees {place}")
for name in ("cgroup.procs", "memory.limit_in_bytes", "memory.max"):
    fails(f"{name} written", os.open, f"/sys/fs/cgroup/{name}", os.O_WRONLY)
""",
    "descriptors without end": """
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
if hard > 65536:
    broken(f"{hard} descriptors are allowed")
opened = []
try:
    while len(opened) <= 70000:
        opened.append(os.open("/dev/null", os.O_RDONLY))
except OSError as error:
    if error.errno != errno.EMFILE:
        broken(f"it ended with {error}")
else:
    broken("no end of descriptors")
for one in opened:
    os.close(one)
""",
    "core dumps": """
if resource.getrlimit(resource.RLIMIT_CORE) != (0, 0):
    broken(f"core dumps of {resource.getrlimit(resource.RLIMIT_CORE)} bytes")
try:
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    broken("it can allow itself core dumps")
except (ValueError, OSError):
    pass
child = os.fork()
if child == 0:
    os.abort()
if os.WCOREDUMP(os.waitpid(child, 0)[1]):
    broken("a core was dumped")
""",
    "settings of the kernel": """
for name in ("sys/kernel/hostname", "sys/kernel/core_pattern", "sys/kernel/ns_last_pid", "sys/vm/overcommit_memory",
             "sys/net/ipv4/ip_forward", "sys/net/ipv4/ping_group_range", "sys/user/max_user_namespaces", "sysrq-trigger",
             "sys/fs/binfmt_misc/register"):
    fails(f"/proc/{name}", lambda: os.write(os.open(f"/proc/{name}", os.O_WRONLY), b"1"))
for name in ("kcore", "kmsg"):
    fails(f"/proc/{name}", reads, f"/proc/{name}")
def harder_to_kill():
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write("-500")
fails("it makes itself harder to kill", harder_to_kill)
if int(open("/proc/self/oom_score_adj").read()) < 500:
    broken("it does not go first when memory is short")
for path, line in (("uid_map", "0 0 1"), ("gid_map", "0 0 1"), ("setgroups", "allow")):
    fails(f"/proc/self/{path} written", lambda: os.write(os.open(f"/proc/self/{path}", os.O_WRONLY), line.encode()))
""",
    "the clock and the name": """
blank = ctypes.create_string_buffer(256)
for name, number in (("clock_settime", 227), ("settimeofday", 164), ("adjtimex", 159), ("clock_adjtime", 305),
                     ("sethostname", 170), ("setdomainname", 171)):
    refused(name, number, blank, 0)
if os.uname().nodename != "rota":
    broken(f"it knows the machine's name {os.uname().nodename}")
""",
    "inherited descriptors": """
for name in os.listdir("/proc/self/fd"):
    if int(name) > 2 and os.path.lexists(f"/proc/self/fd/{name}"):
        target = os.readlink(f"/proc/self/fd/{name}")
        if target != f"/proc/{os.getpid()}/fd":
            broken(f"descriptor {name} is {target}")
for name in filter(str.isdigit, os.listdir("/proc")):
    try:
        links = [os.readlink(f"/proc/{name}/fd/{one}") for one in os.listdir(f"/proc/{name}/fd")]
    except OSError:
        continue
    strange = [link for link in links if "socket:" in link or "memfd:" in link or facts["data"] in link]
    if strange:
        broken(f"process {name} holds {strange}")
if not stat.S_ISFIFO(os.fstat(1).st_mode) or os.readlink("/proc/self/fd/0") != "/dev/null":
    broken("its input is not nothing, or its output not a pipe")
""",
    "the environment": """
known = {"PATH", "HOME", "LANG", "TZ", "TMPDIR", "PWD", "ROTA_TASK_ID", "ROTA_ATTEMPT", "ROTA_IDEMPOTENCY_KEY",
         "ROTA_NODE", "ROTA_WORKDIR", "ROTA_PROGRESS", "ROTA_RESULT", "ROTA_CHECKPOINT",
         "LC_CTYPE"}
if set(os.environ) - known:
    broken(f"it is told {sorted(set(os.environ) - known)}")
if facts["canary"] in str(os.environ) or facts["data"] in str(os.environ):
    broken("its environment tells of the machine")
""",
    "paths of the machine": """
paths = {facts["data"], os.path.dirname(facts["data"]), *facts["installed"]}
if os.listdir("/proc/1"):
    broken("it sees the sandbox's own process")
for name in set(filter(str.isdigit, os.listdir("/proc"))) - {"1"}:
    for file in ("cmdline", "environ"):
        seen = reads(f"/proc/{name}/{file}").replace(sys.argv[1].encode(), b"")  # without what we are told here
        told = [path for path in paths if path.encode() in seen]
        if told:
            broken(f"/proc/{name}/{file} tells {told}")
""",
    "other processes": """
processes = [int(name) for name in os.listdir("/proc") if name.isdigit()]
if len(processes) > 4 or os.getpid() > 20:
    broken(f"it sees the processes {processes}")
if {os.stat(f"/proc/{process}").st_uid for process in processes} != {1000}:
    broken("it sees others' processes")
for table in ("shm", "sem", "msg"):
    if len(open(f"/proc/sysvipc/{table}").read().splitlines()) != 1:
        broken(f"it sees the machine's {table}")
""",
    "what others can be made to run": """
import pathlib
pathlib.Path("/task/.rota-script").unlink()
os.symlink(facts["precious"], "/task/.rota-script")
os.symlink(facts["precious"], "/task/link")
os.mkfifo("/task/fifo")
pathlib.Path("/task/closed/inner").mkdir(parents=True)
os.symlink(facts["precious"], "/task/closed/inner/link")
os.chmod("/task/closed/inner", 0)
os.chmod("/task/closed", 0o500)
""",
    "a folder deeper than a path is long": """
for _ in range(150):
    os.mkdir("d" * 60)
    os.chdir("d" * 60)
os.symlink(facts["precious"], "link")
""",
}

# Each with the limit that must end it.
VIOLENT: dict[str, tuple[str, str]] = {
    "a fork bomb": (
        "pids-limit",
        """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try:
        os.fork()
    except OSError:
        pass
""",
    ),
    "a fork bomb whose children leave": (
        "pids-limit",
        """
while True:
    try:
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
    except OSError:
        pass
""",
    ),
    "more memory than there is": ("oom", "kept = []\nwhile True:\n    kept.append(bytearray(os.urandom(1 << 20)))\n"),
    "memory in children": (
        "oom",
        """
for _ in range(8):
    if os.fork() == 0:
        kept = bytearray(os.urandom(1 << 20)) * 24
        signal.pause()
signal.pause()
""",
    ),
    "memory as a file without a name": (
        "oom",
        """
while True:
    file = os.memfd_create("hidden")
    for _ in range(8):
        os.write(file, bytes(1 << 20))
""",
    ),
    "a file as large as can be": (
        "disk-limit",
        """
with open("/task/large", "wb") as file:
    while True:
        file.write(bytes(1 << 20))
""",
    ),
    "many files": (
        "disk-limit",
        """
for number in range(1000):
    with open(f"/task/{number}", "wb") as file:
        file.write(bytes(1 << 20))
signal.pause()
""",
    ),
    "files without names": (
        "disk-limit",
        """
kept = []
for number in range(40):
    file = os.open("/task/hidden", os.O_CREAT | os.O_RDWR)
    os.unlink("/task/hidden")
    os.write(file, bytes(1 << 20))
    kept.append(file)
signal.pause()
""",
    ),
    "files without names that are only mapped": (
        "disk-limit",
        """
import mmap
kept = []
for number in range(40):
    file = os.open("/task/hidden", os.O_CREAT | os.O_RDWR)
    os.unlink("/task/hidden")
    os.write(file, bytes(1 << 20))
    kept.append(mmap.mmap(file, 1 << 20))
    os.close(file)
signal.pause()
""",
    ),
    "files below a path that is too long": (
        "disk-limit",
        """
for _ in range(100):
    os.mkdir("d" * 60)
    os.chdir("d" * 60)
for number in range(40):
    with open(str(number), "wb") as file:
        file.write(bytes(1 << 20))
signal.pause()
""",
    ),
    "folders without end": (
        "files-limit",
        """
for _ in range(400):
    os.mkdir("d")
    os.chdir("d")
signal.pause()
""",
    ),
}

_FILL = """
size = 0
try:
    for number in range(200):
        file = os.open(f"PLACE/fill-{number}", os.O_CREAT | os.O_WRONLY)
        for _ in range(8):
            size += os.write(file, bytes(1 << 20))
        os.close(file)
except OSError as error:
    if error.errno != errno.ENOSPC:
        broken(f"it ended with {error}")
if size > facts["tmp_bytes"]:
    broken(f"{size} bytes fit into PLACE")
"""
# Contained by a refusal: the task goes on, and is not ended for it.
QUIET |= {f"filling {place}": _FILL.replace("PLACE", place) for place in ("/tmp", "/dev/shm")}
