{{- /* Fails if GOMEMLIMIT, such as 48MiB, is no bound that a VM can work with: below it Go does nothing but collect
garbage, and a VM has 4 GiB at most. */}}
{{- define "warmgate.checkSize" -}}
{{- $unit := get (dict "KiB" 1 "MiB" 1024 "GiB" 1048576) (regexFind "[KMG]iB$" .) | int64 }}
{{- $size := mul (regexFind "^[0-9]+" . | trunc 9 | float64) $unit }}
{{- if or (lt $size 16384) (gt $size 2097152) (gt (len .) 12) }}
{{- fail (printf "memoryLimit is %s, want 16MiB to 2GiB: it bounds the Go heap of each VM" .) }}
{{- end }}
{{- end }}

{{- /* Fails if values of Istio do not fit together. Takes the values below istio, and what warmgate.unused takes. */}}
{{- define "warmgate.checkIstio" -}}
{{- with .istio.route }}
{{- if not .create }}
{{- $why := "without istio.route.create" }}
{{- $paths := list "istio.route.hosts" "istio.route.namespace" }}
{{- include "warmgate.unused" (merge (dict "paths" $paths "why" $why) $.unused) }}
{{- else if not .hosts }}
{{- fail "istio.route.hosts has the host names of the route; for none, set istio.route.create to false" }}
{{- end }}
{{- end }}
{{- $names := list }}
{{- range .istio.services }}
{{- if has .name $names }}
{{- fail (printf "istio.services has two of the name %s: EnvoyFilters are called after it" .name) }}
{{- end }}
{{- $names = append $names .name }}
{{- $short := list (printf "%s.%s" .name .namespace) (printf "%s.%s.svc" .name .namespace) }}
{{- $host := include "warmgate.host" . }}
{{- if or (has $host $short) (not (contains "." $host)) }}
{{- fail (printf "istio.services: the host %s is no whole name and matches nothing, want %s.%s.svc.cluster.local %s"
  $host .name .namespace "or another one that istioctl proxy-config clusters lists") }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Fails if values of Envoy Gateway do not fit together. Takes v, the values below envoyGateway, whether metrics are
enabled, and what warmgate.unused takes. */}}
{{- define "warmgate.checkEnvoyGateway" -}}
{{- $v := .v }}
{{- $byService := and .metrics (has $v.metricsBy (list "HTTPRoute" "backends")) }}
{{- if not .metrics }}
{{- $paths := list "envoyGateway.metricsBy" }}
{{- include "warmgate.unused" (merge (dict "paths" $paths "why" "without metrics.enabled") .unused) }}
{{- end }}
{{- if $v.create }}
{{- if and (kindIs "slice" $v.listener) (gt (len $v.listener) 1) }}
{{- fail (printf "envoyGateway.listener names %d: the Gateway that the chart makes has one; for your own, set %s"
  (len $v.listener) "envoyGateway.create to false") }}
{{- end }}
{{- if lt (include "warmgate.ms" $v.drainTimeout | int64) 60000 }}
{{- fail (printf "envoyGateway.drainTimeout is %s, want 60s or more, and more than the longest answers: what takes %s"
  $v.drainTimeout "longer is cut at each change of the plugin") }}
{{- end }}
{{- else }}
{{- $why := "without envoyGateway.create: write it into your own Gateway and EnvoyProxy" }}
{{- $paths := list "envoyGateway.class" "envoyGateway.drainTimeout" }}
{{- include "warmgate.unused" (merge (dict "paths" $paths "why" $why) .unused) }}
{{- end }}
{{- if has "*" $v.route.hosts }}
{{- fail (print "envoyGateway.route.hosts: '*' is no host name of an HTTPRoute: on the Gateway that the chart makes, "
  "[] is for all; on your own, name the hosts") }}
{{- end }}
{{- if $v.route.create }}
{{- if and (not $v.create) (not $v.route.hosts) }}
{{- fail (print "envoyGateway.route.hosts has the host names of the route: without one it would take all that no other "
  "route of your Gateway matches; for no route, set envoyGateway.route.create to false") }}
{{- end }}
{{- else }}
{{- if not $v.routes }}
{{- fail "envoyGateway.routes names the HTTPRoutes that the plugin is for, as the chart makes none" }}
{{- end }}
{{- $paths := list "envoyGateway.route.hosts" }}
{{- if not $byService }}{{ $paths = append $paths "envoyGateway.route.service" }}{{ end }}
{{- if not $byService }}{{ $paths = append $paths "envoyGateway.route.port" }}{{ end }}
{{- include "warmgate.unused" (merge (dict "paths" $paths "why" "without envoyGateway.route.create") .unused) }}
{{- if and $byService (not $v.route.service) }}
{{- fail (printf "envoyGateway.route.service names the service that metrics come from, with envoyGateway.metricsBy %s"
  $v.metricsBy) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Fails if a rule is for other requests than it seems, or for none. The plugin compares one kind of condition, as
Higress does, but for routes with services. Takes gateway, and a rule of warmgate.rules. */}}
{{- define "warmgate.checkRule" -}}
{{- $name := .rule.name }}
{{- $keys := list }}
{{- range .rule.conditions }}{{ $keys = append $keys .key }}{{ end }}
{{- if not $keys }}
{{- fail (printf "%s names nothing that it is for, want %s" $name
  "one of _match_route_, _match_route_prefix_, _match_domain_ and _match_service_") }}
{{- end }}
{{- $kinds := without $keys "service" "_match_service_" }}
{{- if not (has (first $keys) (list "ingress" "_match_route_")) }}{{ $kinds = $keys }}{{ end }}
{{- if gt (len $kinds) 1 }}
{{- fail (printf "%s: %s has no effect beside %s, so that the rule is for more than both name: leave one out" $name
  (last $kinds) (first $keys)) }}
{{- end }}
{{- if hasKey .rule.part "_rules_" }}
{{- fail (printf "%s._rules_ has no effect inside a rule: write each into higress.matchRules" .rule.partName) }}
{{- end }}
{{- if eq .gateway "envoy-gateway" }}
{{- range $condition := .rule.conditions }}
{{- range $condition.names }}
{{- if and (hasPrefix "_match_route_" $condition.key) (not (regexMatch "^[a-z]+route/" .)) }}
{{- fail (printf "%s.%s: %s matches nothing, as routes are called httproute/NAMESPACE/NAME/rule/0/match/0/HOST: want %s"
  $name $condition.key . "their beginnings in _match_route_prefix_, such as httproute/default/llm/") }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Fails if allRequests does not say what is so. Takes Values. */}}
{{- define "warmgate.checkScope" -}}
{{- if ne .Values.gateway "envoy-gateway" }}
{{- $all := list }}
{{- $any := false }}
{{- range include "warmgate.wide" . | fromJsonArray }}
{{- $any = true }}
{{- if .on }}{{ $all = append $all .what }}{{ end }}
{{- end }}
{{- $said := (get .Values .Values.gateway).allRequests }}
{{- if and $all (not $said) }}
{{- fail (printf "%s is for all requests of the gateway: set %s.allRequests to say so, or name what is meant %s"
  (join ", " $all) .Values.gateway "in a rule") }}
{{- end }}
{{- if and $said (not $any) }}
{{- fail (printf "nothing is for all requests of the gateway: set %s.allRequests to say so, and only then"
  .Values.gateway) }}
{{- end }}
{{- end }}
{{- end }}
