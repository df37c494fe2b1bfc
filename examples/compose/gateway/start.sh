#!/bin/sh
# Starts Envoy with the files of envoy-config, but it listens at all addresses of its container, counts in Redis, and
# has the listeners of listeners.yaml besides. It reads copies: Envoy sees a change of a file only where the file is
# replaced by another one.
set -eu
shipped=/envoy-config own=/gateway
sed 's/address: 127.0.0.1, port_value: 10000/address: 0.0.0.0, port_value: 10000/' $shipped/envoy.yaml >envoy.yaml
sed 's/address: 127.0.0.1, port_value: 6379/address: redis, port_value: 6379/' $shipped/redis-tunnel.yaml >more.yaml
cat $own/lds.yaml >>more.yaml
cp $own/clusters.yaml $own/listeners.yaml $own/warmgate.yaml .
exec envoy -c envoy.yaml --config-yaml "$(cat more.yaml)" --concurrency 2
