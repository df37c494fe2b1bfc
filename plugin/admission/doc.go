// Package admission is the admission API: callers that send requests to the targets of token_budget themselves ask
// which target they may use, and say when they are done. [API] answers their requests, as [host.Answer]; which targets
// there are, and where tasks are counted, is asked of a [Core].
package admission
