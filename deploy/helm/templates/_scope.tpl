{{- /* Whether a part of the plugin's configuration chooses among clusters: then its route has none yet. Takes the
part. */}}
{{- define "warmgate.amongClusters" -}}
{{- if or (eq (dig "lb_type" "" .) "cluster") (dig "lb_config" "regions" nil .) }}true{{ end }}
{{- end }}

{{- /* The rules of the plugin's configuration, as a list in JSON: the name of each in the values, its part of the
configuration and the name of that, and its conditions, the stronger ones first. Takes Values. */}}
{{- define "warmgate.rules" -}}
{{- $list := list }}
{{- range $i, $rule := dig "_rules_" list .Values.config }}
{{- $name := printf "config._rules_[%d]" $i }}
{{- $keys := list "_match_route_" "_match_domain_" "_match_service_" "_match_route_prefix_" }}
{{- $list = append $list (dict "name" $name "part" $rule "partName" $name "keys" $keys "from" $rule) }}
{{- end }}
{{- range $i, $rule := .Values.higress.matchRules }}
{{- if not (dig "configDisable" false $rule) }}
{{- $name := printf "higress.matchRules[%d]" $i }}
{{- $more := dict "keys" (list "ingress" "domain" "service") "from" $rule }}
{{- $list = append $list (merge (dict "name" $name "part" $rule.config "partName" (printf "%s.config" $name)) $more) }}
{{- end }}
{{- end }}
{{- $rules := list }}
{{- range $rule := $list }}
{{- $conditions := list }}
{{- range $key := $rule.keys }}
{{- with get $rule.from $key }}
{{- $names := . }}
{{- if kindIs "string" . }}{{ $names = list . }}{{ end }}
{{- $conditions = append $conditions (dict "key" $key "names" $names) }}
{{- end }}
{{- end }}
{{- $rules = append $rules (set (omit $rule "keys" "from") "conditions" $conditions) }}
{{- end }}
{{- toJson $rules }}
{{- end }}

{{- /* What is for all requests of the gateway, whoever is named elsewhere, as a list in JSON: what it is, and whether
it is switched on. Envoy Gateway gives the plugin no requests but those of the named routes. Takes Values. */}}
{{- define "warmgate.wide" -}}
{{- $list := list }}
{{- $rest := omit .Values.config "_rules_" }}
{{- $on := dig "enabled" true $rest }}
{{- if and $rest (eq .Values.gateway "higress") }}
{{- $list = append $list (dict "what" "config" "on" true) }}
{{- else if eq (dig "lb_type" "" $rest) "cluster" }}
{{- $list = append $list (dict "what" "config (lb_type: cluster)" "on" $on) }}
{{- else if include "warmgate.amongClusters" $rest }}
{{- $list = append $list (dict "what" "config (lb_config.regions)" "on" $on) }}
{{- end }}
{{- range $rule := include "warmgate.rules" . | fromJsonArray }}
{{- $on := dig "enabled" true $rule.part }}
{{- range $condition := $rule.conditions }}
{{- range $name := $condition.names }}
{{- if and (has $condition.key (list "domain" "_match_domain_")) (not (trimAll "*." $name)) }}
{{- $list = append $list (dict "what" (printf "%s (%s: %s)" $rule.name $condition.key $name) "on" $on) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (eq .Values.gateway "istio") .Values.istio.route.create (has "*" .Values.istio.route.hosts) }}
{{- $list = append $list (dict "what" "istio.route.hosts (*)" "on" true) }}
{{- end }}
{{- if eq .Values.gateway "envoy-gateway" }}{{ $list = list }}{{ end }}
{{- toJson $list }}
{{- end }}

{{- /* What the plugin touches, for the notes: a line for each, or that it is switched off. Takes Values, and the
services on Istio by HOST:PORT. */}}
{{- define "warmgate.scope" -}}
{{- $lines := list }}
{{- $all := list }}
{{- range include "warmgate.wide" . | fromJsonArray }}
{{- if .on }}{{ $all = append $all .what }}{{ end }}
{{- end }}
{{- range $rule := include "warmgate.rules" . | fromJsonArray }}
{{- if dig "enabled" true $rule.part }}
{{- $conditions := list }}
{{- range $rule.conditions }}
{{- $conditions = append $conditions (printf "%s %s" .key (toJson .names)) }}
{{- end }}
{{- $lines = append $lines (printf "%s: %s" $rule.name (join ", " $conditions)) }}
{{- end }}
{{- end }}
{{- $rest := omit .Values.config "_rules_" }}
{{- if and (eq .Values.gateway "istio") (dig "enabled" true $rest) (not (include "warmgate.amongClusters" $rest)) }}
{{- if or $rest (not .Values.config) }}
{{- range .services }}{{ $lines = append $lines . }}{{ end }}
{{- end }}
{{- end }}
{{- if not (or $all $lines) -}}
which is switched off.
{{- else -}}
for
{{- range $lines }}
- {{ . }}
{{- end }}
{{- if $all }}
- ALL requests of the gateway: {{ join ", " $all }}
{{- else }}
and no other requests.
{{- end }}
{{- end }}
{{- end }}
