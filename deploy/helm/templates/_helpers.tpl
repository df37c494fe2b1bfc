{{- /* The resources of a file, as a list in JSON. Takes Files and the name. */}}
{{- define "warmgate.resources" -}}
{{- $list := list }}
{{- range $document := regexSplit "(?m)^---$" (.Files.Get (printf "files/%s" .name)) -1 }}
{{- $list = append $list (fromYaml $document) }}
{{- end }}
{{- toJson $list }}
{{- end }}

{{- /* The host of a service that the values name. Takes one of istio.services. */}}
{{- define "warmgate.host" -}}
{{- dig "host" (printf "%s.%s.svc.cluster.local" .name .namespace) . }}
{{- end }}

{{- /* The services by HOST:PORT, as a list in JSON. Takes the values below istio. */}}
{{- define "warmgate.services" -}}
{{- $list := list }}
{{- range .services }}
{{- $list = append $list (printf "%s:%d" (include "warmgate.host" .) (int .port)) }}
{{- end }}
{{- toJson $list }}
{{- end }}

{{- /* Fails if one of some values is not the default: it has no effect. Takes values and defaults, the paths, and why
it has none. */}}
{{- define "warmgate.unused" -}}
{{- range $path := .paths }}
{{- $value := $.values }}
{{- $default := $.defaults }}
{{- range $key := splitList "." $path }}
{{- $value = get $value $key }}
{{- $default = get $default $key }}
{{- end }}
{{- if ne (toJson $value) (toJson $default) }}
{{- fail (printf "%s has no effect %s" $path $.why) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The plugin's configuration on Istio and Envoy Gateway, in JSON: that of the values, or else of the resource, with
the names of the clusters that the chart makes. A rule inherits nothing, so each part with a policy has them. What is no
rule becomes the last one, for the services, if there are any; but not what chooses the cluster, for which a route has
none. Takes Values, the configuration of the resource, shipped, and the services by HOST:PORT. */}}
{{- define "warmgate.config" -}}
{{- $shipped := deepCopy .shipped }}
{{- range dig "_rules_" list $shipped }}
{{- $shipped = omit . "_match_service_" }}
{{- end }}
{{- $envoy := $shipped.lb_config.envoy }}
{{- $own := dict "envoy" $envoy }}
{{- if not .Values.metrics.enabled }}
{{- $_ := unset $envoy "metrics_cluster" }}
{{- end }}
{{- if .Values.redis.enabled }}
{{- $_ := set $envoy "redis_cluster" "warmgate-redis" }}
{{- range $key, $value := pick .Values.redis "username" "password" }}
{{- if $value }}
{{- $_ = set $own $key $value }}
{{- end }}
{{- end }}
{{- end }}
{{- $config := deepCopy (default $shipped .Values.config) }}
{{- range $part := prepend (dig "_rules_" list $config) $config }}
{{- if hasKey $part "lb_policy" }}
{{- $mine := deepCopy $own }}
{{- if dig "lb_config" "envoy" "endpoints" nil $part }}
{{- $_ := unset $mine.envoy "admin_cluster" }}
{{- end }}
{{- $_ := set $part "lb_config" (merge (dig "lb_config" dict $part) $mine) }}
{{- end }}
{{- end }}
{{- $rest := omit $config "_rules_" }}
{{- if and .services $rest (not (include "warmgate.amongClusters" $rest)) }}
{{- $rules := append (dig "_rules_" list $config) (set $rest "_match_service_" .services) }}
{{- $config = dict "_rules_" $rules }}
{{- end }}
{{- toJson $config }}
{{- end }}

{{- /* Milliseconds of a duration: a number, or a text such as 1.5s. */}}
{{- define "warmgate.ms" -}}
{{- if kindIs "string" . }}
{{- $from := toDate "2006-01-02" "2000-01-01" }}
{{- sub ($from | dateModify .).UnixMilli $from.UnixMilli }}
{{- else }}
{{- int64 . }}
{{- end }}
{{- end }}

{{- /* Fails if keys of one part of the plugin's configuration do not fit together: the plugin would refuse it, and its
requests would be balanced natively. Takes gateway, metrics and redis (whether the chart makes a way to them), bodies
(whether the plugin can read them), and the part with its name. */}}
{{- define "warmgate.check" -}}
{{- $policy := .part.lb_policy }}
{{- $keys := dig "lb_config" dict .part }}
{{- $among := dig "lb_type" "endpoint" .part }}
{{- $push := dig "push" "blind" $keys }}
{{- $byMetrics := has $policy (list "endpoint_metrics" "metrics_based") }}
{{- if eq .gateway "higress" }}
{{- if hasKey $keys "envoy" }}
{{- fail (printf "%s: lb_config.envoy is for stock Envoy, Istio and Envoy Gateway" .name) }}
{{- end }}
{{- else }}
{{- if and (dig "serviceFQDN" "" $keys) (not (or .redis (dig "envoy" "redis_cluster" "" $keys))) }}
{{- fail (printf "%s: lb_config.serviceFQDN is for higress: on %s, set redis.enabled" .name .gateway) }}
{{- end }}
{{- if and $byMetrics (not (or .metrics (dig "envoy" "metrics_cluster" "" $keys))) }}
{{- fail (printf "%s: lb_policy %s needs metrics.enabled" .name $policy) }}
{{- end }}
{{- end }}
{{- if not .bodies }}
{{- if or (has $policy (list "prefix_cache" "token_budget")) (eq (dig "unit" "" $keys) "tokens") }}
{{- fail (printf "%s reads the bodies of requests, which istio.trafficExtension cannot" .name) }}
{{- end }}
{{- end }}
{{- if eq $push "outstanding" }}
{{- if not (or (dig "max_inflight" 0 $keys) (dig "max_inflight_tokens" 0 $keys) (dig "maxRequestCount" 0 $keys)) }}
{{- fail (printf "%s: lb_config.push outstanding needs max_inflight or max_inflight_tokens" .name) }}
{{- end }}
{{- end }}
{{- if and (ne $among "cluster") (or $byMetrics (eq $policy "prefix_cache") (eq $push "pending")) }}
{{- $interval := dig "metrics" "interval" "1s" $keys }}
{{- $stale := dig "metrics" "stale_after" "3s" $keys }}
{{- if le (include "warmgate.ms" $stale | int64) (include "warmgate.ms" $interval | int64) }}
{{- fail (printf "%s: lb_config.metrics.stale_after is %v, want more than interval, %v" .name $stale $interval) }}
{{- end }}
{{- end }}
{{- if and (eq $policy "token_budget") (not (dig "targets" nil $keys)) }}
{{- fail (printf "%s: lb_policy token_budget needs lb_config.targets" .name) }}
{{- end }}
{{- if eq $policy "cluster_metrics" }}
{{- if ne $among "cluster" }}
{{- fail (printf "%s: lb_policy cluster_metrics needs lb_type: cluster" .name) }}
{{- end }}
{{- range $key := list "mode" "service_list" }}
{{- if not (dig $key nil $keys) }}
{{- fail (printf "%s: lb_policy cluster_metrics needs lb_config.%s" $.name $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
