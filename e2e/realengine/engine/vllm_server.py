"""Run a vLLM server on a free port of 127.0.0.1 and print its address.

usage: vllm_server.py FOLDER SLOTS CONTEXT BLOCKS

FOLDER is what vllm_model.py has written, SLOTS the number of requests that run at once, CONTEXT the tokens of one of
them and BLOCKS the size of the KV cache in blocks of 32 tokens. One thread per server leaves the machine room for the
others.
"""

import os
import pathlib
import runpy
import signal
import socket
import sys
import time

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
}

PATIENCE = 10  # seconds that processes have to end when they are asked to


def die_together():
    """Have all processes that this one starts end when it ends, even if it is killed itself.

    The engine and its workers run in processes of their own and outlive a server that is killed. A process that stays
    apart holds the reading end of a pipe whose writing end only this one has. It asks them to end first: one of them
    deletes the shared memory of the others.
    """
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    group = os.getpid()
    reading, writing = os.pipe()
    if os.fork() > 0:
        os.close(reading)
        return
    os.setsid()
    os.close(writing)
    os.read(reading, 1)
    try:
        os.killpg(group, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            time.sleep(0.05)
            os.killpg(group, 0)
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass  # all are gone
    os._exit(0)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def main():
    folder, slots, context, blocks = sys.argv[1:]
    die_together()
    port = free_port()
    adapters = sorted((pathlib.Path(folder) / "adapters").iterdir())
    sys.argv = [
        "api_server", "--host", "127.0.0.1", "--port", port,
        "--model", folder + "/model", "--served-model-name", "tiny", "--load-format", "dummy",
        "--dtype", "float32", "--enforce-eager",
        "--max-num-seqs", slots, "--max-model-len", context,
        # On CPUs a block is a multiple of 32 tokens.
        "--block-size", "32", "--num-gpu-blocks-override", blocks,
        "--enable-prefix-caching", "--enable-prompt-tokens-details",
        "--enable-lora", "--max-loras", "2", "--max-lora-rank", "8",
        "--lora-modules", *[f"{a.name}={a}" for a in adapters],
    ]
    os.environ.update(ENVIRONMENT)
    print(f"http://127.0.0.1:{port}", flush=True)
    # What vLLM prints is its log.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
