"""The process that bears the grading processes.

It loads the computer algebra system once and forks a ready process in milliseconds whenever it is asked to. It
never grades itself, so nothing that an answer does can stop it. It ends, and kills its children, when the process
that started it ends.

On its control socket, ``fork`` with one end of a socket pair is answered by a process id, and
``kill <process id>`` by how that process ended: an exit code, or minus a signal, which may have come before. A
grading process serves its own socket, see `envgym.rewards.grading.protocol`.
"""

import os
import resource
import signal
import socket
import sys

from envgym.rewards.grading.protocol import MAX_PACKET, Judgement, Readings, read_request
from envgym.rewards.grading.symbolic import judge

MEMORY_BYTES = 768 << 20
"""Address space of a grading process, the loaded libraries included."""
OUT_OF_TIME = signal.SIGPROF
"""The signal by which the kernel ends a grading process that has used up its processor time."""


def main(descriptor: int) -> None:
    """Serve the control socket until its other end is closed."""
    control = socket.socket(fileno=descriptor)
    judge([(r"\frac{x}{2}", "0.5x")])  # loads what sympy and the grammar load late, for all children at once
    control.send(b"ready")
    children: set[int] = set()
    while True:
        packet, descriptors, _, _ = socket.recv_fds(control, 64, 1)
        command, _, argument = packet.decode().partition(" ")
        if command == "fork":
            child = _fork(control, descriptors[0])
            children.add(child)
            control.send(str(child).encode())
        elif command == "kill":
            children.remove(int(argument))
            control.send(str(_end(int(argument))).encode())
        else:
            break
    for child in children:
        _end(child)


def _fork(control: socket.socket, descriptor: int) -> int:
    child = os.fork()
    if child:
        os.close(descriptor)
        return child
    control.close()
    _serve(socket.socket(fileno=descriptor))
    os._exit(0)


def _end(child: int) -> int:
    """Kill, reap, and tell how it ended. The id cannot have been given away, as nobody else reaps."""
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _serve(requests: socket.socket) -> None:
    """Answer requests until the other end is closed."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(OUT_OF_TIME, signal.SIG_DFL)
    while packet := requests.recv(MAX_PACKET):
        readings, processor_s = read_request(packet)
        signal.setitimer(signal.ITIMER_PROF, processor_s)
        judgement = _answer(readings)
        signal.setitimer(signal.ITIMER_PROF, 0)
        requests.send(judgement.encode())


def _answer(readings: Readings) -> Judgement:
    try:
        return judge(readings)
    except Exception:  # whatever sympy raises on a strange formula: reported as a status, not swallowed
        return "error"


if __name__ == "__main__":
    main(int(sys.argv[1]))
