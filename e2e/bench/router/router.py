"""Runs a router as its own launcher does, without the parts of the launcher that need further packages.

argv: package, then the router's own arguments. "--describe" as the first of them prints the settings that decide
where a request goes, as JSON, and ends.
"""

import argparse
import importlib
import json
import sys

package, arguments = sys.argv[1], sys.argv[2:]
RouterArgs = importlib.import_module(package + ".router_args").RouterArgs
Router = importlib.import_module(package + ".router").Router

parser = argparse.ArgumentParser()
RouterArgs.add_cli_args(parser)
describe = arguments[:1] == ["--describe"]
args = RouterArgs.from_cli_args(parser.parse_args(arguments[1:] if describe else arguments))
if describe:
    names = (
        "cache_threshold",
        "balance_abs_threshold",
        "balance_rel_threshold",
        "eviction_interval_secs",
        "max_tree_size",
    )
    print(json.dumps({name: getattr(args, name) for name in names}))
    sys.exit()
args._validate_router_args()
Router.from_args(args).start()
