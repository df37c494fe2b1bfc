"""Run a llama.cpp server on a free port of 127.0.0.1 and print its address.

usage: llamacpp_server.py MODEL.gguf SLOTS CONTEXT

CONTEXT is the number of tokens of all slots together. One thread per server leaves the machine room for the others.
"""

import socket
import sys
import threading

import xllamacpp


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def main():
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.n_parallel, params.n_ctx = int(sys.argv[2]), int(sys.argv[3])
    params.hostnames = ["127.0.0.1"]
    params.port = free_port()
    params.offline = True
    params.cache_prompt = True
    params.endpoint_metrics = True
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    # Enough that no request has to wait for a thread before the engine sees it.
    params.n_threads_http = 64
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
