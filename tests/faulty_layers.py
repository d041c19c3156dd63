"""Layers of one's own that do to their process, in the pass that their name tells, whatever a layer can do to it.

`SegfaultsInLatency` does so in the pass `latency`, at seq_len 7 and nowhere else; in other passes it is a right layer.
"""

from __future__ import annotations

from own_layers import RIGHT

# Of the sequence at which they misbehave.
SEQ_LEN = 7

FAULTY = (
    RIGHT
    + '''

import ctypes, os, resource, signal, subprocess, sys, threading, time


running = open(os.path.join(os.environ["MHA_BENCH_CHILD"], "running"))


def phase():
    """The pass that runs, as the file that the measuring process maps tells it."""
    running.seek(0)
    return running.read().partition("\\t")[0]


def in_pass(name, fault):
    class Faulty(Right):
        def forward(self, x):
            y = super().forward(x)
            return fault(y) if x.shape[1] == 7 and phase() == name else y

    return Faulty


class InConstructor(Right):
    fault = None

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        type(self).fault(torch.zeros(1))


class Mute(BaseException):
    def __str__(self):
        raise ValueError("no words")


class Sticky(Exception):
    def __setattr__(self, name, value):
        raise ValueError("nothing is set")


def give(value):
    return lambda y: value(y)


def throw(error):
    def fault(y):
        raise error
    return fault


def wrap_out_of_memory(y):
    try:
        torch.empty(2**42)
    except RuntimeError as error:
        raise ValueError("the layer says: can't allocate memory") from error


def limit_memory(y):
    with open("/proc/self/status") as file:
        used = int(file.read().split("VmData:")[1].split()[0]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (used + 2**26, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    return y + torch.zeros(2**28).sum()


def change_everything(y):
    os.chdir("/")
    os.nice(1)
    signal.signal(signal.SIGALRM, print)
    signal.setitimer(signal.ITIMER_REAL, 600)
    resource.setrlimit(resource.RLIMIT_NOFILE, (211, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return y


def fork_and_return(y):
    os.fork()
    return y


def fork_and_die(y):
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)


def write_everywhere(y):
    for descriptor in (1, 2):
        os.write(descriptor, b"\\x1b[31m\\0" * 2**18)
    return y


def remove_the_folder(y):
    import shutil
    shutil.rmtree(os.environ["MHA_BENCH_CHILD"], ignore_errors=True)
    return y


SegfaultsInLatency = in_pass("latency", lambda y: ctypes.string_at(0))
AbortsInMemory = in_pass("memory", lambda y: os.abort())
ForksAndDiesInCheck = in_pass("check", fork_and_die)
InterruptsInWarmUp = in_pass("warm-up", throw(KeyboardInterrupt()))
MuteInLatency = in_pass("latency", throw(Mute()))
StickyInCheck = in_pass("check", throw(Sticky("planted")))
MuchInWarmUp = in_pass("warm-up", throw(ValueError("\\x1b[31m\\0\\ud800\\n" + "x" * 10**7)))
ExitsSoftlyInCheck = in_pass("check", lambda y: sys.exit(3))
TorchOomInLatency = in_pass("latency", lambda y: torch.empty(2**42))
TorchOomInMemory = in_pass("memory", lambda y: torch.empty(2**42))
PythonOomInWarmUp = in_pass("warm-up", lambda y: bytearray(2**62))
WrappedOomInCheck = in_pass("check", wrap_out_of_memory)
LimitedInCheck = in_pass("check", limit_memory)
ChangesInCheck = in_pass("check", change_everything)
ForksInCheck = in_pass("check", fork_and_return)
WritesInWarmUp = in_pass("warm-up", write_everywhere)
RemovesInCheck = in_pass("check", remove_the_folder)
NanInCheck = in_pass("check", lambda y: y * float("nan"))
InfinityInCheck = in_pass("check", lambda y: y / 0)
ShapeInCheck = in_pass("check", lambda y: y[:, :-1])
DtypeInCheck = in_pass("check", lambda y: y.double())
NothingInCheck = in_pass("check", lambda y: None)
TupleInCheck = in_pass("check", lambda y: (y, None))


class TorchOomInBuild(InConstructor):
    fault = lambda y: torch.empty(2**42)


class StartsThings(Right):
    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        if phase() == "build":
            command = [sys.executable, "-c", "import time; time.sleep(600)", "mha-bench grandchild"]
            subprocess.Popen(command, start_new_session=True)
            threading.Thread(target=time.sleep, args=(600,), daemon=True).start()


class HoldsTheInterpreter(Right):
    """Starts what flees its session, and then never comes back to Python."""

    def __init__(self, d_model, num_heads):
        import tempfile
        tempfile.mkstemp(prefix="left-by-a-layer-")  # as a compiler does that is ended in the middle
        command = [sys.executable, "-c", "import time; time.sleep(600)", "mha-bench grandchild"]
        subprocess.Popen(command, start_new_session=True)
        subprocess.Popen(command)
        ctypes.PyDLL(None).sleep(600)


class Eats(Right):
    """Takes memory until the kernel ends it."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        kept = []
        while True:
            kept.append(b"x" * 2**24)


class Kills(Right):
    """As someone from outside would."""

    def __init__(self, d_model, num_heads):
        os.kill(os.getpid(), signal.SIGKILL)


class Probe(Right):
    """Writes into the working folder what its process holds: resident bytes, bytes in tensors."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        import gc, json
        gc.collect()
        tensors = [each for each in gc.get_objects() if isinstance(each, torch.Tensor)]
        with open("/proc/self/statm") as file:
            resident = int(file.read().split()[1]) * resource.getpagesize()
        with open("probed.jsonl", "a") as file:
            print(json.dumps([resident, sum(each.nbytes for each in tensors)]), file=file)


def hog(y):
    held = torch.ones(2**25)
    try:
        torch.empty(2**42)
    except RuntimeError as error:
        raise ValueError("can't allocate memory, beside what is held") from error


class HogsInBuild(InConstructor):
    fault = hog


HogsInCheck = in_pass("check", hog)
HogsInLatency = in_pass("latency", hog)
HogsInMemory = in_pass("memory", hog)
'''
)
