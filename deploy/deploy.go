// Package deploy has what the Helm chart says of its values, for programs that check them.
package deploy

import _ "embed"

// ValuesSchema is the JSON schema of the chart's values.
//
//go:embed helm/values.schema.json
var ValuesSchema []byte

// Values are the defaults of the chart's values, in YAML.
//
//go:embed helm/values.yaml
var Values []byte
