"""Run a vLLM server on a GPU, with the arguments of its own command line, until the program that runs this one ends."""

import os
import runpy
import sys

from vllm_server import die_together

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_SERVER_DEV_MODE": "1",  # for /reset_prefix_cache
    "VLLM_HOST_IP": "127.0.0.1",
    "GLOO_SOCKET_IFNAME": "lo",
    "NCCL_SOCKET_IFNAME": "lo",
    "TOKENIZERS_PARALLELISM": "false",
}

# Where the caller says nothing else.
DEFAULTS = {
    "OMP_NUM_THREADS": "2",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",  # flashinfer need not be there
}


def main():
    die_together()
    os.environ.update({**DEFAULTS, **os.environ, **ENVIRONMENT})
    sys.argv[0] = "api_server"
    # What vLLM prints is its log.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
